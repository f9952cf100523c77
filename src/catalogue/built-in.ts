/**
 * Built-in types that are known by their OID (pg_type.dat).
 */
import { fill, integer, join, sql, type Fragment } from '../fragment/fragment.ts'
import type { BaseType, Form, Limits } from './type.ts'

/**
 * The OIDs from here on differ between databases (transam.h, FirstGenbkiObjectId): types of users,
 * of extensions and of information_schema, and rows of catalogues.
 */
export const FIRST_CREATED_OID = 10_000

/** OIDs of types that are treated in a special way. */
export const TypeOid = {
  bool: 16,
  json: 114,
  jsonb: 3802,
  bpchar: 1042,
  varchar: 1043,
  timestamp: 1114,
  timestamptz: 1184,
  interval: 1186,
  bit: 1560,
  varbit: 1562,
  numeric: 1700
} as const

type Entry = readonly [oid: number, typname: string, form: Form, name?: string]

/**
 * Types that are known without the catalogue: those whose values are written in a form of their
 * own, or whose name is not that of pg_type, those with a type modifier, and those of casts.
 */
const BASE_TYPES: readonly Entry[] = [
  [TypeOid.bool, 'bool', 'plain', 'boolean'],
  [18, 'char', 'byte', '"char"'],
  [19, 'name', 'name'],
  [20, 'int8', 'integer', 'bigint'],
  [21, 'int2', 'integer', 'smallint'],
  [22, 'int2vector', 'plain'],
  [23, 'int4', 'integer', 'integer'],
  [25, 'text', 'plain'],
  [26, 'oid', 'integer'],
  [28, 'xid', 'integer'],
  [29, 'cid', 'integer'],
  [30, 'oidvector', 'plain'],
  [TypeOid.json, 'json', 'json'],
  [700, 'float4', 'plain', 'real'],
  [701, 'float8', 'plain', 'double precision'],
  [790, 'money', 'money'],
  [TypeOid.bpchar, 'bpchar', 'characters', 'character'],
  [TypeOid.varchar, 'varchar', 'characters', 'character varying'],
  [1082, 'date', 'date'],
  [1083, 'time', 'time', 'time without time zone'],
  [TypeOid.timestamp, 'timestamp', 'timestamp', 'timestamp without time zone'],
  [TypeOid.timestamptz, 'timestamptz', 'timestamptz', 'timestamp with time zone'],
  [TypeOid.interval, 'interval', 'interval'],
  [1266, 'timetz', 'timetz', 'time with time zone'],
  [TypeOid.bit, 'bit', 'plain'],
  [TypeOid.varbit, 'varbit', 'plain', 'bit varying'],
  [TypeOid.numeric, 'numeric', 'numeric'],
  [2950, 'uuid', 'plain'],
  [TypeOid.jsonb, 'jsonb', 'json'],
  [5069, 'xid8', 'integer']
]

type BuiltInType = BaseType & { readonly sql: Fragment }

function toType ([oid, typname, form, name = typname]: Entry): BuiltInType {
  const sql = fill(`pg_catalog.${typname}`, {})
  return { kind: 'base', oid, name, sql, form, modifier: -1, delimiter: ',' }
}

const TYPES = new Map(BASE_TYPES.map(entry => [entry[0], toType(entry)]))

const NAMED = new Map(BASE_TYPES.map(([oid, typname]) => [typname, TYPES.get(oid)]))

/** The OIDs of these types, as SQL. */
export const builtInOids: Fragment = join([...TYPES.keys()].map(integer))

/**
 * Returns one of these types by its OID, with a type modifier (pg_attribute.atttypmod); undefined
 * for another OID. Without a modifier it is always the same object.
 */
export function builtInType (oid: number, modifier: number): BaseType | undefined {
  const type = TYPES.get(oid)
  if (type === undefined || modifier === -1) return type
  return { ...type, modifier, ...limitsOf(oid, modifier) }
}

/** Returns one of these types by its name in pg_type: `int4`. */
export function builtInNamed (typname: string): BuiltInType {
  return NAMED.get(typname) as BuiltInType
}

/** What the modifier of a type says, as its typmodout function reads it. */
function limitsOf (oid: number, modifier: number): Limits {
  switch (oid) {
    case TypeOid.numeric:
      return readNumeric(modifier - 4)
    case TypeOid.bpchar:
    case TypeOid.varchar:
      return { length: modifier - 4 }
    case TypeOid.bit:
    case TypeOid.varbit:
      return { length: modifier }
    case TypeOid.interval:
      return readInterval(modifier)
    default:
      return { precision: modifier }
  }
}

/** The scale has 11 bits, with a sign from PostgreSQL 15 on. Before, it is at most 1000. */
function readNumeric (modifier: number): Limits {
  return { precision: (modifier >> 16) & 0xffff, scale: ((modifier & 0x7ff) ^ 1024) - 1024 }
}

/** The fields of an interval in their order, with their bits in its modifier (timestamp.h). */
const FIELDS: ReadonlyArray<readonly [name: string, bit: number]> = [
  ['year', 1 << 2],
  ['month', 1 << 1],
  ['day', 1 << 3],
  ['hour', 1 << 10],
  ['minute', 1 << 11],
  ['second', 1 << 12]
]
const ALL_FIELDS = 0x7fff

/** The precision of an interval that has none. */
const ANY_PRECISION = 0xffff

function readInterval (modifier: number): Limits {
  const [bits, precision] = [(modifier >> 16) & ALL_FIELDS, modifier & ANY_PRECISION]
  const names = FIELDS.filter(([, bit]) => (bits & bit) !== 0).map(([name]) => name)
  const ends = new Set([names[0], names.at(-1)])
  return {
    ...bits === ALL_FIELDS ? {} : { fields: [...ends].join(' to ') },
    ...precision === ANY_PRECISION ? {} : { precision }
  }
}

/** A built-in type with its length or precision, as SQL: PostgreSQL reads its modifier again. */
export function limitedType (type: BaseType): Fragment {
  const name = type.sql as Fragment
  const limits = type.form === 'interval'
    ? bitsOfInterval(type.modifier)
    : [type.length, type.precision, type.scale].filter(limit => limit !== undefined)
  return limits.length === 0 ? name : sql`${name}(${join(limits.map(integer))})`
}

/** The fields and the precision of an interval, as intervaltypmodin takes them. */
function bitsOfInterval (modifier: number): readonly number[] {
  if (modifier === -1) return []
  return [(modifier >> 16) & ALL_FIELDS, modifier & ANY_PRECISION]
    .filter(bits => bits !== ANY_PRECISION)
}
