/**
 * What the service knows about the types of columns, for the plain form of statements. It is read
 * from the catalogue and kept per process. It may be outdated after DDL: before a connection uses a
 * plain statement, it compares the types that PostgreSQL reports with the expected ones.
 */
import { LRUCache } from 'lru-cache'
import type { TableName } from '../plan/nodes.ts'
import type { ColumnKind } from './column.ts'
import {
  arrayText,
  identifier,
  parameter,
  render,
  sql,
  type Fragment,
  type RenderedSql
} from './fragment.ts'

/** A column whose type the plain form can name. */
export interface ColumnType {
  readonly oid: number
  /** The type without length or precision, as SQL. */
  readonly sql: Fragment
  readonly isEnum: boolean
}

export interface TableColumns {
  /** The types of the columns that the plain form supports. */
  readonly supported: ReadonlyMap<string, ColumnType>
  /** OIDs of the types of all columns, except for domains. */
  readonly oids: ReadonlyMap<string, number>
  /** What the columns are that have a kind. */
  readonly kinds: ReadonlyMap<string, ColumnKind>
}

/** The columns of a table, or undefined if they are not known. */
export type FindColumns = (table: TableName) => TableColumns | undefined

/** OIDs of types that the plain form treats in a special way (pg_type.dat). */
export const TypeOid = { json: 114, jsonb: 3802, timestamptz: 1184, timetz: 1266 } as const

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

/**
 * Builds a statement that returns the columns of tables as JSON, for `remember`. Tables that do not
 * exist are missing in it.
 */
export function columnTypesStatement (
  tables: readonly TableName[]
): RenderedSql & { readonly prepare: false } {
  const names = (values: readonly string[]): Fragment =>
    sql`${parameter(arrayText(values))}::pg_catalog.name[]`
  return {
    ...render(sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'columns', (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(a.attname,
              a.atttypid::pg_catalog.int8, a.atttypmod, y.typtype, s.nspname, y.typname,
              y.typcategory, y.typbasetype::pg_catalog.int8)), '[]')
            from pg_catalog.pg_attribute as a
            join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) a.atttypid
            join pg_catalog.pg_namespace as s on s.oid operator(pg_catalog.=) y.typnamespace
            where a.attrelid operator(pg_catalog.=) c.oid
              and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped))), '[]')
      from unnest(${names(tables.map(({ schema }) => schema))}, ${
      names(tables.map(({ name }) => name))
    }) as q (schema, name)
      join pg_catalog.pg_namespace as n on n.nspname operator(pg_catalog.=) q.schema
      join pg_catalog.pg_class as c on c.relnamespace operator(pg_catalog.=) n.oid
        and c.relname operator(pg_catalog.=) q.name`),
    prepare: false
  }
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
  base: number
]

interface TableRow extends TableName {
  readonly columns: readonly ColumnRow[]
}

/** More than a thousand tables of 20 columns. */
const MAX_BYTES = 8 * 1024 * 1024
/** A table, and an entry of one of its maps, with the name of a column. */
const TABLE_BYTES = 800
const ENTRY_BYTES = 100

export class ColumnTypes {
  readonly #tables = new LRUCache<string, TableColumns>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ supported, oids, kinds }) =>
      TABLE_BYTES + ENTRY_BYTES * (supported.size + oids.size + kinds.size)
  })

  /** Keeps the result of columnTypesStatement. */
  remember (json: string): void {
    for (const { columns, ...table } of JSON.parse(json) as readonly TableRow[]) {
      this.#tables.set(keyOf(table), readColumns(columns))
    }
  }

  forget (table: TableName): void {
    this.#tables.delete(keyOf(table))
  }

  /**
   * The columns of a table, or undefined if they are not known. It is the same object until they
   * are read again.
   */
  lookup (table: TableName): TableColumns | undefined {
    return this.#tables.get(keyOf(table))
  }
}

/** A name can contain a dot, but no U+0000. */
function keyOf ({ schema, name }: TableName): string {
  return `${schema}\0${name}`
}

function readColumns (columns: readonly ColumnRow[]): TableColumns {
  const supported = new Map<string, ColumnType>()
  const oids = new Map<string, number>()
  const kinds = new Map<string, ColumnKind>()
  for (const [column, oid, modifier, kind, typeSchema, typeName, category, base] of columns) {
    // A domain has the category of its type.
    const known = KIND_OF_CATEGORY.get(category) ?? KIND_OF_TYPE.get(base === 0 ? oid : base)
    if (known !== undefined) kinds.set(column, known)
    if (kind !== 'd') oids.set(column, oid)
    const type = TYPES.get(oid)
    if (type !== undefined && (type.modified || modifier === -1)) {
      supported.set(column, { oid, sql: type.sql, isEnum: false })
    } else if (kind === 'e') {
      const name = sql`${identifier(typeSchema)}.${identifier(typeName)}`
      supported.set(column, { oid, sql: name, isEnum: true })
    }
  }
  return { supported, oids, kinds }
}

/** By the category of a type (docs: "pg_type", typcategory). */
const KIND_OF_CATEGORY: ReadonlyMap<string, ColumnKind> = new Map([
  ['A', 'array'],
  ['C', 'composite']
])
const KIND_OF_TYPE: ReadonlyMap<number, ColumnKind> = new Map([
  [TypeOid.json, 'json'],
  [TypeOid.jsonb, 'json']
])
