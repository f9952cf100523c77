/**
 * The grammar applied: a value of the request against a schema of `schemas/`, every fault with its code and path. TypeBox's own checks
 * know neither (and no ExactNumber); they answer the same, which a test holds. What a schema can say beside TypeBox's words is listed in
 * schemas/filter.ts.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { FaultCode } from '../../schemas/error.ts'
import { has, isNumber, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { columnFault, pathFault } from './name.ts'
import type { Findings, Path } from './nodes.ts'

interface Context {
  readonly findings: Findings
  /** The code of a value that does not fit. */
  readonly code: FaultCode
  /** Schemas that refer to themselves, by their $id. */
  readonly recursive: ReadonlyMap<string, TSchema>
}

/** Whether `value` has the shape of `schema`; every fault is noted. */
export function checkShape (schema: TSchema, value: Json, path: Path, findings: Findings): boolean {
  return check(schema, value, path, { findings, code: 'member_invalid', recursive: new Map() })
}

function check (schema: TSchema, value: Json, path: Path, outer: Context): boolean {
  if (schema[Kind] === 'This') return check(outer.recursive.get(schema['$ref'] as string) as TSchema, value, path, outer)
  const context = {
    ...outer,
    code: (schema['fault'] as FaultCode | undefined) ?? outer.code,
    recursive: schema.$id === undefined ? outer.recursive : new Map(outer.recursive).set(schema.$id, schema)
  }
  const variant = schema[Kind] === 'Union' ? choose(schema, value) : schema
  if (variant === undefined || !accepts(variant, value)) return refuse(context, path, `${nameOf(path)} must be ${describe(schema)}.${value === null && context.code === 'operand_invalid' ? ' Null equals nothing in SQL; {"is": null} asks for it.' : ''}`)
  if (variant !== schema) return check(variant, value, path, context)
  if (schema[Kind] === 'Unknown') return schema['reference'] !== true || checkStrings(value, path, context.findings)
  if (typeof value === 'string') return checkString(schema, value, path, context)
  if (Array.isArray(value)) return checkArray(schema, value as readonly Json[], path, context)
  if (isObject(value)) return checkObject(schema, value, path, context)
  return true
}

/** The one variant that a value can be meant as; undefined when there is none. Objects are told apart by their required members. */
function choose (union: TSchema, value: Json): TSchema | undefined {
  const fitting = variantsOf(union).filter(variant => accepts(variant, value))
  if (!isObject(value) || fitting.length < 2) return fitting[0]
  const required = (variant: TSchema): readonly string[] => (variant['required'] as readonly string[] | undefined) ?? []
  const named = fitting.find(variant => required(variant).some(name => has(value, name)))
  // An object of a single member that begins with `$` is never plain data.
  const modifier = Object.keys(value).length === 1 && Object.keys(value)[0]?.startsWith('$') === true
  return named ?? (modifier ? undefined : fitting.find(variant => variant[Kind] === 'Record'))
}

function variantsOf (schema: TSchema): readonly TSchema[] {
  return schema[Kind] === 'Union' ? (schema['anyOf'] as readonly TSchema[]).flatMap(variantsOf) : [schema]
}

/** Whether the type of the value is right, its contents not looked at. */
function accepts (schema: TSchema, value: Json): boolean {
  switch (schema[Kind]) {
    case 'String': return typeof value === 'string' && (schema['pattern'] === undefined || new RegExp(schema['pattern'] as string).test(value))
    case 'Number': return isNumber(value)
    case 'Integer': return Number.isSafeInteger(value) && (value as number) >= (schema['minimum'] as number)
    case 'Boolean': return typeof value === 'boolean'
    case 'Null': return value === null
    case 'Literal': return value === schema['const']
    case 'Array': return Array.isArray(value) && value.length <= ((schema['maxItems'] as number | undefined) ?? Infinity) && (schema['empty'] !== undefined || value.length >= ((schema['minItems'] as number | undefined) ?? 0))
    case 'Object':
    case 'Record': return isObject(value)
    default: return true
  }
}

function checkString (schema: TSchema, value: string, path: Path, context: Context): boolean {
  const fault = nameFault(schema['name'] as NameKind | undefined, value)
  if (fault !== undefined) return refuse(context, path, fault)
  return schema['reference'] !== true || context.findings.check(value, path)
}

