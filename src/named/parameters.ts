/**
 * The parameters of a named batch: declares them for references, and checks the values of a request
 * against their JSON Schema.
 */
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import { MAX_EXPONENT_DIGITS } from '../json/decimal.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { nameOf } from '../plan/check/describe.ts'
import type { Parameter, ParameterRows } from '../plan/parameter.ts'
import { addUnits, addWorkKeyword, bound, type CheckBudget } from './check-work.ts'
import { IntegerWriter } from './integers.ts'
import { addNumberKeywords, findInexactNumber, findLongExponent, toDoubles } from './numbers.ts'
import { compilePattern } from './pattern.ts'
import { findReferred, readStep } from './schema-parts.ts'
import type { PathIssue } from './schema-parts.ts'
import { readSchema } from './schema.ts'

export interface Parameters {
  /** The JSON Schema, with references that are paths from its root. */
  readonly schema: JsonObject
  /** By name, in the order of their positions. */
  readonly known: ReadonlyMap<string, Parameter>
  /**
   * Returns what is wrong with the values of a request. Each issue is described only when it is
   * read. Throws `too_much_work`.
   */
  check(values: JsonObject, options?: CheckOptions): Iterable<PathIssue>
  /** Whether the schema accepts the values of declared parameters. Throws `too_much_work`. */
  accepts(values: JsonObject, budget: CheckBudget): boolean
  /** See IntegerWriter. */
  writeIntegers(values: JsonObject): JsonObject
  /**
   * Returns the values by position, with defaults, and with integers as digits. They must be valid.
   */
  read(values: JsonObject): readonly Json[]
}

interface CheckOptions {
  /** Only the first issue of the schema is looked for. */
  readonly first?: boolean
  /** What toDoubles returns for the values, if that is known. */
  readonly doubles?: unknown
  /** The units that the check may spend, instead of those of one request. */
  readonly budget?: CheckBudget | undefined
}

interface Declared {
  readonly properties?: Readonly<Record<string, JsonObject>>
  readonly required?: readonly string[]
}

const NO_PARAMETERS = { type: 'object', properties: {} }

/**
 * Reads `params` of a file. Returns the issues of an invalid schema. `maxWork`: how many units the
 * check of a request may need.
 */
