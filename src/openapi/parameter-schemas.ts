/**
 * Moves the schema of a named batch's parameters into components. What references name becomes a
 * component of its own: generators read `$defs` as a member, or write no type for it.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  findReferred,
  mapChildren,
  readReference,
  referenceOf,
  referencesIn
} from '../named/schema-parts.ts'
import type { JsonSchema } from './json-schema.ts'

/** Returns the components by name: `root` for the schema itself, and one for each moved part. */
export function moveParameters (
  schema: JsonObject,
  root: string,
  name: (text: string) => string
): Readonly<Record<string, JsonSchema>> {
  const moved = new Map<Json, string>([[schema, root]])
  for (const reference of referencesIn(schema)) {
    const part = findReferred(reference, schema)
    const step = readReference(reference).at(-1)
    if (!moved.has(part)) moved.set(part, name(`${root}_${step}`))
  }
  const refer = (part: Json): JsonObject => ({ $ref: `#/components/schemas/${moved.get(part)}` })
  const write = (part: Json): Json => {
    if (!isObject(part)) return part
    const { $defs, definitions, ...rest } = part
    const reference = referenceOf(part)
    const own = reference === undefined ? {} : refer(findReferred(reference, schema))
    return mapChildren({ ...rest, ...own }, child =>
      isObject(child) && moved.has(child) ? refer(child) : write(child))
  }
  return Object.fromEntries([...moved].map(([part, name]) => [name, writeBoolean(write(part))]))
}

/** Generators take no boolean for a component. */
function writeBoolean (schema: Json): JsonSchema {
  if (typeof schema !== 'boolean') return schema as JsonSchema
  return schema ? {} : { not: {} }
}
