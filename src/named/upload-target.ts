/**
 * The parameter of a named batch whose rows an upload sends one by one. The other parameters are in
 * the query. A batch takes uploads if it uses the rows of exactly one parameter, and if its schema
 * can check one row without the others.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import type { Json, JsonObject } from '../json/parse.ts'
import type { NamedBatch } from './named-batch.ts'
import { readParameters, resolveSchema, type Parameters } from './parameters.ts'

export interface UploadTarget {
  /** The parameter whose rows are the lines of the body. */
  readonly name: string
  /** How many rows its schema allows. */
  readonly minItems: number
  readonly maxItems: number
  /** Checks all parameters, of which the rows may be any part of those that are sent. */
  readonly parameters: Parameters
  /** The schema of each parameter. */
  readonly schemas: ReadonlyMap<string, JsonObject>
  /** The schema of each member of a row that has one. */
  readonly columns: ReadonlyMap<string, JsonObject>
}

type UploadedBatch = Pick<NamedBatch, 'name' | 'schema' | 'planner'>

/** Keywords that say nothing about values. */
const ANNOTATIONS = [
  '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'deprecated',
  'readOnly', 'writeOnly'
]

/** Keywords of the parameters that do not depend on the rows. */
const ROOT_KEYWORDS: ReadonlySet<string> = new Set([
  ...ANNOTATIONS, 'type', 'properties', 'required', 'additionalProperties', 'minProperties',
  'maxProperties'
])

/** Keywords of the list that are checked with a part of its rows, or by their number. */
const LIST_KEYWORDS: ReadonlySet<string> = new Set([
  ...ANNOTATIONS, '$ref', 'type', 'items', 'minItems', 'maxItems'
])

const targets = new WeakMap<UploadedBatch, UploadTarget | Failure>()

/** Returns where the rows of an upload go. Throws `content_type_unsupported` if it takes none. */
export function findUploadTarget (batch: UploadedBatch): UploadTarget {
  const target = targets.get(batch) ?? readTarget(batch)
  targets.set(batch, target)
  if (target instanceof Error) throw target
  return target
}

/** Whether a batch takes uploads. */
export function takesUploads (batch: UploadedBatch): boolean {
  return findProblem(batch) === undefined
}

function readTarget (batch: UploadedBatch): UploadTarget | Failure {
  const problem = findProblem(batch)
  if (problem !== undefined) {
    const message = `${problem} Send its parameters as application/json.`
    return failure('content_type_unsupported', message)
  }
  const [name] = batch.planner.rowParameters as [string]
  const { schema } = batch
  const properties = schema['properties'] as JsonObject
  const { items, minItems = 0, maxItems = Infinity } = listOf(batch, name)
  // The path of `items` stays the same, because references of the schema may lead there.
  const part = {
    ...schema,
    properties: { ...properties, [name]: { type: 'array', items: items as Json } }
  }
  const schemasOf = (properties: JsonObject): ReadonlyMap<string, JsonObject> => new Map(
    Object.keys(properties).map(name =>
      [name, resolveSchema(properties[name] as JsonObject, schema)] as const
    )
  )
  const { properties: columns = {} } = resolveSchema(items as JsonObject, schema)
  return {
    name,
    minItems: minItems as number,
    maxItems: maxItems as number,
    // It is valid, because the whole schema is.
    parameters: readParameters(part, Infinity) as Parameters,
    schemas: schemasOf(properties),
    columns: schemasOf(columns as JsonObject)
  }
}

function listOf ({ schema }: UploadedBatch, name: string): JsonObject {
  return resolveSchema((schema['properties'] as JsonObject)[name] as JsonObject, schema)
}

/** Why a batch takes no uploads; undefined: it does. */
function findProblem (batch: UploadedBatch): string | undefined {
  const { name, schema, planner: { rowParameters } } = batch
  const [rows, ...more] = rowParameters
  if (rows === undefined) return `The batch "${name}" has no parameter whose rows it uses.`
  if (more.length > 0) {
    return `The batch "${name}" uses the rows of several parameters: ${rowParameters.join(', ')}.`
  }
  const list = listOf(batch, rows)
  const keyword = Object.keys(schema).find(word => !ROOT_KEYWORDS.has(word)) ??
    Object.keys(list).find(word => !LIST_KEYWORDS.has(word))
  if (keyword === undefined) return undefined
  return `The rows of "${rows}" cannot be checked one by one, because of "${keyword}" in "params".`
}
