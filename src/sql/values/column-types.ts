/**
 * What the service knows about the types of columns. It is read from the catalogue and kept per
 * process. It may be outdated after DDL, so each statement checks the types on which it depends.
 */
import { LRUCache } from 'lru-cache'
import {
  constant,
  identifier,
  integer,
  join,
  render,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { tableKey } from '../../plan/name.ts'
import type { TableName } from '../../plan/nodes.ts'
import { namesAsRows, nullRow, tableName } from '../statement/table.ts'
import type { ColumnKind } from './column.ts'

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
}

/** The columns of a table by name. */
export interface TableColumns extends ReadonlyMap<string, Column> {
  /** It is a view over a function that PostgreSQL makes a part of the statement, on Citus. */
  readonly inlines?: boolean | undefined
}

/**
 * What checks that a column still has its type: OIDs as SQL. On the workers of Citus the types of
 * users have other OIDs, so they are found by name. A role may not use names of another schema than
 * that of the table.
 */
export interface TypeCheck {
  readonly table: TableName
  readonly column: Fragment
  readonly byOid: Fragment
  readonly byName: Fragment | undefined
}

/** The columns of a table, or undefined if they are not known. */
export type FindColumns = (table: TableName) => TableColumns | undefined

/** OIDs of types that are treated in a special way (pg_type.dat). */
export const TypeOid = { json: 114, jsonb: 3802, timestamptz: 1184, timetz: 1266 } as const

/** Whether a type is json or jsonb. */
export function isJsonType ({ oid }: ColumnType): boolean {
  return oid === TypeOid.json || oid === TypeOid.jsonb
}

/** OIDs of numeric types. The difference of two values has the same type. */
export const NUMBER_OIDS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 1700])

/**
 * Supported types by OID (pg_type.dat). `modified`: also with a length or a precision. A value of
 * these types reads the same as a parameter and as JSON that json_populate_record converts.
 */
const TYPES: ReadonlyMap<number, { readonly sql: Fragment, readonly modified: boolean }> = new Map([
  [16, { sql: sql`pg_catalog.bool`, modified: false }],
  [17, { sql: sql`pg_catalog.bytea`, modified: false }],
  [20, { sql: sql`pg_catalog.int8`, modified: false }],
  [21, { sql: sql`pg_catalog.int2`, modified: false }],
  [23, { sql: sql`pg_catalog.int4`, modified: false }],
  [25, { sql: sql`pg_catalog.text`, modified: false }],
  [TypeOid.json, { sql: sql`pg_catalog.json`, modified: false }],
  [700, { sql: sql`pg_catalog.float4`, modified: false }],
  [701, { sql: sql`pg_catalog.float8`, modified: false }],
  [1042, { sql: sql`pg_catalog.bpchar`, modified: true }],
  [1043, { sql: sql`pg_catalog.varchar`, modified: true }],
  [1082, { sql: sql`pg_catalog.date`, modified: false }],
  [1083, { sql: sql`pg_catalog.time`, modified: true }],
  [1114, { sql: sql`pg_catalog.timestamp`, modified: true }],
  [TypeOid.timestamptz, { sql: sql`pg_catalog.timestamptz`, modified: true }],
  [TypeOid.timetz, { sql: sql`pg_catalog.timetz`, modified: true }],
  [1700, { sql: sql`pg_catalog.numeric`, modified: true }],
  [2950, { sql: sql`pg_catalog.uuid`, modified: false }],
  [TypeOid.jsonb, { sql: sql`pg_catalog.jsonb`, modified: false }]
])

/** Arrays of the same types, except json and jsonb, by OID. */
const ARRAYS: ReadonlyMap<number, Fragment> = new Map([
  [1000, sql`pg_catalog._bool`],
  [1001, sql`pg_catalog._bytea`],
  [1016, sql`pg_catalog._int8`],
  [1005, sql`pg_catalog._int2`],
  [1007, sql`pg_catalog._int4`],
  [1009, sql`pg_catalog._text`],
  [1021, sql`pg_catalog._float4`],
  [1022, sql`pg_catalog._float8`],
  [1014, sql`pg_catalog._bpchar`],
  [1015, sql`pg_catalog._varchar`],
  [1182, sql`pg_catalog._date`],
  [1183, sql`pg_catalog._time`],
  [1115, sql`pg_catalog._timestamp`],
  [1185, sql`pg_catalog._timestamptz`],
  [1270, sql`pg_catalog._timetz`],
  [1231, sql`pg_catalog._numeric`],
  [2951, sql`pg_catalog._uuid`]
])

/**
 * Builds a query that returns the columns of tables as JSON, for `remember`.
 * Tables that do not exist are missing in it. `inlines`: a condition on `c`, the row of pg_class.
 */
