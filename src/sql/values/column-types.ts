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

export interface TableColumns {
  /** The types of columns that statements name. That of a domain is its base type. */
  readonly supported: ReadonlyMap<string, ColumnType>
  /** Other types, which PostgreSQL reads from a text of the request. */
  readonly literals: ReadonlyMap<string, LiteralType>
  /** For each column what checks that it still has its type. */
  readonly checks: ReadonlyMap<string, TypeCheck>
  /** The kinds of the columns that have one. */
  readonly kinds: ReadonlyMap<string, ColumnKind>
  /**
   * Columns of domains over types without a binary form, such as those of the extension isn. From
   * JSON, PostgreSQL converts no value to such a domain.
   */
  readonly textDomains: ReadonlySet<string>
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
 * Tables that do not exist are missing in it.
 */
export function columnTypesQuery (tables: readonly TableName[]): Fragment {
  return sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'columns', (
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

interface TableRow extends TableName {
  readonly columns: readonly ColumnRow[]
}

/** Maximum memory of the cache, enough for more than a thousand tables of 20 columns. */
const MAX_BYTES = 8 * 1024 * 1024
/** Bytes of a table, of an entry of its maps with the name of a column, and of a check. */
const TABLE_BYTES = 800
const ENTRY_BYTES = 100
const CHECK_BYTES = 700

export class ColumnTypes {
  readonly #tables = new LRUCache<string, TableColumns>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ supported, literals, checks, kinds, textDomains }) =>
      TABLE_BYTES + CHECK_BYTES * checks.size +
      ENTRY_BYTES * (supported.size + literals.size + kinds.size + textDomains.size)
  })

  /** Keeps the result of columnTypesQuery. */
  remember (json: string): void {
    for (const { columns, ...table } of JSON.parse(json) as readonly TableRow[]) {
      this.#tables.set(tableKey(table), readColumns(table, columns))
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

function readColumns (table: TableName, columns: readonly ColumnRow[]): TableColumns {
  const supported = new Map<string, ColumnType>()
  const literals = new Map<string, LiteralType>()
  const checks = new Map<string, TypeCheck>()
  const kinds = new Map<string, ColumnKind>()
  const textDomains = new Set<string>()
  for (const [column, oid, modifier, kind, typeSchema, typeName, category, base, send] of columns) {
    // A domain has the category of its type. An assignment converts its base type to it.
    const baseOid = base === 0 ? oid : base
    const known = KIND_OF_CATEGORY.get(category) ?? KIND_OF_TYPE.get(baseOid)
    if (known !== undefined) kinds.set(column, known)
    if (kind === 'd' && send === 0) textDomains.add(column)
    const name = typeSchema === table.schema
      ? sql`${identifier(typeSchema)}.${identifier(typeName)}`
      : undefined
    checks.set(column, checkType(table, column, { oid, name }))
    const type = TYPES.get(baseOid)
    const array = ARRAYS.get(baseOid)
    if (type !== undefined && (type.modified || modifier === -1)) {
      supported.set(column, { oid: baseOid, sql: type.sql, isEnum: false })
    } else if (kind === 'e' && name !== undefined) {
      supported.set(column, { oid, sql: name, isEnum: true })
    } else if (array !== undefined) {
      literals.set(column, { sql: array, isArray: true })
    } else if (modifier === -1 && isLiteral({ oid, kind, category })) {
      const known = typeSchema === 'pg_catalog'
        ? sql`pg_catalog.${identifier(typeName)}`
        : name
      if (known !== undefined) literals.set(column, { sql: known, isArray: false })
    }
  }
  return { supported, literals, checks, kinds, textDomains }
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
