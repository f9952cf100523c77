/**
 * The built-in types, which are known by their OID (pg_type.dat).
 */
import { fill, integer, join, sql, type Fragment } from '../fragment/fragment.ts'
import type { ArrayType, BaseType, Form, Limits, RangeType, Type } from './type.ts'

/**
 * The OIDs from here on differ between databases (transam.h, FirstGenbkiObjectId): types of users,
 * of extensions and of information_schema, and rows of catalogues.
 */
export const FIRST_READ_OID = 10_000

/** OIDs of types that are treated in a special way. */
export const TypeOid = {
  bool: 16,
  box: 603,
  int4: 23,
  json: 114,
  jsonb: 3802,
  bpchar: 1042,
  varchar: 1043,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  interval: 1186,
  bit: 1560,
  varbit: 1562,
  numeric: 1700
} as const

type Entry = readonly [oid: number, array: number, typname: string, form: Form, name?: string]

const BASE_TYPES: readonly Entry[] = [
  [16, 1000, 'bool', 'plain', 'boolean'],
  [17, 1001, 'bytea', 'plain'],
  [18, 1002, 'char', 'byte', '"char"'],
  [19, 1003, 'name', 'name'],
  [20, 1016, 'int8', 'integer', 'bigint'],
  [21, 1005, 'int2', 'integer', 'smallint'],
  [22, 1006, 'int2vector', 'plain'],
  [TypeOid.int4, 1007, 'int4', 'integer', 'integer'],
  [24, 1008, 'regproc', 'plain'],
  [25, 1009, 'text', 'plain'],
  [26, 1028, 'oid', 'integer'],
  [27, 1010, 'tid', 'plain'],
  [28, 1011, 'xid', 'integer'],
  [29, 1012, 'cid', 'integer'],
  [30, 1013, 'oidvector', 'plain'],
  [TypeOid.json, 199, 'json', 'json'],
  [142, 143, 'xml', 'plain'],
  [600, 1017, 'point', 'list'],
  [601, 1018, 'lseg', 'list'],
  [602, 1019, 'path', 'list'],
  [TypeOid.box, 1020, 'box', 'list'],
  [604, 1027, 'polygon', 'list'],
  [628, 629, 'line', 'list'],
  [650, 651, 'cidr', 'plain'],
  [700, 1021, 'float4', 'plain', 'real'],
  [701, 1022, 'float8', 'plain', 'double precision'],
  [718, 719, 'circle', 'list'],
  [774, 775, 'macaddr8', 'plain'],
  [790, 791, 'money', 'money'],
  [829, 1040, 'macaddr', 'plain'],
  [869, 1041, 'inet', 'plain'],
  [1033, 1034, 'aclitem', 'plain'],
  [TypeOid.bpchar, 1014, 'bpchar', 'characters', 'character'],
  [TypeOid.varchar, 1015, 'varchar', 'characters', 'character varying'],
  [TypeOid.date, 1182, 'date', 'date'],
  [1083, 1183, 'time', 'time', 'time without time zone'],
  [TypeOid.timestamp, 1115, 'timestamp', 'timestamp', 'timestamp without time zone'],
  [TypeOid.timestamptz, 1185, 'timestamptz', 'timestamptz', 'timestamp with time zone'],
  [TypeOid.interval, 1187, 'interval', 'interval'],
  [1266, 1270, 'timetz', 'timetz', 'time with time zone'],
  [TypeOid.bit, 1561, 'bit', 'plain'],
  [TypeOid.varbit, 1563, 'varbit', 'plain', 'bit varying'],
  [TypeOid.numeric, 1231, 'numeric', 'numeric'],
  [1790, 2201, 'refcursor', 'plain'],
  [2202, 2207, 'regprocedure', 'plain'],
  [2203, 2208, 'regoper', 'plain'],
  [2204, 2209, 'regoperator', 'plain'],
  [2205, 2210, 'regclass', 'plain'],
  [2206, 2211, 'regtype', 'plain'],
  [2950, 2951, 'uuid', 'plain'],
  [2970, 2949, 'txid_snapshot', 'plain'],
  [3220, 3221, 'pg_lsn', 'plain'],
  [3614, 3643, 'tsvector', 'plain'],
  [3615, 3645, 'tsquery', 'plain'],
  [3642, 3644, 'gtsvector', 'plain'],
  [3734, 3735, 'regconfig', 'plain'],
  [3769, 3770, 'regdictionary', 'plain'],
  [TypeOid.jsonb, 3807, 'jsonb', 'json'],
  [4072, 4073, 'jsonpath', 'plain'],
  [4089, 4090, 'regnamespace', 'plain'],
  [4096, 4097, 'regrole', 'plain'],
  [4191, 4192, 'regcollation', 'plain'],
  [5038, 5039, 'pg_snapshot', 'plain'],
  [5069, 271, 'xid8', 'integer']
]

type RangeEntry =
  readonly [oid: number, array: number, typname: string, kind: RangeType['kind'], subtype: number]

