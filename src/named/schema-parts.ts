/**
 * The schemas that the JSON Schema of parameters contains, and its references, which are paths from
 * its root.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { Path } from '../plan/context.ts'

/** A schema in the schema, the root included. */
export interface Part {
  readonly schema: Json
  readonly path: Path
}

type Form = 'schema' | 'list' | 'members'

const words = (form: Form, ...names: readonly string[]): ReadonlyArray<readonly [string, Form]> =>
  names.map(name => [name, form])

/** The keywords of JSON Schema 2020-12 that contain schemas, and in which form. */
const keywords: ReadonlyMap<string, Form> = new Map([
  ...words('schema', 'additionalProperties', 'propertyNames', 'unevaluatedProperties', 'items',
    'unevaluatedItems', 'contains', 'contentSchema', 'not', 'if', 'then', 'else'),
  ...words('list', 'prefixItems', 'allOf', 'anyOf', 'oneOf'),
  ...words('members', 'properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions')
])

/** Keywords that say nothing about values. */
export const annotations: ReadonlySet<string> = new Set([
  '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'deprecated',
  'readOnly', 'writeOnly'
])

/** Lists a schema and all schemas inside of it, in their order. */
export function listParts (schema: Json, path: Path = []): readonly Part[] {
  const parts: Part[] = [{ schema, path }]
  if (!isObject(schema)) return parts
  mapChildren(schema, (child, steps) => {
    parts.push(...listParts(child, [...path, ...steps]))
    return child
  })
  return parts
}

/** Returns a copy in which `map` returns each schema directly inside. `steps`: its path. */
export function mapChildren (
  schema: JsonObject,
  map: (child: Json, steps: Path) => Json
): JsonObject {
  return mapMembers(schema, (word, value) => {
    switch (keywords.get(word)) {
      case 'schema':
        return map(value, [word])
      case 'list':
        return (value as readonly Json[]).map((child, i) => map(child, [word, i]))
      case 'members':
        return mapMembers(value as JsonObject, (name, child) => map(child, [word, name]))
      default:
        return value
    }
  })
}

function mapMembers (object: JsonObject, map: (name: string, value: Json) => Json): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name, map(name, value)])
  )
}

/** The key of a path in maps. Positions in lists are texts in references. */
export function keyOf (path: Path): string {
  return JSON.stringify(path.map(String))
}

/** Reads a step of a JSON Pointer. */
export function readStep (text: string): string {
  return text.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** Returns the path of a reference: `#` or `#/a/b`. Throws an URIError for a malformed one. */
export function readReference (reference: string): readonly string[] {
  return reference.split('/').slice(1).map(step => readStep(decodeURIComponent(step)))
}

/** The part that a reference names. There must be one. */
export function findReferred (reference: string, root: Json): Json {
  return readReference(reference).reduce<Json>(
    (node, step) => (node as Readonly<Record<string, Json>>)[step] as Json,
    root
  )
}

/** The reference of a schema itself. */
export function referenceOf (schema: Json): string | undefined {
  const reference = isObject(schema) ? schema['$ref'] : undefined
  return typeof reference === 'string' ? reference : undefined
}

/** The references in a schema, its own one first. */
export function referencesIn (schema: Json): readonly string[] {
  return listParts(schema).flatMap(part => referenceOf(part.schema) ?? [])
}

/** The references of a schema that lead back to themselves, directly or by others. */
export function findRecursive (root: JsonObject): ReadonlySet<string> {
  const all = [...new Set(referencesIn(root))]
  const inside = new Map(all.map(reference =>
    [reference, referencesIn(findReferred(reference, root))]))
  const follow = (reference: string, seen: Set<string>): ReadonlySet<string> => {
    for (const next of inside.get(reference) as readonly string[]) {
      if (!seen.has(next)) follow(next, seen.add(next))
    }
    return seen
  }
  return new Set(all.filter(reference => follow(reference, new Set()).has(reference)))
}
