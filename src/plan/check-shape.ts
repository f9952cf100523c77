/**
 * The grammar applied: a value of the request against a schema of `schemas/`, every fault with its
 * code and path. TypeBox's own checks know neither (and no ExactNumber); they answer the same,
 * which a test holds. What a schema can say beside TypeBox's words is listed in schemas/filter.ts.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { IssueCode } from '../../schemas/error.ts'
import { maxFilterDepth, type ReferenceKind } from '../../schemas/filter.ts'
import { has, isNumber, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { specialMember } from './document.ts'
import { columnFault, pathFault, plainColumnFault } from './name.ts'
import type { PlanContext, Path } from './nodes.ts'
import { describe, nameOf, variantsOf } from './describe.ts'

interface Context {
  readonly findings: PlanContext
  /** The code of a value that does not fit. */
  readonly code: IssueCode
  /** Schemas that refer to themselves, by their $id. */
  readonly recursive: ReadonlyMap<string, TSchema>
  /** Combinators of filters around this place. */
  readonly depth: number
}

/** Whether `value` has the shape of `schema`; every fault is noted. */
export function checkShape (
  schema: TSchema,
  value: Json,
  path: Path,
  findings: PlanContext
): boolean {
  return check(schema, value, path, {
    findings,
    code: 'member_invalid',
    recursive: new Map(),
    depth: 0
  })
}

function check (schema: TSchema, value: Json, path: Path, outer: Context): boolean {
  if (schema[Kind] === 'This') {
    return check(outer.recursive.get(schema['$ref'] as string) as TSchema, value, path, outer)
  }
  const context = {
    ...outer,
    code: (schema['fault'] as IssueCode | undefined) ?? outer.code,
    recursive: schema.$id === undefined
      ? outer.recursive
      : new Map(outer.recursive).set(schema.$id, schema)
  }
  const variant = schema[Kind] === 'Union' ? choose(schema, value) : schema
  if (variant === undefined || !accepts(variant, value)) {
    const hint = value === null && context.code === 'operand_invalid'
      ? ' Null equals nothing in SQL; {"is": null} asks for it.'
      : ''
    return refuse(context, path, `${nameOf(path)} must be ${describe(schema)}.${hint}`)
  }
  if (variant !== schema) return check(variant, value, path, context)
  if (schema[Kind] === 'Unknown') {
    return schema['reference'] === undefined || checkUnknown(value, path, context)
  }
  if (typeof value === 'string') return checkString(schema, value, path, context)
  if (Array.isArray(value)) return checkArray(schema, value as readonly Json[], path, context)
  if (isObject(value)) return checkObject(schema, value, path, context)
  return true
}

/**
 * The one variant that a value can be meant as; undefined when there is none. Objects are told
 * apart by their required members.
 */
function choose (union: TSchema, value: Json): TSchema | undefined {
  const fitting = variantsOf(union).filter(variant => accepts(variant, value))
  if (!isObject(value) || fitting.length < 2) return fitting[0]
  const plain = fitting.find(variant => variant[Kind] === 'Record')
  if (plain !== undefined && specialMember(value) === undefined) return plain
  return fitting.find(variant => requiredOf(variant).some(name => has(value, name)))
}

