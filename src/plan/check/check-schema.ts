/**
 * Checks a value of the request against a schema of `schemas/`, and adds an issue with code and
 * path for each problem. TypeBox's own check knows neither codes nor ExactNumber; a test checks
 * that both accept the same values. The keywords that schemas have beside TypeBox's own are listed
 * in schemas/filter.ts.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { IssueCode } from '../../../schemas/error.ts'
import { maxFilterDepth } from '../../../schemas/filter.ts'
import type { ReferenceKind } from '../../../schemas/operand.ts'
import { has, isNested, isNumber, isObject, type Json, type JsonObject } from '../../json/parse.ts'
import { within, type Place } from '../context.ts'
import { isPlain, readDollarMember } from '../document.ts'
import { countKeys, findColumnProblem, findPathProblem, findPlainColumnProblem } from '../name.ts'
import { findBracketed, isList } from '../reference.ts'
import { describe, describeExpected, describeUnknown, nameOf, variantsOf } from './describe.ts'

interface SchemaPlace extends Place {
  /** The code of a value that does not match. */
  readonly code: IssueCode
  /** Number of combinators of a filter around this place. */
  readonly depth: number
}

/** Returns whether `value` matches `schema`. Adds an issue for each problem. */
export function checkSchema (schema: TSchema, value: Json, { context, path }: Place): boolean {
  return check(schema, value, { context, path, code: 'member_invalid', depth: 0 })
}

/** The recursive schemas that were entered, by $id. */
const recursive = new Map<string, TSchema>()

function check (schema: TSchema, value: Json, outer: SchemaPlace): boolean {
  if (schema[Kind] === 'This') {
    return check(recursive.get(schema['$ref'] as string) as TSchema, value, outer)
  }
  if (schema.$id !== undefined) recursive.set(schema.$id, schema)
  const code = schema['issueCode'] as IssueCode | undefined
  const place = code === undefined ? outer : { ...outer, code }
  const variant = schema[Kind] === 'Union' ? chooseVariant(schema, value) : schema
  if (variant === undefined || !matchesType(variant, value)) {
    if (isMalformedReference(schema, value, place)) return false
    const hint = value === null && place.code === 'operand_invalid'
      ? ' In SQL, nothing equals null; use {"is": null}.'
      : ''
    const expected = describeExpected(schema, value, place.path)
    return refuse(place, `${nameOf(place.path)} must be ${expected}.${hint}`)
  }
  if (variant !== schema) return check(variant, value, place)
  if (schema[Kind] === 'Unknown') {
    return schema['reference'] === undefined || checkStrings(value, place)
  }
  if (typeof value === 'string') return checkString(schema, value, place)
  if (Array.isArray(value)) return checkArray(schema, value as readonly Json[], place)
  if (isObject(value)) return checkObject(schema, value, place)
  return true
}

/**
 * Whether a value is a reference in brackets where a reference is allowed. Adds an issue if it is.
 */
function isMalformedReference (schema: TSchema, value: Json, { context, path }: Place): boolean {
  return typeof value === 'string' && findBracketed(value) !== undefined &&
    variantsOf(schema).some(variant => variant['reference'] !== undefined) &&
    context.parseString(value, path).kind === 'malformed'
}

/**
 * Returns the variant of a union that a value matches, or undefined. Objects are distinguished by
 * their required members.
 */
function chooseVariant (union: TSchema, value: Json): TSchema | undefined {
  const matching = variantsOf(union).filter(variant => matchesType(variant, value))
  if (!isObject(value) || matching.length < 2) return matching[0]
  const record = matching.find(variant => variant[Kind] === 'Record')
  if (record !== undefined && readDollarMember(value) === undefined) return record
  return matching.find(variant => requiredOf(variant).some(name => has(value, name)))
}

