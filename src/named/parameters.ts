/**
 * The parameters of a named batch: declares them for references, and checks the values of a request
 * against their JSON Schema.
 */
import type { ErrorObject } from 'ajv/dist/2020.js'
import { isDouble, readDecimal, writeInteger } from '../json/decimal.ts'
import {
  findPath,
  has,
  isNumber,
  isObject,
  parseJson,
  textOf,
  type ExactNumber,
  type Json,
  type JsonObject
} from '../json/parse.ts'
import { nameOf } from '../plan/check/describe.ts'
import type { Parameter, ParameterRows } from '../plan/parameter.ts'
import { compileSchema, findSchemaErrors, type Check } from './compile-schema.ts'
import type { PathIssue } from './issues.ts'
import {
  findReferred,
  keyOf,
  listParts,
  readReference,
  readStep,
  referenceOf
} from './schema-parts.ts'

export interface Parameters {
  /** The JSON Schema, with references that are paths from its root. */
  readonly schema: JsonObject
  /** By name, in the order of their positions. */
  readonly known: ReadonlyMap<string, Parameter>
  /**
   * Returns what is wrong with the values of a request; `first`: only the first issue of the schema
   * is looked for. Each issue is described only when it is read. Throws `params_invalid`.
   */
  check(values: JsonObject, first?: boolean): Iterable<PathIssue>
  /**
   * Returns the values by position, with defaults, and with integers as digits. They must be valid.
   */
  read(values: JsonObject): readonly Json[]
}

interface Declared {
  readonly properties?: Readonly<Record<string, JsonObject>>
  readonly required?: readonly string[]
}

const NO_PARAMETERS = { type: 'object', properties: {} }

/** Reads `params` of a file. Returns the issues of an invalid schema. */
export function readParameters (text: Json = NO_PARAMETERS): Parameters | readonly PathIssue[] {
  const issues = findSchemaIssues(text)
  if (issues.length > 0) return issues
  const { $schema, ...schema } = text as JsonObject
  const { properties = {}, required = [] } = schema as Declared
  const names = Object.keys(properties)
  const defaults = Object.fromEntries(
    names.filter(name => has(resolveSchema(properties[name], schema), 'default'))
      .map(name => [name, resolveSchema(properties[name], schema)['default'] as Json])
  )
  let findErrors: Check
  try {
    findErrors = compileSchema(schema)
    const wrong = findWrongDefaults(findErrors, defaults)
    if (wrong.length > 0) return wrong
  } catch (error) {
    return [{ path: [], message: `The schema is invalid: ${(error as Error).message}.` }]
  }
  const integers = new Set(names.filter(name => areIntegers(properties[name], schema)))
  return {
    schema,
    known: new Map(
      names.map((name, position) => {
        const resolved = resolveSchema(properties[name], schema)
        const { type, minItems = 0 } = resolved
        return [name, {
          position,
          isList: type === 'array',
          minItems: mayBeArray(type) ? minItems as number : Infinity,
          isOptional: !required.includes(name) && !has(defaults, name),
          rows: readRows(resolved, schema)
        }]
      })
    ),
    * check (values, first = false) {
      for (const name of Object.keys(values)) {
        if (has(properties, name)) continue
        const known = names.join(', ') || 'none'
        yield { path: [name], message: `There is no parameter "${name}". Parameters: ${known}.` }
      }
      for (const error of findErrors(values, first)) yield describeError(error, values)
    },
    read: values => {
      const all = { ...defaults, ...values }
      return names.map(name => {
        const value = has(all, name) ? all[name] as Json : null
        return integers.has(name) ? writeIntegers(value) : value
      })
    }
  }
}

/** `type`: that of a JSON Schema, if it has one. */
function mayBeArray (type: Json | undefined): boolean {
  return type === undefined || [type].flat().includes('array')
}

/** Other issues, such as missing parameters, do not concern the defaults. */
function findWrongDefaults (findErrors: Check, defaults: JsonObject): readonly PathIssue[] {
  return findErrors(defaults, Object.keys(defaults).length === 0)
    .map(error => describeError(error, defaults))
    .filter(({ path }) => has(defaults, String(path[0])))
    .map(({ path: [name, ...rest], message }) =>
      ({ path: ['properties', name as string, 'default', ...rest], message }))
}

/** Returns the issues of a schema that Ajv does not report, or not with their position. */
function findSchemaIssues (schema: Json): readonly PathIssue[] {
  if (!isObject(schema) || schema['type'] !== 'object') {
    return [{ path: [], message: '"params" must be a JSON Schema with "type": "object".' }]
  }
  const inexact = findPath(schema, value => isNumber(value) && !isDouble(textOf(value)))
  if (inexact !== undefined) {
    return [{ path: inexact, message: 'The number has more digits than a double can hold.' }]
  }
  const errors = findSchemaErrors(schema).map(error => describeError(error, schema))
  if (errors.length > 0) {
    return [...new Map(errors.map(issue => [JSON.stringify(issue), issue])).values()]
  }
  return [...findUndeclared(schema as Declared), ...findLostReferences(schema)]
}

function findUndeclared ({ properties = {}, required = [] }: Declared): readonly PathIssue[] {
  const undeclared = required.findIndex(name => !has(properties, name))
  if (undeclared < 0) return []
  const message = `"properties" does not contain "${required[undeclared]}".`
  return [{ path: ['required', undeclared], message }]
}