const RANGE_TYPES: readonly RangeEntry[] = [
  [3904, 3905, 'int4range', 'range', TypeOid.int4],
  [3906, 3907, 'numrange', 'range', TypeOid.numeric],
  [3908, 3909, 'tsrange', 'range', TypeOid.timestamp],
  [3910, 3911, 'tstzrange', 'range', TypeOid.timestamptz],
  [3912, 3913, 'daterange', 'range', TypeOid.date],
  [3926, 3927, 'int8range', 'range', 20],
  [4451, 6150, 'int4multirange', 'multirange', TypeOid.int4],
  [4532, 6151, 'nummultirange', 'multirange', TypeOid.numeric],
  [4533, 6152, 'tsmultirange', 'multirange', TypeOid.timestamp],
  [4534, 6153, 'tstzmultirange', 'multirange', TypeOid.timestamptz],
  [4535, 6155, 'datemultirange', 'multirange', TypeOid.date],
  [4536, 6157, 'int8multirange', 'multirange', 20]
]

function builtIn (typname: string): Fragment {
  return fill(`pg_catalog.${typname}`, {})
}

function toBase ([oid, , typname, form, name = typname]: Entry): BaseType {
  return {
    kind: 'base',
    oid,
    name,
    sql: builtIn(typname),
    form,
    modifier: -1,
    delimiter: oid === TypeOid.box ? ';' : ','
  }
}

const TYPES = new Map<number, BaseType | ArrayType | RangeType>(
  BASE_TYPES.map(entry => [entry[0], toBase(entry)])
)
for (const [oid, , name, kind, subtype] of RANGE_TYPES) {
  TYPES.set(oid, { kind, oid, name, sql: builtIn(name), subtype: TYPES.get(subtype) as Type })
}
for (const [oid, array, typname] of [...BASE_TYPES, ...RANGE_TYPES]) {
  const element = TYPES.get(oid) as BaseType | RangeType
  TYPES.set(array, {
    kind: 'array',
    oid: array,
    name: `${element.name}[]`,
    sql: builtIn(`_${typname}`),
    element,
    delimiter: element.kind === 'base' ? element.delimiter : ','
  })
}

/**
 * Returns the built-in type with an OID and a type modifier (pg_attribute.atttypmod); undefined for
 * another OID. Without a modifier it is always the same object.
 */
export function builtInType (oid: number, modifier: number): Type | undefined {
  const type = TYPES.get(oid)
  if (type === undefined || modifier === -1) return type
  return withModifier(type, modifier)
}

/** Returns a built-in type by its name in pg_type: `int4`. */
export function builtInNamed (typname: string): NamedBase {
  return NAMED.get(typname) as NamedBase
}

type NamedBase = BaseType & { readonly sql: Fragment }

const NAMED = new Map(BASE_TYPES.map(([oid, , typname]) => [typname, TYPES.get(oid) as NamedBase]))

function withModifier (type: BaseType | ArrayType | RangeType, modifier: number): Type {
  switch (type.kind) {
    case 'base':
      return { ...type, modifier, ...limitsOf(type.oid, modifier) }
    case 'array':
      return { ...type, element: withModifier(type.element as BaseType, modifier) }
    default:
      return type
  }
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

/** Bits of the fields of an interval (timestamp.h); any other combination has all fields. */
const FIELDS: ReadonlyMap<number, string> = new Map([
  [1 << 2, 'year'],
  [1 << 1, 'month'],
  [1 << 3, 'day'],
  [1 << 10, 'hour'],
  [1 << 11, 'minute'],
  [1 << 12, 'second'],
  [(1 << 2) | (1 << 1), 'year to month'],
  [(1 << 3) | (1 << 10), 'day to hour'],
  [(1 << 3) | (1 << 10) | (1 << 11), 'day to minute'],
  [(1 << 3) | (1 << 10) | (1 << 11) | (1 << 12), 'day to second'],
  [(1 << 10) | (1 << 11), 'hour to minute'],
  [(1 << 10) | (1 << 11) | (1 << 12), 'hour to second'],
  [(1 << 11) | (1 << 12), 'minute to second']
])

/** The precision of an interval that has none. */
const ANY_PRECISION = 0xffff

function readInterval (modifier: number): Limits {
  const fields = FIELDS.get((modifier >> 16) & 0x7fff)
  const precision = modifier & 0xffff
  return {
    ...fields === undefined ? {} : { fields },
    ...precision === ANY_PRECISION ? {} : { precision }
  }
}

/** A built-in type with its length or precision, as SQL: PostgreSQL reads its modifier again. */
export function limitedType (type: BaseType): Fragment {
  const name = type.sql as Fragment
  const limits = type.form === 'interval'
    ? bitsOfInterval(type.modifier)
    : [type.length, type.precision, type.scale].filter(limit => limit !== undefined)
  return limits.length === 0 ? name : sql`${name}(${join(limits.map(integer), COMMA)})`
}

const COMMA = sql`, `

/** The fields and the precision of an interval, as intervaltypmodin takes them. */
function bitsOfInterval (modifier: number): readonly number[] {
  if (modifier === -1) return []
  return [(modifier >> 16) & 0x7fff, modifier & 0xffff].filter(bits => bits !== ANY_PRECISION)
}
