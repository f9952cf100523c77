/**
 * The parameters of an upload: the one whose rows are sent one by one, and the others, which are in
 * the query. A batch takes uploads if it uses the rows of exactly one parameter and nothing uses
 * them all as a value, and if its schema can check one row without the others.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import { isNumberText } from '../json/decimal.ts'
import { parseJson, type Json, type JsonObject } from '../json/parse.ts'
import type { NamedBatch } from './named-batch.ts'
import { readParameters, resolveSchema, type Parameters } from './parameters.ts'
import { refuse, type PathIssue } from './issues.ts'
import { annotations } from './schema-parts.ts'

export interface UploadTarget {
  /** The parameter whose rows are the lines of the body. */
  readonly name: string
  /** How many rows its schema allows. */
  readonly minItems: number
  readonly maxItems: number
  /** Checks all parameters, of which the rows may be any part of those that are sent. */
  readonly parameters: Parameters
  /** Checks rows without the other parameters. */
  readonly rows: Parameters
  /** The schema of each parameter. */
  readonly schemas: ReadonlyMap<string, JsonObject>
  /** The schema of each member of a row that has one. */
  readonly columns: ReadonlyMap<string, JsonObject>
}

type UploadedBatch = Pick<NamedBatch, 'name' | 'schema' | 'planner'>

/** Keywords of the parameters that do not depend on the rows. */
const ROOT_KEYWORDS: ReadonlySet<string> = new Set([
  ...annotations, 'type', 'properties', 'required', 'additionalProperties', 'minProperties',
  'maxProperties'
])

/** Keywords of the list that are checked with a part of its rows, or by their number. */
const LIST_KEYWORDS: ReadonlySet<string> = new Set([
  ...annotations, '$ref', 'type', 'items', 'minItems', 'maxItems'
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
    // Both are valid, because the whole schema is.
    parameters: readParameters(part) as Parameters,
    rows: readParameters({ ...part, required: [], minProperties: 0 }) as Parameters,
    schemas: schemasOf(properties),
    columns: schemasOf(columns as JsonObject)
  }
}

function listOf ({ schema }: UploadedBatch, name: string): JsonObject {
  return resolveSchema((schema['properties'] as JsonObject)[name] as JsonObject, schema)
}

/** Why a batch takes no uploads; undefined: it does. */
function findProblem (batch: UploadedBatch): string | undefined {
  const { name, schema, planner } = batch
  const { rowParameters } = planner
  const [rows, ...more] = rowParameters
  if (rows === undefined) return `The batch "${name}" has no parameter whose rows it uses.`
  if (more.length > 0) {
    return `The batch "${name}" uses the rows of several parameters: ${rowParameters.join(', ')}.`
  }
  if (planner.usesRowsAsValue) return `The batch "${name}" uses "${rows}" also as a value.`
  const list = listOf(batch, rows)
  const keyword = Object.keys(schema).find(word => !ROOT_KEYWORDS.has(word)) ??
    Object.keys(list).find(word => !LIST_KEYWORDS.has(word))
  if (keyword === undefined) return undefined
  return `The rows of "${rows}" cannot be checked one by one, because of "${keyword}" in "params".`
}

// In the query string of a URL every value is text. It is converted to the type that the schema of
// its parameter names.

/** The value of a text, or why the text is not valid. */
type Converted = { readonly value: Json } | { readonly problem: string }

/**
 * Returns the values of the query by name, also of names that are not parameters. `query`: what
 * follows `?`. Throws `params_invalid`.
 */
export function readQuery (
  query: string,
  { name: rows, schemas }: Pick<UploadTarget, 'name' | 'schemas'>
): JsonObject {
  if (!isEncoded(query)) {
    refuse([{ path: [], message: 'The query has an invalid percent-encoding.' }])
  }
  const values = new Map<string, Json>()
  const issues: PathIssue[] = []
  // The first question mark is left out.
  for (const [name, text] of new URLSearchParams(`?${query}`)) {
    const read = values.has(name)
      ? { problem: `"${name}" is given more than once.` }
      : name === rows
        ? { problem: `"${name}" is sent as the body.` }
        : convert(name, text, schemas.get(name))
    if ('problem' in read) issues.push({ path: [name], message: read.problem })
    else values.set(name, read.value)
  }
  refuse(issues)
  return Object.fromEntries(values)
}

/** Whether the percent-encoding of a text is valid. URLSearchParams would replace bytes. */
function isEncoded (text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** `schema`: that of the parameter, or undefined if no parameter has this name. */
function convert (name: string, text: string, schema: JsonObject | undefined): Converted {
  if (text.includes('\0')) {
    return { problem: `"${name}" contains U+0000, which PostgreSQL cannot store.` }
  }
  const type = schema === undefined ? 'string' : scalarTypeOf(schema)
  if (type === undefined) {
    return {
      problem: `"${name}" cannot be sent in the query: its schema names no single type among ` +
        'string, integer, number and boolean. Send all parameters as application/json.'
    }
  }
  const json = writeScalar(type, text)
  if (json !== undefined) return { value: parseJson(Buffer.from(json)) }
  const expected = type === 'boolean'
    ? 'true or false'
    : 'a number as JSON writes it, for example 2.50'
  return { problem: `"${name}" must be ${expected}.` }
}

type Writer = (text: string) => string | undefined

const writeNumber: Writer = text => isNumberText(text) ? text : undefined

/** By the types of JSON Schema. The schema itself checks that an integer is one. */
const WRITERS = {
  string: text => JSON.stringify(text),
  integer: writeNumber,
  number: writeNumber,
  boolean: text => text === 'true' || text === 'false' ? text : undefined
} satisfies Readonly<Record<string, Writer>>

/** A type of JSON Schema to which a text can be converted. */
export type ScalarType = keyof typeof WRITERS

/** Returns a text as JSON of a type; undefined if it is not a value of this type. */
export function writeScalar (type: ScalarType, text: string): string | undefined {
  return WRITERS[type](text)
}

/**
 * Returns the only type of a schema beside `null`; undefined if there are several, or if a text
 * cannot be converted to it.
 */
export function scalarTypeOf ({ type = [] }: JsonObject): ScalarType | undefined {
  const types = Array.isArray(type) ? type as readonly Json[] : [type]
  const [first, ...more] = types.filter(one => one !== 'null')
  const isScalar = more.length === 0 && typeof first === 'string' &&
    Object.hasOwn(WRITERS, first)
  return isScalar ? first as ScalarType : undefined
}
