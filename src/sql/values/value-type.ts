/**
 * What the compiler reads from the type of a column: how statements name it, and what is special
 * about its values.
 */
import { limitedType, TypeOid } from '../../catalogue/built-in.ts'
import { baseOf, type BaseType, type Type } from '../../catalogue/type.ts'
import type { JoiningName } from '../../../schemas/modifier.ts'
import { sql, type Fragment } from '../../fragment/fragment.ts'

/**
 * The kinds of types that need SQL of their own, also as the base of a domain. `json` is json or
 * jsonb.
 */
export type ColumnKind = 'json' | 'array' | 'composite'

/** date, time, timestamp, timestamptz, interval and timetz. */
const TIME_OIDS: ReadonlySet<number> = new Set([1082, 1083, 1114, 1184, 1186, 1266])

/**
 * regproc, regprocedure, regoper, regoperator, regclass, regtype, regconfig, regdictionary,
 * regnamespace, regrole and regcollation. They are compared as OIDs.
 */
const OBJECT_OIDS: ReadonlySet<number> =
  new Set([24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191])

/** Whether the values of a type are names of objects. */
export function isObjectName (type: Type | undefined): boolean {
  return type !== undefined && OBJECT_OIDS.has(baseOf(type).oid)
}

/** Whether a type is json or jsonb. */
export function isJsonType ({ oid }: Type): boolean {
  return oid === TypeOid.json || oid === TypeOid.jsonb
}

/** Whether a modifier can join values of a type: both join JSON, and $append also arrays. */
export function canJoin (type: Type, modifier: JoiningName): boolean {
  const base = baseOf(type)
  return isJsonType(base) || (base.kind === 'array' && modifier === '$append')
}

/** Whether a type has a fixed length, to which it cuts a text: name, char(n) and "char". */
export function isCut (type: Type): boolean {
  const base = baseOf(type)
  return base.kind === 'base' &&
    (base.form === 'name' || base.form === 'byte' || base.oid === TypeOid.bpchar)
}

/**
 * The name of the type in which a value is written, which is the base of a domain; undefined: it
 * has no name here.
 */
export function nameWritten (type: Type | undefined): Fragment | undefined {
  const base = type && baseOf(type)
  const interval = intervalOf(type)
  if (interval === undefined) return base?.sql ?? type?.sql
  return base?.kind === 'array' ? sql`${limitedType(interval)}[]` : limitedType(interval)
}

/** The name of the type to which a text is cast. A cast ignores the fields of an interval. */
export function nameCast (type: Type): Fragment | undefined {
  return intervalOf(type) === undefined ? nameWritten(type) : undefined
}

/**
 * The interval with fields that a type is, or of which it is an array. PostgreSQL reads a text by
 * the fields: for `interval minute`, 5 is five minutes.
 */
function intervalOf (type: Type | undefined): BaseType | undefined {
  const base = type && baseOf(type)
  const value = base?.kind === 'array' ? base.element : base
  return value?.kind === 'base' && value.fields !== undefined ? value : undefined
}

/** A type without length and precision. */
export function withoutLimits (type: Type): Type {
  switch (type.kind) {
    case 'base': {
      const { length, precision, scale, fields, ...base } = type
      return base
    }
    case 'domain':
      return withoutLimits(type.base)
    case 'array':
      return { ...type, element: withoutLimits(type.element) }
    default:
      return type
  }
}

/** The kind of a type; undefined: it needs no SQL of its own. */
export function kindOf (type: Type | undefined): ColumnKind | undefined {
  const base = type && baseOf(type)
  if (base?.kind === 'array' || base?.kind === 'composite') return base.kind
  return base !== undefined && isJsonType(base) ? 'json' : undefined
}

/** The delimiter of the values of a type in an array. */
export function delimiterOf (type: Type | undefined): string {
  const base = type && baseOf(type)
  return base?.kind === 'base' || base?.kind === 'array' ? base.delimiter : ','
}

/** Whether it is a date, a time or an interval, whose text may contain brackets and quotes. */
export function isTime (type: Type | undefined): boolean {
  return type !== undefined && TIME_OIDS.has(baseOf(type).oid)
}