/** Whether the type of the value is right, its contents not looked at. */
function accepts (schema: TSchema, value: Json): boolean {
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
    // One that is empty, where that has a code of its own, is refused by checkArray.
    case 'Array':
      return Array.isArray(value) && value.length <= limit(schema, 'maxItems') &&
        (schema['empty'] !== undefined || value.length >= limit(schema, 'minItems'))
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

function limit (
  schema: TSchema,
  name: 'minItems' | 'maxItems' | 'minProperties' | 'maxProperties'
): number {
  return (schema[name] as number | undefined) ?? (name.startsWith('min') ? 0 : Infinity)
}

function checkString (schema: TSchema, value: string, path: Path, context: Context): boolean {
  const fault = nameFault(schema['name'] as NameKind | undefined, value)
  if (fault !== undefined) return refuse(context, path, fault)
  return schema['reference'] === undefined ||
    checkReference(schema['reference'] as ReferenceKind, value, path, context)
}

function checkReference (
  kind: ReferenceKind,
  value: string,
  path: Path,
  context: Context
): boolean {
  const meaning = context.findings.read(value, path)
  if (meaning.kind === 'unknown' || meaning.kind === 'malformed') return false
  const list = meaning.kind === 'reference' && meaning.row === '*'
  if (kind === 'value' && list) {
    return refuse(
      context,
      path,
      `"${value}" is a list; it belongs into in, nin, any, all or what an array is compared with.`
    )
  }
  if (kind === 'list' && !list) {
    return refuse(context, path, `${nameOf(path)} takes an array or a reference $op.*.column.`)
  }
  if (kind === 'none' && meaning.kind === 'reference') {
    return refuse(context, path, `${nameOf(path)} takes constants alone, no reference.`)
  }
  return true
}

/** Every string inside any JSON. */
function checkUnknown (value: Json, path: Path, context: Context): boolean {
  if (typeof value === 'string') return checkReference('any', value, path, context)
  if (Array.isArray(value)) {
    return every(
      (value as readonly Json[]).map((item, i) => checkUnknown(item, [...path, i], context))
    )
  }
  return !isObject(value) ||
    every(Object.entries(value).map(([key, item]) => checkUnknown(item, [...path, key], context)))
}

function checkArray (
  schema: TSchema,
  value: readonly Json[],
  path: Path,
  context: Context
): boolean {
  if (value.length < limit(schema, 'minItems')) {
    return refuse(
      { ...context, code: schema['empty'] as IssueCode },
      path,
      `${nameOf(path)} must not be empty.`
    )
  }
  return every(
    value.map((item, i) => check(schema['items'] as TSchema, item, [...path, i], context))
  )
}

function checkObject (schema: TSchema, value: JsonObject, path: Path, context: Context): boolean {
  const entries = Object.entries(value)
  const closed = schema['closed'] === true && !exactly(schema, value)
  if (closed) {
    return refuse(context, path, `${nameOf(path)} must be ${describe(schema)} and nothing else.`)
  }
  if (entries.length < limit(schema, 'minProperties')) {
    return refuse(
      { ...context, code: (schema['empty'] as IssueCode | undefined) ?? context.code },
      path,
      `${nameOf(path)} must not be empty.`
    )
  }
  if (entries.length > limit(schema, 'maxProperties')) {
    return refuse(context, path, `${nameOf(path)} must name one column.`)
  }
  const missing = requiredOf(schema).filter(name => !has(value, name))
  for (const name of missing) {
    context.findings.fault('member_missing', [...path, name], `${name} is required.`)
  }
  return every(
    entries.map(([key, item]) => checkMember(schema, key, item, [...path, key], context))
  ) && missing.length === 0
}

function checkMember (
  schema: TSchema,
  key: string,
  item: Json,
  path: Path,
  context: Context
): boolean {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, TSchema>>
  if ((schema['nests'] as readonly string[] | undefined)?.includes(key) === true) {
    return checkDeeper(properties[key] as TSchema, item, path, context)
  }
  if (Object.hasOwn(properties, key)) return check(properties[key] as TSchema, item, path, context)
  const others = schema[Kind] === 'Record'
    ? Object.values(schema['patternProperties'] as Record<string, TSchema>)[0]
    : schema['additionalProperties'] as TSchema | false
  if (others === undefined || others === false) {
    const operator = schema['unknown'] === 'operator_unknown'
    return refuse(
      { ...context, code: operator ? 'operator_unknown' : 'member_unknown' },
      path,
      `There is no ${operator ? 'operator' : 'member'} "${key}".`
    )
  }
  const fault = nameFault(schema['keys'] as NameKind | undefined, key)
  if (fault !== undefined) return refuse({ ...context, code: 'member_invalid' }, path, fault)
  return check(others, item, path, context)
}

function checkDeeper (schema: TSchema, item: Json, path: Path, context: Context): boolean {
  const depth = context.depth + 1
  if (depth <= maxFilterDepth) return check(schema, item, path, { ...context, depth })
  return refuse(
    { ...context, code: 'depth_exceeded' },
    path,
    `Filters nest deeper than ${maxFilterDepth}.`
  )
}

/** Whether an object has all required members and none that is not named. */
function exactly (schema: TSchema, value: JsonObject): boolean {
  return requiredOf(schema).every(name => has(value, name)) &&
    Object.keys(value).every(name => has(schema['properties'] as JsonObject, name))
}

type NameKind = 'column' | 'plain' | 'path'

const nameFaults: Readonly<Record<NameKind, (name: string) => string | undefined>> = {
  column: columnFault,
  plain: plainColumnFault,
  path: pathFault
}

function nameFault (kind: NameKind | undefined, name: string): string | undefined {
  return kind === undefined ? undefined : nameFaults[kind](name)
}

function refuse ({ findings, code }: Context, path: Path, message: string): false {
  findings.fault(code, path, message)
  return false
}

function every (results: readonly boolean[]): boolean {
  return results.every(Boolean)
}