export function columnTypesQuery (tables: readonly TableName[], inlines = sql`false`): Fragment {
  return sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'inlines', ${inlines}, 'columns', (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(a.attname,
              a.atttypid::pg_catalog.int8, a.atttypmod, y.typtype, s.nspname, y.typname,
              y.typcategory, y.typbasetype::pg_catalog.int8,
              y.typsend::pg_catalog.oid::pg_catalog.int8)), '[]')
            from pg_catalog.pg_attribute as a
            join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) a.atttypid
            join pg_catalog.pg_namespace as s on s.oid operator(pg_catalog.=) y.typnamespace
            where a.attrelid operator(pg_catalog.=) c.oid
              and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped))), '[]')
      from ${namesAsRows(tables)}
      join pg_catalog.pg_namespace as n on n.nspname operator(pg_catalog.=) q.schema
      join pg_catalog.pg_class as c on c.relnamespace operator(pg_catalog.=) n.oid
        and c.relname operator(pg_catalog.=) q.name`
}

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
  send: number
]

interface TableRow extends TableName, Pick<TableColumns, 'inlines'> {
  readonly columns: readonly ColumnRow[]
}

/** Maximum memory of the cache, enough for more than a thousand tables of 20 columns. */
const MAX_BYTES = 8 * 1024 * 1024
/** Bytes of a table and of a column. */
const TABLE_BYTES = 800
const COLUMN_BYTES = 900

export class ColumnTypes {
  readonly #tables = new LRUCache<string, TableColumns>({
    maxSize: MAX_BYTES,
    sizeCalculation: columns => TABLE_BYTES + COLUMN_BYTES * columns.size
  })

  /** Keeps the result of columnTypesQuery. */
  remember (json: string): void {
    for (const { columns, inlines, ...table } of JSON.parse(json) as readonly TableRow[]) {
      this.#tables.set(tableKey(table), Object.assign(readColumns(table, columns), { inlines }))
    }
  }

  forget (table: TableName): void {
    this.#tables.delete(tableKey(table))
  }

  /**
   * The columns of a table, or undefined if they are not known. It is the same object until they
   * are read again.
   */
  lookup (table: TableName): TableColumns | undefined {
    return this.#tables.get(tableKey(table))
  }
}

function readColumns (table: TableName, rows: readonly ColumnRow[]): Map<string, Column> {
  return new Map(rows.map(row => {
    const [column, oid, , kind, schema, type, category, base, send] = row
    const name = schema === table.schema
      ? sql`${identifier(schema)}.${identifier(type)}`
      : undefined
    return [column, {
      check: checkType(table, column, { oid, name }),
      kind: KIND_OF_CATEGORY.get(category) ?? KIND_OF_TYPE.get(baseOf(oid, base)),
      ...readType(row, name),
      isTextDomain: kind === 'd' && send === 0
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
  const known = TYPES.get(baseOid)
  if (known !== undefined && (known.modified || modifier === -1)) {
    return { type: { oid: baseOid, sql: known.sql, isEnum: false } }
  }
  if (kind === 'e' && name !== undefined) return { type: { oid, sql: name, isEnum: true } }
  const array = ARRAYS.get(baseOid)
  if (array !== undefined) return { literal: { sql: array, isArray: true } }
  if (modifier !== -1 || !isLiteral({ oid, kind, category })) return {}
  const literal = schema === 'pg_catalog' ? sql`pg_catalog.${identifier(type)}` : name
  return literal === undefined ? {} : { literal: { sql: literal, isArray: false } }
}

/** Not a literal: without its length, the type `bit` has one bit. */
const BIT_OID = 1560

/**
 * Whether the JSON of a type is its text: true for base types, ranges and multiranges, false for
 * arrays.
 */
function isLiteral (
  { oid, kind, category }: {
    readonly oid: number
    readonly kind: string
    readonly category: string
  }
): boolean {
  return 'brm'.includes(kind) && category !== 'A' && oid !== BIT_OID
}

/** The first OID that PostgreSQL uses for no type of its own (transam.h). */
const FIRST_USER_OID = 16_384

function checkType (
  table: TableName,
  column: string,
  { oid, name }: { readonly oid: number, readonly name: Fragment | undefined }
): TypeCheck {
  const known = { table, column: identifier(column), byOid: integer(oid) }
  if (oid < FIRST_USER_OID) return { ...known, byName: known.byOid }
  return { ...known, byName: name && sql`${constant(render(name).text)}::pg_catalog.regtype` }
}

/**
 * Maximum number of columns that are read from a row of NULLs each, for which PostgreSQL copies the
 * description of the table. More columns are read from one row (measured: 1500 columns took 620 ms
 * and 270 MB, from a row 16 ms).
 */
const MAX_COPIES = 50

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
const KIND_OF_TYPE: ReadonlyMap<number, ColumnKind> = new Map([
  [TypeOid.json, 'json'],
  [TypeOid.jsonb, 'json']
])