/** Finds references that do not name a part of the schema. Ajv follows only those that it needs. */
function findLostReferences (schema: JsonObject): readonly PathIssue[] {
  const parts = listParts(schema)
  const known = new Set(parts.map(({ path }) => keyOf(path)))
  return parts.flatMap(part => {
    const reference = referenceOf(part.schema)
    if (reference === undefined || known.has(placeOf(reference))) return []
    const message = `"${reference}" does not name a schema in "params". ` +
      'A reference is a path, such as {"$ref": "#/$defs/name"}.'
    return [{ path: [...part.path, '$ref'], message }]
  })
}

/** The key of the part that a reference names; empty if it is not a path. */
function placeOf (reference: string): string {
  try {
    return /^#(?:$|\/)/.test(reference) ? keyOf(readReference(reference)) : ''
  } catch {
    return ''
  }
}

/** More references in a row lead back to themselves. */
const MAX_CHAIN = 100

/** Follows a reference to another part of the schema. */
export function resolveSchema (
  schema: JsonObject | undefined,
  root: Json,
  followed = 0
): JsonObject {
  const reference = schema === undefined ? undefined : referenceOf(schema)
  if (reference === undefined || followed > MAX_CHAIN) return isObject(schema) ? schema : {}
  const found = findReferred(reference, root)
  return { ...isObject(found) && resolveSchema(found, root, followed + 1), ...schema }
}

/** Whether the values of a schema are integers or lists of integers, and not other numbers. */
function areIntegers (schema: JsonObject | undefined, root: Json): boolean {
  const { type, items } = resolveSchema(schema, root)
  const types = [type === 'array' ? resolveSchema(items as JsonObject, root)['type'] : type].flat()
  return types.includes('integer') && !types.includes('number')
}

/**
 * Writes integers such as `1.0` and `1e3` as their digits: in conditions PostgreSQL reads no other
 * notation. What is stored is written in the type of its column.
 */
function writeIntegers (value: Json): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(writeIntegers)
  if (typeof value !== 'object' || value === null) return value
  const digits = writeInteger(readDecimal(textOf(value as ExactNumber)))
  return digits === undefined ? value : parseJson(Buffer.from(digits))
}

/** What is declared about rows; undefined: the values of a schema are not lists of objects. */
function readRows (schema: JsonObject, root: Json): ParameterRows | undefined {
  const { type, items, prefixItems } = schema
  if (type !== 'array' || prefixItems !== undefined || !isObject(items)) return undefined
  const { type: typeOfItems, properties = {}, patternProperties, additionalProperties } =
    resolveSchema(items, root)
  if (typeOfItems !== 'object') return undefined
  const columns = Object.keys(properties as JsonObject)
  return {
    declared: new Set(columns),
    isClosed: additionalProperties === false && patternProperties === undefined,
    columns
  }
}

/** Keywords whose errors concern a member: the parameter that names it, and what is wrong. */
const MEMBER_ERRORS: Readonly<Record<string, readonly [parameter: string, problem: string]>> = {
  required: ['missingProperty', 'is required'],
  additionalProperties: ['additionalProperty', 'is unknown'],
  unevaluatedProperties: ['unevaluatedProperty', 'is unknown']
}

/** Keywords of sizes: the bound, and what is counted. */
const SIZES: Readonly<Record<string, readonly [bound: string, unit: string]>> = {
  minLength: ['at least', 'character'],
  maxLength: ['at most', 'character'],
  minItems: ['at least', 'item'],
  maxItems: ['at most', 'item'],
  items: ['at most', 'item'],
  unevaluatedItems: ['at most', 'item'],
  minProperties: ['at least', 'member'],
  maxProperties: ['at most', 'member']
}

function describeError (error: ErrorObject, root: Json): PathIssue {
  const { instancePath, keyword, params } = error
  const path = readPointer(instancePath, root)
  const [parameter, problem] = MEMBER_ERRORS[keyword] ?? []
  if (parameter !== undefined) {
    const member = params[parameter] as string
    return { path: [...path, member], message: `"${member}" ${problem}.` }
  }
  const allowed: unknown = params['allowedValues'] ?? params['allowedValue']
  const name = path.length === 0 ? 'The value' : nameOf(path)
  const text = describeProblem(error)
  return {
    path,
    message: `${name} ${text}${allowed === undefined ? '' : `: ${JSON.stringify(allowed)}`}.`
  }
}

function describeProblem ({ keyword, message = '', params }: ErrorObject): string {
  const [bound, unit] = SIZES[keyword] ?? []
  if (bound !== undefined) {
    const limit: unknown = params['limit']
    return `must have ${bound} ${limit} ${unit}${limit === 1 ? '' : 's'}`
  }
  switch (keyword) {
    case 'type':
      return `must be ${[params['type'] as string | string[]].flat().map(nameType).join(' or ')}`
    case 'not':
      return 'must not match the schema of "not"'
    case 'false schema':
      return 'is not allowed'
    default:
      return message
  }
}

/** `integer` → `an integer` */
function nameType (type: string): string {
  if (type === 'null') return type
  return `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
}

/** Reads a JSON Pointer; positions in arrays are numbers. */
function readPointer (pointer: string, root: Json): ReadonlyArray<string | number> {
  let node: Json | undefined = root
  return pointer.split('/').slice(1).map(text => {
    const key = readStep(text)
    const step = Array.isArray(node) ? Number(key) : key
    node = (node as Readonly<Record<string | number, Json>> | undefined)?.[step]
    return step
  })
}