export function readParameters (
  text: Json = NO_PARAMETERS,
  maxWork: number
): Parameters | readonly PathIssue[] {
  const problem = findSchemaProblem(text)
  if (problem !== undefined) return [problem]
  const compiled = compile(text as JsonObject)
  if (!('validate' in compiled)) return compiled
  const { schema, validate, isValid } = compiled
  const { properties = {}, required = [] } = schema as Declared
  const names = Object.keys(properties)
  const defaults = Object.fromEntries(
    names.filter(name => has(resolveSchema(properties[name], schema), 'default'))
      .map(name => [name, resolveSchema(properties[name], schema)['default'] as Json])
  )
  const undeclared = required.findIndex(name => !has(properties, name))
  if (undeclared >= 0) {
    const message = `"properties" does not contain "${required[undeclared]}".`
    return [{ path: ['required', undeclared], message }]
  }
  // Other issues, such as missing parameters, do not concern the defaults.
  const wrong = [...describeErrors(validate, { values: defaults, doubles: toDoubles(defaults) })]
    .filter(({ path }) => has(defaults, String(path[0])))
  if (wrong.length > 0) {
    return wrong.map(({ path: [name, ...rest], message }) =>
      ({ path: ['properties', name as string, 'default', ...rest], message }))
  }
  const integers = new IntegerWriter(schema)
  return {
    schema,
    known: new Map(
      names.map((name, position) => {
        const resolved = resolveSchema(properties[name], schema)
        const { type, minItems = 0 } = resolved
        return [name, {
          position,
          isList: type === 'array',
          minItems: minItems as number,
          isOptional: !required.includes(name) && !has(defaults, name),
          rows: readRows(resolved, schema)
        }]
      })
    ),
    * check (values, { first = false, doubles = toDoubles(values), budget } = {}) {
      for (const name of Object.keys(values)) {
        if (has(properties, name)) continue
        const known = names.join(', ') || 'none'
        yield { path: [name], message: `There is no parameter "${name}". Parameters: ${known}.` }
      }
      const spendable = budget ?? { maxWork, spent: 0 }
      yield * describeErrors(first ? isValid : validate, { values, doubles, budget: spendable })
    },
    accepts (values, budget) {
      const doubles = toDoubles(values)
      if (doubles !== values && findLongExponent(values) !== undefined) return false
      return bound(budget, () => isValid(doubles))
    },
    writeIntegers: values => integers.write(values),
    read: values => {
      const written = integers.write({ ...defaults, ...values })
      return names.map(name => has(written, name) ? written[name] as Json : null)
    }
  }
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** Returns what the service does not allow in a schema, although JSON Schema does. */
function findSchemaProblem (schema: Json): PathIssue | undefined {
  if (!isObject(schema) || schema['type'] !== 'object') {
    return { path: [], message: '"params" must be a JSON Schema with "type": "object".' }
  }
  if (has(schema, 'properties') && !isObject(schema['properties'])) {
    return { path: ['properties'], message: '"properties" must be an object of schemas.' }
  }
  if (has(schema, '$schema') && schema['$schema'] !== DIALECT) {
    return { path: ['$schema'], message: `"$schema" must be "${DIALECT}".` }
  }
  const path = findInexactNumber(schema)
  return path && { path, message: 'The number has more digits than a double can hold.' }
}

/** Follows a reference to another part of the schema. */
export function resolveSchema (schema: JsonObject | undefined, root: Json): JsonObject {
  const text = schema?.['$ref']
  if (typeof text !== 'string' || !text.startsWith('#/')) return isObject(schema) ? schema : {}
  // It exists, and no reference leads back to itself: `readSchema` has checked both.
  const found = findReferred(text, root)
  return { ...isObject(found) && resolveSchema(found, root), ...schema }
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

/** Ajv uses `code` only to write a schema into a file, which does not happen here. */
const regExp = Object.assign(compilePattern, { code: '' })

interface Compiled extends Pick<Parameters, 'schema'> {
  /** Finds all errors. */
  readonly validate: ValidateFunction
  /** Finds the first error. */
  readonly isValid: ValidateFunction
}

/** Compiles the schema, which must be self-contained and may contain no unknown keywords. */
function compile (text: JsonObject): Compiled | readonly PathIssue[] {
  metaAjv ??= createAjv({ allErrors: true })
  const plain = toDoubles(text)
  if (metaAjv.validateSchema(plain as object) !== true) {
    const errors = metaAjv.errors as readonly ErrorObject[]
    const issues = errors.map(error => describeError(error, text))
    return [...new Map(issues.map(issue => [JSON.stringify(issue), issue])).values()]
  }
  const read = readSchema(text)
  if ('issues' in read) return read.issues
  const { schema } = read
  try {
    const doubles = addUnits(toDoubles(schema) as JsonObject)
    const [validate, isValid] = [true, false].map(allErrors =>
      createAjv({ allErrors, meta: false, validateSchema: false }).compile(doubles)
    ) as [ValidateFunction, ValidateFunction]
    return { schema, validate, isValid }
  } catch (error) {
    const reason = error instanceof RangeError
      ? 'too many references in a row'
      : (error as Error).message
    return [{ path: [], message: `The schema is invalid: ${reason}.` }]
  }
}

/**
 * Compiles the meta-schema, and no other one. Once, because that takes longer than everything else
 * that is done for a file: with 200 files, 5 of 6 seconds.
 */
let metaAjv: Ajv2020 | undefined

function createAjv (options: Pick<Options, 'allErrors' | 'meta' | 'validateSchema'>): Ajv2020 {
  const ajv = new Ajv2020({
    ...options,
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    validateFormats: false,
    ownProperties: true,
    logger: false,
    code: { regExp }
  })
  return addWorkKeyword(addNumberKeywords(ajv))
}

interface Checked {
  readonly values: JsonObject
  readonly doubles: unknown
  readonly budget?: CheckBudget
}

function * describeErrors (
  validate: ValidateFunction,
  { values, doubles, budget = { maxWork: Infinity, spent: 0 } }: Checked
): Iterable<PathIssue> {
  const long = doubles === values ? undefined : findLongExponent(values)
  if (long !== undefined) {
    const message = `${nameOf(long)} has an exponent of more than ${MAX_EXPONENT_DIGITS} digits.`
    yield { path: long, message }
  } else if (!bound(budget, () => validate(doubles))) {
    for (const error of validate.errors as readonly ErrorObject[]) {
      yield describeError(error, values)
    }
  }
}

function describeError (
  { instancePath, keyword, message = '', params }: ErrorObject,
  root: Json
): PathIssue {
  const path = readPointer(instancePath, root)
  const member = (params as Readonly<Record<string, unknown>>)[
    keyword === 'required' ? 'missingProperty' : 'additionalProperty'
  ]
  if (typeof member === 'string') {
    const problem = keyword === 'required' ? 'is required' : 'is unknown'
    return { path: [...path, member], message: `"${member}" ${problem}.` }
  }
  const allowed: unknown = params['allowedValues'] ?? params['allowedValue']
  const name = path.length === 0 ? 'The value' : nameOf(path)
  return {
    path,
    message: `${name} ${message}${allowed === undefined ? '' : `: ${JSON.stringify(allowed)}`}.`
  }
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
