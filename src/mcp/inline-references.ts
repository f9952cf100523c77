/**
 * Writes referred schemas in place of the references to them: many clients of the Model Context
 * Protocol do not resolve `$ref`. References of recursive schemas stay.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  annotations,
  findRecursive,
  findReferred,
  mapChildren,
  readReference,
  referencesIn
} from '../named/schema-parts.ts'

/** Maximum characters that inlining adds to a schema. References beyond it stay. */
const MAX_ADDED = 32_768

const DEFINITIONS = ['$defs', 'definitions'] as const

export function inlineReferences (root: JsonObject): JsonObject {
  return dropDefinitions(new Inliner(root).inline(root) as JsonObject)
}

class Inliner {
  readonly #root: JsonObject
  #left = MAX_ADDED
  readonly #recursive: ReadonlySet<string>
  /** The characters of referred schemas. */
  readonly #sizes = new Map<string, number>()

  constructor (root: JsonObject) {
    this.#root = root
    this.#recursive = findRecursive(root)
  }

  inline (schema: Json): Json {
    if (!isObject(schema)) return schema
    // No value is checked with contentSchema.
    const { $ref: reference, contentSchema, ...rest } = schema
    const mapped = this.#inlineChildren(rest)
    if (typeof reference !== 'string') return mapped
    const referred = findReferred(reference, this.#root)
    const size = this.#sizes.get(reference) ?? JSON.stringify(referred).length
    this.#sizes.set(reference, size)
    if (this.#recursive.has(reference) || size > this.#left) return { $ref: reference, ...mapped }
    this.#left -= size
    return join(this.inline(referred), mapped)
  }

  /** Definitions come last, because most of them are dropped. */
  #inlineChildren (schema: JsonObject): JsonObject {
    const { $defs, definitions, ...rest } = schema
    const map = (part: JsonObject): JsonObject => mapChildren(part, child => this.inline(child))
    return {
      ...map(rest),
      ...$defs !== undefined && map({ $defs }),
      ...definitions !== undefined && map({ definitions })
    }
  }
}

/** Joins a referred schema and the keywords beside its reference, which replace its annotations. */
function join (referred: Json, beside: JsonObject): Json {
  const words = Object.entries(beside)
  if (words.length === 0) return referred
  const isSimple = isObject(referred) && words.every(([word, value]) =>
    annotations.has(word) || JSON.stringify(referred[word]) === JSON.stringify(value))
  return isSimple ? { ...referred, ...beside } : { allOf: [referred], ...beside }
}

/** Drops the definitions of the root that no reference needs. */
function dropDefinitions (root: JsonObject): JsonObject {
  const { $defs, definitions, ...rest } = root
  const all = { $defs, definitions } as Readonly<Record<string, JsonObject | undefined>>
  const needed = new Set<string>()
  const open: Json[] = [rest]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const reference of referencesIn(next)) {
      const [word = '', name = ''] = readReference(reference)
      const key = `${word}/${name}`
      const definition = all[word]?.[name]
      if (definition === undefined || needed.has(key)) continue
      needed.add(key)
      open.push(definition)
    }
  }
  const kept = DEFINITIONS.flatMap(word => {
    const members = Object.entries(all[word] ?? {})
      .filter(([name]) => needed.has(`${word}/${name}`))
    return members.length === 0 ? [] : [[word, Object.fromEntries(members)] as const]
  })
  return { ...rest, ...Object.fromEntries(kept) }
}