/** Whether the value has the right type. Its members and elements are not checked. */
function matchesType (schema: TSchema, value: Json): boolean {
  switch (schema[Kind]) {
    case 'String':
      return typeof value === 'string' &&
        (schema['pattern'] === undefined || new RegExp(schema['pattern'] as string).test(value))
    case 'Number':
      return isNumber(value)
    case 'Integer':
      return Number.isSafeInteger(value) && (value as number) >= (schema['minimum'] as number)
    case 'Boolean':
      return typeof value === 'boolean'
    case 'Null':
      return value === null
    case 'Literal':
      return value === schema['const']
    // checkArray refuses an empty array that has its own issue code.
    case 'Array':
      return Array.isArray(value) && value.length <= limitOf(schema, 'maxItems') &&
        (schema['emptyCode'] !== undefined || value.length >= limitOf(schema, 'minItems'))
    case 'Object':
    case 'Record':
      return isObject(value)
    default:
      return true
  }
}

function requiredOf (schema: TSchema): readonly string[] {
  return (schema['required'] as readonly string[] | undefined) ?? []
}

function limitOf (
  schema: TSchema,
  name: 'minItems' | 'maxItems' | 'minProperties' | 'maxProperties'
): number {
  return (schema[name] as number | undefined) ?? (name.startsWith('min') ? 0 : Infinity)
}

function checkString (schema: TSchema, value: string, place: SchemaPlace): boolean {
  const problem = findNameProblem(schema['name'] as NameKind | undefined, value, place)
  if (problem !== undefined) return refuse(place, problem)
  return schema['reference'] === undefined ||
    checkReference(schema['reference'] as ReferenceKind, value, place)
}

function checkReference (kind: ReferenceKind, value: string, place: SchemaPlace): boolean {
  const parsed = place.context.parseString(value, place.path)
  if (parsed.kind === 'unknown' || parsed.kind === 'malformed') return false
  const givesList = parsed.kind === 'reference' && isList(parsed)
  if (kind === 'value' && givesList) {
    return refuse(
      place,
      `"${value}" is a list; use it with "in", "nin", "any", "all", or to compare an array.`
    )
  }
  if (kind === 'list' && !givesList) {
    return refuse(place, `${nameOf(place.path)} must be an array or a reference $op.*.column.`)
  }
  if (kind === 'none' && parsed.kind === 'reference') {
    return refuse(place, `${nameOf(place.path)} must be a constant, not a reference.`)
  }
  return true
}

/**
 * Checks every string inside any JSON. All values share one `path`: to create a path and a place
 * for each took most of the time.
 */
function checkStrings (value: Json, place: SchemaPlace, path = [...place.path]): boolean {
  if (typeof value === 'string') {
    return isPlain(value) || checkReference('any', value, { ...place, path: [...path] })
  }
  if (!isNested(value)) return true
  const items = value as Readonly<Record<string | number, Json>>
  let valid = true
  for (const step of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    path.push(step)
    valid = checkStrings(items[step] as Json, place, path) && valid
    path.pop()
  }
  return valid
}

function checkArray (schema: TSchema, value: readonly Json[], place: SchemaPlace): boolean {
  if (value.length < limitOf(schema, 'minItems')) {
    return refuse(
      { ...place, code: schema['emptyCode'] as IssueCode },
      `${nameOf(place.path)} must not be empty.`
    )
  }
  const items = schema['items'] as TSchema
  // Any JSON.
  if (items[Kind] === 'Unknown') return checkStrings(value, place)
  const accepted = acceptedScalars(items)
  let valid = true
  // No path and no place is created for a plain element: for many thousand elements, that took most
  // of the time.
  for (let i = 0; i < value.length; i++) {
    const item = value[i] as Json
    const isSimple = isPlain(item) || (typeof item === 'string' && item.startsWith('$$'))
    if (isSimple && accepted.has(isNumber(item) ? 'number' : typeof item)) continue
    valid = check(items, item, within(place, i)) && valid
  }
  return valid
}

/** Types of scalars that a schema accepts without further checks, except for references. */
function acceptedScalars (schema: TSchema): ReadonlySet<string> {
  return new Set(
    variantsOf(schema)
      .filter(variant => variant['pattern'] === undefined && variant['name'] === undefined)
      .map(variant => String(variant[Kind]).toLowerCase())
  )
}

