/**
 * The keywords of the JSON Schema of parameters, and the schemas that it contains.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { Path } from '../plan/context.ts'

/** What is wrong at a path of a schema, of a file, or of the object of all parameters. */
export interface PathIssue {
  readonly path: Path
  readonly message: string
}

/** A schema in the schema, the root included. */
export interface Part {
  readonly schema: Json
  readonly path: Path
  readonly resource: Resource
}

/** The part at which references begin: the root, or a part with its own `$id`. */
export interface Resource {
  readonly path: Path
  readonly id: string | undefined
}

/** How a keyword contains schemas, and whether they apply to the same value as the keyword. */
interface Keyword {
  readonly contains?: 'schema' | 'list' | 'members'
  readonly sameValue?: boolean
}

/** Keywords without schemas. */
const plain = [
  '$schema', '$id', '$ref', '$comment', 'type', 'enum', 'const', 'multipleOf', 'maximum',
  'exclusiveMaximum', 'minimum', 'exclusiveMinimum', 'maxLength', 'minLength', 'pattern',
  'maxItems', 'minItems', 'uniqueItems', 'maxContains', 'minContains', 'maxProperties',
  'minProperties', 'required', 'dependentRequired', 'title', 'description', 'default', 'examples',
  'deprecated', 'readOnly', 'writeOnly', 'format', 'contentEncoding', 'contentMediaType',
  'contentSchema'
]

const define = (
  words: readonly string[],
  keyword: Keyword
): ReadonlyArray<readonly [string, Keyword]> => words.map(word => [word, keyword])

/** The keywords of JSON Schema 2020-12 that the schema of parameters may have. */
export const keywords: ReadonlyMap<string, Keyword> = new Map([
  ...define(plain, {}),
  ...define(['additionalProperties', 'propertyNames', 'unevaluatedProperties', 'items',
    'unevaluatedItems', 'contains'], { contains: 'schema' }),
  ...define(['not', 'if', 'then', 'else'], { contains: 'schema', sameValue: true }),
  ...define(['prefixItems'], { contains: 'list' }),
  ...define(['allOf', 'anyOf', 'oneOf'], { contains: 'list', sameValue: true }),
  ...define(['properties', 'patternProperties', '$defs', 'definitions'], { contains: 'members' }),
  ...define(['dependentSchemas'], { contains: 'members', sameValue: true })
])

/** Lists a schema and all schemas inside of it, in their order. */
export function listParts (schema: Json, path: Path = [], outer?: Resource): readonly Part[] {
  const id = isObject(schema) ? schema['$id'] : undefined
  const resource = outer === undefined || typeof id === 'string'
    ? { path, id: id as string | undefined }
    : outer
  return [
    { schema, path, resource },
    ...childrenOf(schema).flatMap(({ steps, child }) =>
      listParts(child, [...path, ...steps], resource))
  ]
}

/** The schemas directly inside of a schema, with their paths from it. */
export function childrenOf (schema: Json): ReadonlyArray<{
  readonly steps: Path,
  readonly child: Json,
  readonly sameValue: boolean
}> {
  if (!isObject(schema)) return []
  return Object.entries(schema).flatMap(([word, value]) => {
    const { contains, sameValue = false } = keywords.get(word) ?? {}
    if (contains === undefined) return []
    if (contains === 'schema') return [{ steps: [word], child: value, sameValue }]
    return Object.entries(value as JsonObject).map(([key, child]) => ({
      steps: [word, contains === 'list' ? Number(key) : key],
      child,
      sameValue
    }))
  })
}

/**
 * Returns a copy without `$id` and `$schema`, in which `write` returns each reference. `path`: that
 * of the schema that refers.
 */
export function mapReferences (
  schema: Json,
  write: (reference: string, path: Path) => string,
  path: Path = []
): Json {
  if (!isObject(schema)) return schema
  const { $id, $schema, ...rest } = schema
  const { $ref: reference } = rest
  return mapChildren(
    typeof reference === 'string' ? { ...rest, $ref: write(reference, path) } : rest,
    (child, steps) => mapReferences(child, write, [...path, ...steps])
  )
}

/** Returns a copy in which `map` returns each schema directly inside. */
export function mapChildren (
  schema: JsonObject,
  map: (child: Json, steps: Path) => Json
): JsonObject {
  const mapMember = (word: string, value: Json): Json => {
    // It applies to no value of JSON, but it may refer to other parts.
    switch (word === 'contentSchema' ? 'schema' : keywords.get(word)?.contains) {
      case 'schema':
        return map(value, [word])
      case 'list':
        return (value as readonly Json[]).map((part, i) => map(part, [word, i]))
      case 'members':
        return Object.fromEntries(
          Object.entries(value as JsonObject).map(([key, part]) => [key, map(part, [word, key])])
        )
      default:
        return value
    }
  }
  return Object.fromEntries(
    Object.entries(schema).map(([word, value]) => [word, mapMember(word, value)])
  )
}

/** The key of a part in maps. Positions in lists are texts in references. */
export function keyOf (path: Path): string {
  return JSON.stringify(path.map(String))
}

/** Reads a step of a JSON Pointer. */
export function readStep (text: string): string {
  return text.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** The part that a reference names: a path from the root (`#`, `#/…`) where there is a part. */
export function findReferred (reference: string, root: Json): Json {
  return reference.split('/').slice(1).reduce<Json>(
    (node, step) =>
      (node as Readonly<Record<string, Json>>)[readStep(decodeURIComponent(step))] as Json,
    root
  )
}
