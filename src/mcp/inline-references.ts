/**
 * Writes referred schemas in place of the references to them: many clients of the Model Context
 * Protocol do not resolve `$ref`. References of recursive schemas stay.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  findRecursive,
  findReferred,
  mapChildren,
  readReference,
  referencesIn
} from '../named/schema-parts.ts'

/** Maximum characters that inlining adds to a schema. References beyond it stay. */
const MAX_ADDED = 32_768

/** Maximum number of references on the way to a schema. */
const MAX_NESTED = 50

/** Keywords that say nothing about a value. Beside a reference they replace those of its schema. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'deprecated',
  'readOnly', 'writeOnly'
])

const DEFINITIONS = ['$defs', 'definitions'] as const

export function inlineReferences (root: JsonObject): JsonObject {
  return dropDefinitions(new Inliner(root).inline(root) as JsonObject)
}

class Inliner {
  readonly #root: JsonObject
  #left = MAX_ADDED
  readonly #sizes = new Map<string, number>()
  readonly #recursive: ReadonlySet<string>

  constructor (root: JsonObject) {
    this.#root = root
    this.#recursive = findRecursive(root)
  }

  /** `isPaid`: the schema is part of one that is inlined, whose size includes it. */
  inline (schema: Json, isPaid = false): Json {
    if (!isObject(schema)) return schema
    // No value is checked with contentSchema.
    const { $ref: reference, contentSchema, ...rest } = schema
    const mapped = this.#inlineChildren(rest, isPaid)
    if (typeof reference !== 'string') return mapped
    if (!this.#mayInline(reference, isPaid)) return { $ref: reference, ...mapped }
    return join(this.inline(findReferred(reference, this.#root), true), mapped)
  }

  /** Definitions come last, because most of them are dropped. */
  #inlineChildren (schema: JsonObject, isPaid: boolean): JsonObject {
    const { $defs, definitions, ...rest } = schema
    const map = (part: JsonObject): JsonObject =>
      mapChildren(part, child => this.inline(child, isPaid))
    return {
      ...map(rest),
      ...$defs !== undefined && map({ $defs }),
      ...definitions !== undefined && map({ definitions })
    }
  }

  #mayInline (reference: string, isPaid: boolean): boolean {
    if (this.#recursive.has(reference)) return false
    if (isPaid) return true
    const size = this.#measure(reference)
    if (size > this.#left) return false
    this.#left -= size
    return true
  }

  /** The characters of a schema that is not recursive, with everything inlined. */
  #measure (reference: string, nested = 0): number {
    const known = this.#sizes.get(reference)
    if (known !== undefined) return known
    if (nested > MAX_NESTED) return Infinity
    const schema = findReferred(reference, this.#root)
    const size = referencesIn(schema).reduce(
      (sum, inner) => this.#recursive.has(inner) ? sum : sum + this.#measure(inner, nested + 1),
      JSON.stringify(schema).length
    )
    this.#sizes.set(reference, size)
    return size
  }
}

/** Joins a referred schema and the keywords beside its reference. */
function join (referred: Json, beside: JsonObject): Json {
  const words = Object.entries(beside)
  if (words.length === 0) return referred
  const isSimple = isObject(referred) && words.every(([word, value]) =>
    ANNOTATIONS.has(word) || JSON.stringify(referred[word]) === JSON.stringify(value))
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