/** Every string inside any JSON. */
function checkStrings (value: Json, path: Path, findings: Findings): boolean {
  if (typeof value === 'string') return findings.check(value, path)
  if (Array.isArray(value)) return every((value as readonly Json[]).map((item, i) => checkStrings(item, [...path, i], findings)))
  return !isObject(value) || every(Object.entries(value).map(([key, item]) => checkStrings(item, [...path, key], findings)))
}

function checkArray (schema: TSchema, value: readonly Json[], path: Path, context: Context): boolean {
  if (value.length < ((schema['minItems'] as number | undefined) ?? 0)) return refuse({ ...context, code: schema['empty'] as FaultCode }, path, `${nameOf(path)} must not be empty.`)
  return every(value.map((item, i) => check(schema['items'] as TSchema, item, [...path, i], context)))
}

function checkObject (schema: TSchema, value: JsonObject, path: Path, context: Context): boolean {
  const entries = Object.entries(value)
  const closed = schema['closed'] === true && !exactly(schema, value)
  if (closed) return refuse(context, path, `${nameOf(path)} must be ${describe(schema)} and nothing else.`)
  if (entries.length < ((schema['minProperties'] as number | undefined) ?? 0)) return refuse({ ...context, code: (schema['empty'] as FaultCode | undefined) ?? context.code }, path, `${nameOf(path)} must not be empty.`)
  if (entries.length > ((schema['maxProperties'] as number | undefined) ?? Infinity)) return refuse(context, path, `${nameOf(path)} must name one column.`)
  const missing = ((schema['required'] as readonly string[] | undefined) ?? []).filter(name => !has(value, name))
  for (const name of missing) context.findings.fault('member_missing', [...path, name], `${name} is required.`)
  return every(entries.map(([key, item]) => checkMember(schema, key, item, [...path, key], context))) && missing.length === 0
}

function checkMember (schema: TSchema, key: string, item: Json, path: Path, context: Context): boolean {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, TSchema>>
  if (Object.hasOwn(properties, key)) return check(properties[key] as TSchema, item, path, context)
  const others = schema[Kind] === 'Record' ? Object.values(schema['patternProperties'] as Record<string, TSchema>)[0] : schema['additionalProperties'] as TSchema | false
  if (others === undefined || others === false) {
    const operator = schema['unknown'] === 'operator_unknown'
    return refuse({ ...context, code: operator ? 'operator_unknown' : 'member_unknown' }, path, `There is no ${operator ? 'operator' : 'member'} "${key}".`)
  }
  const fault = nameFault(schema['keys'] as NameKind | undefined, key)
  if (fault !== undefined) return refuse({ ...context, code: 'member_invalid' }, path, fault)
  return check(others, item, path, context)
}

/** Whether an object has all required members and none that is not named. */
function exactly (schema: TSchema, value: JsonObject): boolean {
  return (schema['required'] as readonly string[]).every(name => has(value, name)) && Object.keys(value).every(name => has(schema['properties'] as JsonObject, name))
}

type NameKind = 'column' | 'path'

function nameFault (kind: NameKind | undefined, name: string): string | undefined {
  if (kind === undefined) return undefined
  return kind === 'column' ? columnFault(name) : pathFault(name)
}

function refuse ({ findings, code }: Context, path: Path, message: string): false {
  findings.fault(code, path, message)
  return false
}

function every (results: readonly boolean[]): boolean {
  return results.every(Boolean)
}

function nameOf (path: Path): string {
  const last = path.at(-1)
  return typeof last === 'number' ? `Element ${last}` : String(last)
}

/** A schema in words, as the end of "must be …". */
function describe (schema: TSchema): string {
  if (typeof schema['expected'] === 'string') return schema['expected']
  switch (schema[Kind]) {
    case 'Union': {
      const words = [...new Set(variantsOf(schema).map(describe))]
      return words.length === 1 ? words[0] as string : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
    }
    case 'String': return 'a string'
    case 'Number': return 'a number'
    case 'Integer': return 'an integer, 0 or more'
    case 'Boolean': return 'a boolean'
    case 'Null': return 'null'
    case 'Literal': return JSON.stringify(schema['const'])
    case 'Array': return `${schema['minItems'] === undefined ? 'an array' : 'a non-empty array'}${schema['maxItems'] === undefined ? '' : ` of at most ${String(schema['maxItems'])}`}`
    default: return Array.isArray(schema['required']) ? `{${schema['required'].map(name => JSON.stringify(name)).join(', ')}: …}` : 'an object'
  }
}