function checkObject (schema: TSchema, value: JsonObject, place: SchemaPlace): boolean {
  const names = Object.keys(value)
  if (schema['exact'] === true && !hasExactMembers(schema, value)) {
    return refuse(place, `${nameOf(place.path)} must be exactly ${describe(schema)}.`)
  }
  if (names.length < limitOf(schema, 'minProperties')) {
    return refuse(
      { ...place, code: (schema['emptyCode'] as IssueCode | undefined) ?? place.code },
      `${nameOf(place.path)} must not be empty.`
    )
  }
  if (names.length > limitOf(schema, 'maxProperties')) {
    return refuse(place, `${nameOf(place.path)} must name exactly one column.`)
  }
  const missing = requiredOf(schema).filter(name => !has(value, name))
  for (const name of missing) {
    place.context.addIssue('member_missing', [...place.path, name], `"${name}" is required.`)
  }
  let valid = missing.length === 0
  for (const name of names) {
    valid = checkMember(schema, [name, value[name] as Json], within(place, name)) && valid
  }
  return valid
}

/** Whether an object has all required members and no others. */
function hasExactMembers (schema: TSchema, value: JsonObject): boolean {
  return requiredOf(schema).every(name => has(value, name)) &&
    Object.keys(value).every(name => has(schema['properties'] as JsonObject, name))
}

function checkMember (
  schema: TSchema,
  [key, value]: readonly [string, Json],
  place: SchemaPlace
): boolean {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, TSchema>>
  if (Object.hasOwn(properties, key)) place.context.count(1, place.path)
  if ((schema['nested'] as readonly string[] | undefined)?.includes(key) === true) {
    return checkNested(properties[key] as TSchema, value, place)
  }
  if (Object.hasOwn(properties, key)) return check(properties[key] as TSchema, value, place)
  const others = schema[Kind] === 'Record'
    ? Object.values(schema['patternProperties'] as Record<string, TSchema>)[0]
    : schema['additionalProperties'] as TSchema | false
  if (others === undefined || others === false) {
    const code = (schema['unknownCode'] as IssueCode | undefined) ?? 'member_unknown'
    const kind = code === 'operator_unknown' ? 'operator' : 'member'
    return refuse({ ...place, code }, describeUnknown(kind, key, Object.keys(properties)))
  }
  const kind = schema['keys'] as NameKind | undefined
  // These are the names of operations in `when`. Members of stored JSON are not counted.
  if (kind === undefined && others[Kind] !== 'Unknown') place.context.count(1, place.path)
  const problem = findNameProblem(kind, key, place)
  if (problem !== undefined) return refuse({ ...place, code: 'member_invalid' }, problem)
  return check(others, value, place)
}

function checkNested (schema: TSchema, value: Json, place: SchemaPlace): boolean {
  const depth = place.depth + 1
  if (depth <= maxFilterDepth) return check(schema, value, { ...place, depth })
  return refuse(
    { ...place, code: 'depth_exceeded' },
    `A filter must not be nested more than ${maxFilterDepth} levels deep.`
  )
}

type NameKind = 'column' | 'plain' | 'path'

const nameChecks: Readonly<Record<NameKind, (name: string) => string | undefined>> = {
  column: findColumnProblem,
  plain: findPlainColumnProblem,
  path: findPathProblem
}

/** Counts a name and the keys of its path, and returns what is wrong with it. */
function findNameProblem (
  kind: NameKind | undefined,
  name: string,
  { context, path }: SchemaPlace
): string | undefined {
  if (kind === undefined) return undefined
  context.count(1 + countKeys(name), path)
  return nameChecks[kind](name)
}

/** Adds an issue at a place. Returns false, the result of a check that fails. */
function refuse ({ context, code, path }: SchemaPlace, message: string): false {
  context.addIssue(code, path, message)
  return false
}
