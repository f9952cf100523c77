/**
 * Moves the schema of a named batch's parameters into components. What references name becomes a
 * component of its own: generators read `$defs` as a member, or write no type for it.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  findReferred,
  keyOf,
  mapChildren,
  readReference,
  referenceOf,
  referencesIn
} from '../named/schema-parts.ts'
import type { ComponentNames } from './generated-names.ts'
import type { JsonSchema } from './json-schema.ts'

interface Moved {
  readonly reference: string
  readonly name: string
}

/** Returns the components by name: `root` for the schema itself, and one for each moved part. */
export function moveParameters (
  schema: JsonObject,
  root: string,
  names: ComponentNames
): Readonly<Record<string, JsonSchema>> {
  const moved = new Map<string, Moved>([[keyOf([]), { reference: '#', name: root }]])
  for (const reference of referencesIn(schema)) {
    const path = readReference(reference)
    const key = keyOf(path)
    if (!moved.has(key)) moved.set(key, { reference, name: names.choose(`${root}_${path.at(-1)}`) })
  }
  const copy = (part: Json): Json => {
    if (!isObject(part)) return part
    const { $defs, definitions, ...rest } = part
    const reference = referenceOf(part)
    if (reference === undefined) return mapChildren(rest, copy)
    const { name } = moved.get(keyOf(readReference(reference))) as Moved
    return mapChildren({ ...rest, $ref: `#/components/schemas/${name}` }, copy)
  }
  return Object.fromEntries([...moved.values()].map(({ reference, name }) =>
    [name, writeBoolean(copy(findReferred(reference, schema)))]))
}

/** Generators take no boolean for a component. */
function writeBoolean (schema: Json): JsonSchema {
  if (typeof schema !== 'boolean') return schema as JsonSchema
  return schema ? {} : { not: {} }
}
