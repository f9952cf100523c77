/**
 * Writes referred schemas in place of the references to them: many clients of the Model Context
 * Protocol do not resolve `$ref`. References of recursive schemas stay.
 */
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
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

export function inlineReferences (root: JsonObject): JsonObject {
  const recursive = findRecursive(root)
  let left = MAX_ADDED
  const inline = (schema: Json): Json => {
    if (!isObject(schema)) return schema
    // No value is checked with contentSchema.
    const { $ref: reference, contentSchema, ...rest } = schema
    const mapped = mapChildren(rest, inline)
    if (typeof reference !== 'string') return mapped
    const referred = findReferred(reference, root)
    const size = JSON.stringify(referred).length
    if (recursive.has(reference) || size > left) return { $ref: reference, ...mapped }
    left -= size
    return join(inline(referred), mapped)
  }
  const { $defs = {}, definitions = {}, ...rest } = root
  const all: Readonly<Record<string, Json>> = { $defs, definitions }
  const schema = inline(rest) as JsonObject
  /** The definitions that references still need. */
  const kept: Record<string, Record<string, Json>> = {}
  const open: Json[] = [schema]
  for (const part of open) {
    for (const reference of referencesIn(part)) {
      const [word = '', name = ''] = readReference(reference)
      const definition = (all[word] as JsonObject | undefined)?.[name]
      if (definition === undefined || has(kept[word] ?? {}, name)) continue
      const inlined = inline(definition)
      kept[word] = { ...kept[word], [name]: inlined }
      open.push(inlined)
    }
  }
  return { ...schema, ...kept }
}

/** Joins a referred schema and the keywords beside its reference, which replace its annotations. */
function join (referred: Json, beside: JsonObject): Json {
  const words = Object.entries(beside)
  if (words.length === 0) return referred
  const isSimple = isObject(referred) && words.every(([word, value]) =>
    annotations.has(word) || JSON.stringify(referred[word]) === JSON.stringify(value))
  return isSimple ? { ...referred, ...beside } : { allOf: [referred], ...beside }
}
