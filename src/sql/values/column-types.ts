/**
 * What the service knows about the types of columns. It is read from the catalogue and kept per
 * process. It may be outdated after DDL, so each statement checks the types on which it depends.
 */
import {
  constant,
  fixed,
  identifier,
  integer,
  join,
  render,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { arrayText } from '../../plan/value-text.ts'
import { namesAsRows, nullRow, tableName } from '../statement/table.ts'
import { CatalogueCache } from './catalogue-cache.ts'
import type { ColumnKind } from './column.ts'
import { functionsOfRow } from './row-functions.ts'
import { codeOfRelation } from './runnable-code.ts'

/** A type that statements name. */
export interface ColumnType {
  readonly oid: number
  /** The type without length or precision, as SQL. */
  readonly sql: Fragment
  readonly isEnum: boolean
}

/** A type whose values the service writes as PostgreSQL reads them. */
export interface LiteralType {
  readonly sql: Fragment
  /** It takes a list of scalars. */
  readonly isArray: boolean
}

/** A column of a table. */
export interface Column {
  /** Checks that it still has its type. */
  readonly check: TypeCheck
  readonly kind: ColumnKind | undefined
  /** Its type, if statements name it. That of a domain is its base type. */
  readonly type?: ColumnType
  /** Another type, which PostgreSQL reads from a text of the request. */
  readonly literal?: LiteralType
  /**
   * Whether it has a domain over a type without a binary form, such as those of the extension isn.
   * From JSON, PostgreSQL converts no value to such a domain.
   */
  readonly isTextDomain: boolean
  /** Whether it has the type of the extension hstore, whose JSON is not its text. */
  readonly isHstore: boolean
  /** The delimiter of its values in an array. */
  readonly delimiter: string
  /** Whether it has a date, a time or an interval, whose text may contain brackets and quotes. */
  readonly isTime: boolean
  /** Whether PostgreSQL reads a text by the modifier: in `interval minute`, 5 is five minutes. */
  readonly isReadByModifier: boolean
}

/** The columns of a table by name. */
export interface TableColumns extends ReadonlyMap<string, Column> {
  /** It is a view over a function that PostgreSQL makes a part of the statement, on Citus. */
  readonly inlines?: boolean | undefined
  /** The unique constraints by name. */
  readonly uniqueKeys?: ReadonlyMap<string, Key>
  /** Whether other tables inherit from it, in which its unique constraints do not hold. */
  readonly hasChildren?: boolean | undefined
  /**
   * The names of functions that take its row; see row-functions.ts. Undefined: not read. No
   * statement depends on them, so the table is the same when they are others.
   */
  functions?: ReadonlySet<string>
  /** The code of the database that operations can run. Undefined: they can run any. */
  readonly code?: RunnableCode | undefined
}

/** The code of the database that operations on a table can run. */
export interface RunnableCode {
  /** Whether a select can run code. */
  readonly reads: boolean
  /** Whether an insert, an update or a delete can run code. */
  readonly writes: boolean
  /** Names of functions that are code and can be read like columns. */
  readonly computed: ReadonlySet<string>
}

/** A unique constraint. */
export interface Key {
  readonly columns: readonly string[]
  /** A condition that it still has these columns. */
  readonly isSame: Fragment
}

/**
 * What checks that a column still has its type: OIDs as SQL. On the workers of Citus the types of
 * users have other OIDs, so they are found by name. A role may not use names of another schema than
 * that of the table.
 */
export interface TypeCheck {
  readonly table: TableName
  readonly column: Fragment
  readonly oid: number
  readonly byOid: Fragment
  readonly byName: Fragment | undefined
}

/** The columns of a table, or undefined if they are not known. */
export type FindColumns = (table: TableName) => TableColumns | undefined

/** OIDs of types that are treated in a special way (pg_type.dat). */
export const TypeOid = { json: 114, jsonb: 3802, timestamptz: 1184, timetz: 1266 } as const

/** Whether a type is json or jsonb. */
export function isJsonType ({ oid }: Pick<ColumnType, 'oid'>): boolean {
  return oid === TypeOid.json || oid === TypeOid.jsonb
}

/** OIDs of numeric types. The difference of two values has the same type. */
export const NUMBER_OIDS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 1700])

/**
 * Supported types: their OID, that of their array, and their name (pg_type.dat). A value of these
 * types reads the same as a parameter and as JSON that json_populate_record converts.
 */
