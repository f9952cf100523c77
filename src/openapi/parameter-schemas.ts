/**
 * Moves the schema of a named batch's parameters into components. What `$defs` define and what
 * references name become components of their own: generators read `$defs` as a member, or write no
 * type for it.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  childrenOf,
  keyOf,
  mapChildren,
  readReference,
  referenceOf,
  referencesIn,
  type Part
} from '../named/schema-parts.ts'
import type { ComponentNames } from './generated-names.ts'
import type { JsonSchema } from './json-schema.ts'

type Path = Part['path']

interface Moved {
  readonly path: Path
  readonly name: string
}

/** Returns the components by name: `root` for the schema itself, and one for each moved part. */
export function moveParameters (
  schema: JsonObject,
  root: string,
  names: ComponentNames
): Readonly<Record<string, JsonSchema>> {
  const moved = new Map<string, Moved>([[keyOf([]), { path: [], name: root }]])
  for (const path of [...definitionsOf(schema), ...referencesIn(schema).map(readReference)]) {
    const key = keyOf(path)
    if (!moved.has(key)) moved.set(key, { path, name: names.choose(`${root}_${path.at(-1)}`) })
  }
  const refer = (path: Path): { readonly $ref: string } | undefined => {
    const part = moved.get(keyOf(path))
    return part && { $ref: `#/components/schemas/${part.name}` }
  }
  const copy = (part: Json, path: Path): Json => {
    if (!isObject(part)) return part
    const { $defs, definitions, ...rest } = part
    const reference = referenceOf(part)
    const own = reference === undefined ? rest : { ...rest, ...refer(readReference(reference)) }
    return mapChildren(own, (child, steps) => {
      const at = [...path, ...steps]
      return refer(at) ?? copy(child, at)
    })
  }
  return Object.fromEntries([...moved.values()].map(({ path, name }) => {
    const part = path.reduce<Json>((node, step) => (node as JsonObject)[step] as Json, schema)
    return [name, writeBoolean(copy(part, path))]
  }))
}

/** The paths of what `$defs` define, anywhere in the schema. */
function definitionsOf (schema: Json, path: Path = []): readonly Path[] {
  return childrenOf(schema).flatMap(({ steps, child }) => {
    const inside = [...path, ...steps]
    const isDefinition = steps[0] === '$defs' || steps[0] === 'definitions'
    return [...isDefinition ? [inside] : [], ...definitionsOf(child, inside)]
  })
}

/** Generators take no boolean for a component. */
function writeBoolean (schema: Json): JsonSchema {
  if (typeof schema !== 'boolean') return schema as JsonSchema
  return schema ? {} : { not: {} }
}
