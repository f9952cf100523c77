/**
 * Moves the schema of a named batch's parameters into components. What `$defs` define and what
 * references name become components of their own: generators read `$defs` as a member, or write no
 * type for it.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import {
  childrenOf,
  keyOf,
  listParts,
  mapChildren,
  readReference,
  referenceOf,
  type Part
} from '../named/schema-parts.ts'
import type { ComponentNames } from './generated-names.ts'
import type { JsonSchema } from './json-schema.ts'

type Path = Part['path']

interface Moved {
  readonly path: Path
  readonly name: string
}

type Node = Record<string | number, unknown>

/** Returns the components by name: `root` for the schema itself, and one for each moved part. */
export function moveParameters (
  schema: JsonObject,
  root: string,
  names: ComponentNames
): Readonly<Record<string, JsonSchema>> {
  const moved = new Map<string, Moved>([[keyOf([]), { path: [], name: root }]])
  const move = (path: Path): Moved => {
    const key = keyOf(path)
    const known = moved.get(key)
    if (known !== undefined) return known
    const part = { path, name: names.choose(`${root}_${path.at(-1)}`) }
    moved.set(key, part)
    return part
  }
  for (const path of definitionsOf(schema)) move(path)
  const copy = mapReferences(schema, reference => placeOf(move(readReference(reference))))
  const objects = listParts(copy).map(part => part.schema).filter(isObject) as readonly Node[]
  // The inner parts first, so that the outer ones refer to them.
  const deepest = [...moved.values()].toSorted((a, b) => b.path.length - a.path.length)
  const schemas = new Map(deepest.map(part => [part.name, cut(copy, part)]))
  for (const object of objects) {
    delete object['$defs']
    delete object['definitions']
  }
  return Object.fromEntries([...moved.values()].map(({ name }) =>
    [name, schemas.get(name) as JsonSchema]))
}

/** The paths of what `$defs` define, anywhere in the schema. */
function definitionsOf (schema: Json, path: Path = []): readonly Path[] {
  return childrenOf(schema).flatMap(({ steps, child }) => {
    const inside = [...path, ...steps]
    const isDefinition = steps[0] === '$defs' || steps[0] === 'definitions'
    return [...isDefinition ? [inside] : [], ...definitionsOf(child, inside)]
  })
}

/** Returns a copy in which `write` returns each reference. */
function mapReferences (schema: Json, write: (reference: string) => string): Json {
  if (!isObject(schema)) return schema
  const reference = referenceOf(schema)
  return mapChildren(
    reference === undefined ? schema : { ...schema, $ref: write(reference) },
    child => mapReferences(child, write)
  )
}

function placeOf ({ name }: Moved): string {
  return `#/components/schemas/${name}`
}

/** Replaces a part by a reference to its component, and returns it. */
function cut (root: Json, part: Moved): JsonSchema {
  const nodes = part.path.reduce<readonly Node[]>(
    (nodes, step) => [...nodes, (nodes.at(-1) as Node)[step] as Node],
    [root as Node]
  )
  const parent = nodes.at(-2)
  if (parent !== undefined) parent[part.path.at(-1) as string] = { $ref: placeOf(part) }
  const schema = nodes.at(-1) as JsonSchema | boolean
  if (typeof schema !== 'boolean') return schema
  return schema ? {} : { not: {} }
}