const TYPES: ReadonlyArray<readonly [oid: number, array: number | undefined, name: Fragment]> = [
  [16, 1000, sql`bool`],
  [17, 1001, sql`bytea`],
  [20, 1016, sql`int8`],
  [21, 1005, sql`int2`],
  [23, 1007, sql`int4`],
  [25, 1009, sql`text`],
  [TypeOid.json, undefined, sql`json`],
  [700, 1021, sql`float4`],
  [701, 1022, sql`float8`],
  [1042, 1014, sql`bpchar`],
  [1043, 1015, sql`varchar`],
  [1082, 1182, sql`date`],
  [1083, 1183, sql`time`],
  [1114, 1115, sql`timestamp`],
  [TypeOid.timestamptz, 1185, sql`timestamptz`],
  [TypeOid.timetz, 1270, sql`timetz`],
  [1700, 1231, sql`numeric`],
  [2950, 2951, sql`uuid`],
  [TypeOid.jsonb, undefined, sql`jsonb`]
]

const SCALARS = new Map(TYPES.map(([oid, , name]) => [oid, fixed(sql`pg_catalog.${name}`)]))
const ARRAYS = new Map(TYPES.flatMap(([, array, name]) =>
  array === undefined ? [] : [[array, fixed(sql`pg_catalog._${name}`)]]))

/** Those that are also supported with a length or a precision. */
const MODIFIED: ReadonlySet<number> = new Set([
  1042,
  1043,
  1083,
  1114,
  TypeOid.timestamptz,
  TypeOid.timetz,
  1700
])

interface TypesQueryOptions {
  /** A condition on `c`, the row of pg_class. */
  readonly inlines?: Fragment | undefined
  /**
   * What is read, too: the runnable code, which takes most of the time, or the functions of rows.
   */
  readonly also?: 'code' | 'functions'
}

/** Builds a query that returns the columns of tables as JSON, for `remember`. */
export function columnTypesQuery (
  tables: readonly TableName[],
  { inlines = sql`false`, also = 'code' }: TypesQueryOptions = {}
): Fragment {
  const [code, functions] = also === 'code'
    ? [codeOfRelation(sql`c.oid`), sql`null`]
    : [sql`null`, functionsOfRow]
  return sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'inlines', ${inlines}, 'columns',
        case when c.oid is not null then (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(a.attname,
              a.atttypid::pg_catalog.int8, a.atttypmod, y.typtype, s.nspname, y.typname,
              y.typcategory, y.typbasetype::pg_catalog.int8,
              y.typsend::pg_catalog.oid::pg_catalog.int8, y.typdelim) order by a.attnum), '[]')
            from pg_catalog.pg_attribute as a
            join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) a.atttypid
            join pg_catalog.pg_namespace as s on s.oid operator(pg_catalog.=) y.typnamespace
            where a.attrelid operator(pg_catalog.=) c.oid
              and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped) end, 'keys', (
          select pg_catalog.json_object_agg(k.conname, pg_catalog.to_json(${COLUMNS_OF_KEY})
              order by k.conname)
            from pg_catalog.pg_constraint as k
            where k.conrelid operator(pg_catalog.=) c.oid and k.contype in ('p', 'u')
              and not k.condeferrable), 'hasChildren',
        c.relhassubclass and c.relkind operator(pg_catalog.=) 'r', 'functions',
        case when c.oid is not null then ${functions} end, 'code',
        case when c.oid is not null then ${code} end)), '[]')
      from ${namesAsRows(tables)}
      left join pg_catalog.pg_namespace as n on n.nspname operator(pg_catalog.=) q.schema
      left join pg_catalog.pg_class as c on c.relnamespace operator(pg_catalog.=) n.oid
        and c.relname operator(pg_catalog.=) q.name`
}

/** The names of the columns of a constraint `k`. */
const COLUMNS_OF_KEY = sql`array(select a.attname::pg_catalog.text
  from pg_catalog.pg_attribute as a where a.attrelid operator(pg_catalog.=) k.conrelid
    and a.attnum operator(pg_catalog.=) any (k.conkey) order by a.attnum)`

type ColumnRow = readonly [
  column: string,
  oid: number,
  modifier: number,
  kind: string,
  typeSchema: string,
  typeName: string,
  category: string,
  /** The OID of the type of a domain, or 0. */
  base: number,
  /** The OID of the function that writes the binary form, or 0. A domain has that of its type. */
  send: number,
  delimiter: string
]

interface TableRow extends TableName, Pick<TableColumns, 'inlines' | 'hasChildren'> {
  /** null: there is no such table. */
  readonly columns: readonly ColumnRow[] | null
  /** The columns of unique constraints, by name. */
  readonly keys?: Readonly<Record<string, readonly string[]>> | null
  /** null: they were not read. */
  readonly functions?: readonly string[] | null
  /** null: it was not read. */
  readonly code?: readonly [reads: boolean, writes: boolean, computed: readonly string[]] | null
}

/** Bytes of a table and of a column. */
const TABLE_BYTES = 1200
const COLUMN_BYTES = 1000

/** The columns of tables. They are the same object until they change. */
export class ColumnTypes extends CatalogueCache<TableColumns> {
  constructor () {
    super(columns => TABLE_BYTES + COLUMN_BYTES * columns.size)
  }

  /** Keeps the result of columnTypesQuery. Returns the tables that do not exist. */
  remember (json: string): readonly TableName[] {
    const absent: TableName[] = []
    for (const row of JSON.parse(json) as readonly TableRow[]) {
      const { schema, name, columns, inlines, keys, hasChildren } = row
      const table = { schema, name }
      if (columns === null) {
        this.delete(table)
        absent.push(table)
        continue
      }
      const before = this.lookup(table)
      const code = row.code ? readCode(row.code, columns) : before?.code
      const functions = row.functions ? new Set(row.functions) : before?.functions
      const computed = [...code?.computed ?? []]
      const source = JSON.stringify({ ...row, code, computed, functions: undefined })
      const create = (): TableColumns => {
        const uniqueKeys = readKeys(table, keys)
        return Object.assign(readColumns(table, columns), {
          inlines, hasChildren, uniqueKeys, code
        })
      }
      this.keep(table, { source, isComplete: Boolean(row.code), create })
      const kept = this.lookup(table)
      if (kept !== undefined && functions !== undefined) kept.functions = functions
    }
    return absent
  }
}

function readKeys (table: TableName, keys: TableRow['keys']): ReadonlyMap<string, Key> {
  return new Map(Object.entries(keys ?? {}).map(([name, columns]) => {
    const relation = sql`${constant(render(tableName(table)).text)}::pg_catalog.regclass`
    const isSame = sql`(select ${COLUMNS_OF_KEY} from pg_catalog.pg_constraint as k
        where k.conrelid operator(pg_catalog.=) ${relation}
          and k.conname operator(pg_catalog.=) ${constant(name)})
      operator(pg_catalog.=) ${constant(arrayText(columns))}::pg_catalog.text[]`
    return [name, { columns, isSame }]
  }))
}

function readCode (
  [reads, writes, names]: NonNullable<TableRow['code']>,
  columns: readonly ColumnRow[]
): RunnableCode {
  const computed = new Set(names)
  for (const [column] of columns) computed.delete(column)
  return { reads, writes, computed }
}

function readColumns (table: TableName, rows: readonly ColumnRow[]): Map<string, Column> {
  return new Map(rows.map(row => {
    const [column, oid, , kind, schema, type, category, base, send, delimiter] = row
    const name = schema === table.schema
      ? sql`${identifier(schema)}.${identifier(type)}`
      : undefined
    const isJson = isJsonType({ oid: baseOf(oid, base) })
    return [column, {
      check: checkType(table, column, { oid, name }),
      kind: KIND_OF_CATEGORY.get(category) ?? (isJson ? 'json' : undefined),
      ...readType(row, name),
      isTextDomain: kind === 'd' && send === 0,
      isHstore: kind === 'b' && type === 'hstore',
      delimiter,
      isTime: TIME_OIDS.has(baseOf(oid, base)),
      isReadByModifier: INTERVAL_OIDS.has(baseOf(oid, base))
    }]
  }))
}

/** The OID of a type. An assignment converts the base type of a domain to it. */
function baseOf (oid: number, base: number): number {
  return base === 0 ? oid : base
}

/** Reads the type of a column that statements name. `name`: that of a type of its schema. */
function readType (
  [, oid, modifier, kind, schema, type, category, base]: ColumnRow,
  name: Fragment | undefined
): Pick<Column, 'type' | 'literal'> {
  const baseOid = baseOf(oid, base)
  const known = SCALARS.get(baseOid)
  if (known !== undefined && (modifier === -1 || MODIFIED.has(baseOid))) {
    return { type: { oid: baseOid, sql: known, isEnum: false } }
  }
  if (kind === 'e' && name !== undefined) return { type: { oid, sql: name, isEnum: true } }
  const array = ARRAYS.get(baseOid)
  if (array !== undefined) return { literal: { sql: array, isArray: true } }
  // The JSON of base types, ranges and multiranges is their text, that of arrays is not.
  const isText = 'brm'.includes(kind) && category !== 'A'
  if (modifier !== -1 || !isText || oid === BIT_OID || INTERVAL_OIDS.has(baseOid)) return {}
  const literal = schema === 'pg_catalog' ? sql`pg_catalog.${identifier(type)}` : name
  return literal === undefined ? {} : { literal: { sql: literal, isArray: false } }
}

/**
 * interval and its array. They have no name here: what `interval` reads as seconds,
 * `interval minute` reads as minutes, and the type check cannot tell which of them a column has.
 */
const INTERVAL_OIDS: ReadonlySet<number> = new Set([1186, 1187])

/** date, time, timestamp, timestamptz, interval and timetz. */
export const TIME_OIDS: ReadonlySet<number> = new Set([1082, 1083, 1114, 1184, 1186, 1266])

/** Not a literal: without its length, the type `bit` has one bit. */
const BIT_OID = 1560

/** The first OID that PostgreSQL uses for no type of its own (transam.h). */
const FIRST_USER_OID = 16_384

function checkType (
  table: TableName,
  column: string,
  { oid, name }: { readonly oid: number, readonly name: Fragment | undefined }
): TypeCheck {
  const known = { table, column: identifier(column), oid, byOid: integer(oid) }
  if (oid < FIRST_USER_OID) return { ...known, byName: known.byOid }
  return { ...known, byName: name && sql`${constant(render(name).text)}::pg_catalog.regtype` }
}

/**
 * Maximum number of columns that are read from a row of NULLs each, for which PostgreSQL copies the
 * description of the table. More columns are read from one row (measured: 1500 columns took 620 ms
 * and 270 MB, from a row 16 ms).
 */
export const MAX_COPIES = 50

/**
 * A condition that a column has a built-in type, or undefined for another type. PostgreSQL refuses
 * the statement if the column has another type, because its operator takes two equal arrays, and
 * otherwise computes the condition while it plans the statement. An execution therefore costs
 * nothing. A domain of an array counts as that array.
 */
export function buildParsedCheck ({ table, column, oid }: TypeCheck): Fragment | undefined {
  const value = sql`(null::${tableName(table)}).${column}`
  const scalar = SCALARS.get(oid)
  if (scalar !== undefined) {
    return sql`(null::${scalar}[] operator(pg_catalog.=)
      pg_catalog.array_fill(${value}, '{0}')) is null`
  }
  const array = ARRAYS.get(oid)
  return array && sql`(null::${array} operator(pg_catalog.=) ${value}) is null`
}

/** Conditions that columns have the types they had when they were read. */
export function compareTypes (
  checks: readonly TypeCheck[],
  { byName }: { readonly byName: boolean }
): readonly Fragment[] {
  return [...Map.groupBy(checks, ({ table }) => table)].map(([table, columns]) => {
    const isMany = columns.length > MAX_COPIES
    const row = isMany ? sql`n` : sql`(null::${tableName(table)})`
    const array = sql`array[${
      join(columns.map(({ column }) => sql`pg_catalog.pg_typeof(${row}.${column})`), COMMA)
    }]::pg_catalog.oid[]`
    const current = isMany
      ? sql`(select ${array} from pg_catalog.json_populate_record(${nullRow(table)}, '{}') as n)`
      : array
    const known = columns.map(check => (byName && check.byName) || check.byOid)
    return sql`${current} operator(pg_catalog.=) array[${join(known, COMMA)}]::pg_catalog.oid[]`
  })
}

const COMMA = sql`, `

/** By the category of a type (docs: "pg_type", typcategory). */
const KIND_OF_CATEGORY: ReadonlyMap<string, ColumnKind> = new Map([
  ['A', 'array'],
  ['C', 'composite']
])
