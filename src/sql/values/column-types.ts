/**
 * What the service knows about the types of columns. It is read from the catalogue and kept per
 * process. It may be outdated after DDL, so each statement checks the types on which it depends.
 */
import { FIRST_CREATED_OID } from '../../catalogue/built-in.ts'
import { attributesOf, readTypes, typesIn, type TypeRow } from '../../catalogue/read-types.ts'
import type { Type } from '../../catalogue/type.ts'
import {
  AND,
  constant,
  identifier,
  integer,
  join,
  render,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { namesAsRows, nullRow, tableName } from '../statement/table.ts'
import { CatalogueCache } from './catalogue-cache.ts'
import { functionsOfRow } from './row-functions.ts'
import { codeOfRelation } from './runnable-code.ts'

/** A column of a table. A statement that depends on its type checks that it still has it. */
export interface Column {
  readonly table: TableName
  readonly name: Fragment
  readonly type: Type
}

/** The columns of a table by name. */
export interface TableColumns extends ReadonlyMap<string, Column> {
  /** It is a view over a function that PostgreSQL makes a part of the statement, on Citus. */
  readonly inlines?: boolean | undefined
  /** The unique constraints by name. */
  readonly uniqueKeys?: ReadonlyMap<string, Key>
  /**
   * Whether an operation on it affects its own rows only: no table inherits from it, in which its
   * unique constraints would not hold, and it has no rules, which could return any rows.
   */
  readonly standsAlone?: boolean | undefined
  /** The functions that take its row, by name; see row-functions.ts. True: the function is code. */
  readonly functions?: ReadonlyMap<string, boolean>
  /** The code of the database that operations can run. Undefined: they can run any. */
  readonly code?: RunnableCode | undefined
}

/** Whether operations on a table can run code of the database. */
interface RunnableCode {
  /** Whether a select can. */
  readonly reads: boolean
  /** Whether an insert, an update or a delete can. */
  readonly writes: boolean
}

/** A unique constraint. */
export interface Key {
  readonly columns: readonly string[]
  /** A condition that it still has these columns. */
  readonly isSame: Fragment
}

/** Whether a table has a unique constraint with these columns, in any order. */
export function isUniqueKey (
  { uniqueKeys = new Map() }: TableColumns,
  columns: readonly string[]
): boolean {
  return [...uniqueKeys.values()].some(key =>
    key.columns.length === columns.length && key.columns.every(name => columns.includes(name)))
}

/** The columns of a table, or undefined if they are not known. */
export type FindColumns = (table: TableName) => TableColumns | undefined

/**
 * Builds a query that returns the columns of tables as JSON, for `remember`. `inlines`: a condition
 * on `c`, the row of pg_class.
 */
export function columnTypesQuery (
  tables: readonly TableName[],
  inlines = sql`false`
): Fragment {
  return sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'inlines', ${inlines}, 'columns',
        case when c.oid is not null then (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(a.attname,
              a.atttypid::pg_catalog.int8, a.atttypmod) order by a.attnum), '[]')
            ${COLUMNS}) end,
        'types', ${typesIn(sql`select a.atttypid ${COLUMNS}`)}, 'keys', (
          select pg_catalog.json_object_agg(k.conname, pg_catalog.json_build_object(
              'index', k.conindid::pg_catalog.int8, 'columns', ${COLUMNS_OF_KEY})
              order by k.conname)
            from pg_catalog.pg_constraint as k
            where k.conrelid operator(pg_catalog.=) c.oid and k.contype in ('p', 'u')
              and not k.condeferrable), 'standsAlone', not c.relhasrules
          and not (c.relhassubclass and c.relkind operator(pg_catalog.=) 'r'),
        'functions', case when c.oid is not null then ${functionsOfRow} end,
        'code', case when c.oid is not null then ${codeOfRelation(sql`c.oid`)} end)), '[]')
      from ${namesAsRows(tables)}
      left join pg_catalog.pg_namespace as n on n.nspname operator(pg_catalog.=) q.schema
      left join pg_catalog.pg_class as c on c.relnamespace operator(pg_catalog.=) n.oid
        and c.relname operator(pg_catalog.=) q.name`
}

/** The columns `a` of the relation `c`. */
const COLUMNS = sql`from pg_catalog.pg_attribute as a where ${attributesOf(sql`c.oid`)}`

/** The names of the columns of a constraint `k`, in its order. */
const COLUMNS_OF_KEY = sql`array(select a.attname::pg_catalog.text
  from pg_catalog.pg_attribute as a where a.attrelid operator(pg_catalog.=) k.conrelid
    and a.attnum operator(pg_catalog.=) any (k.conkey)
  order by pg_catalog.array_position(k.conkey, a.attnum))`

type ColumnRow = readonly [column: string, oid: number, modifier: number]

interface TableRow extends TableName, Pick<TableColumns, 'inlines' | 'standsAlone' | 'code'> {
  /** null: there is no such table. */
  readonly columns: readonly ColumnRow[] | null
  /** The types of the columns, and those that they contain; see typesIn. */
  readonly types?: readonly TypeRow[]
  /** The unique constraints, by name: the OID of the index, and the columns. */
  readonly keys?: Readonly<
    Record<string, { readonly index: number, readonly columns: readonly string[] }>
  > | null
  readonly functions?: Readonly<Record<string, boolean>>
}

/** Bytes of a table, of a column and of a function of its row. */
const TABLE_BYTES = 1200
const COLUMN_BYTES = 1000
const FUNCTION_BYTES = 100

/** The columns of tables. They are the same object until they change. */
export class ColumnTypes extends CatalogueCache<TableColumns> {
  constructor () {
    super(({ size, functions }) => TABLE_BYTES + COLUMN_BYTES * size +
      FUNCTION_BYTES * (functions as ReadonlyMap<string, boolean>).size)
  }

  /** Keeps the result of columnTypesQuery. Returns the tables that do not exist. */
  remember (json: string): readonly TableName[] {
    const absent: TableName[] = []
    for (const row of JSON.parse(json) as readonly TableRow[]) {
      const { schema, name, columns, types = [], functions = {}, keys, ...facts } = row
      const table = { schema, name }
      if (columns === null) {
        this.delete(table)
        absent.push(table)
        continue
      }
      const create = (): TableColumns => Object.assign(readColumns(table, columns, types), {
        ...facts,
        uniqueKeys: readKeys(table, keys),
        functions: new Map(Object.entries(functions))
      })
      this.keep(table, { source: JSON.stringify(row), create })
    }
    return absent
  }
}

/**
 * The check asks for the definition of the index, which functions read from the newest catalogue.
 * A query would read it as of the snapshot of the transaction, but ON CONFLICT takes the newest.
 */
function readKeys (table: TableName, keys: TableRow['keys']): ReadonlyMap<string, Key> {
  return new Map(Object.entries(keys ?? {}).map(([name, { index, columns }]) => {
    const relation = render(tableName({ schema: table.schema, name })).text
    const isSame = join(
      [
        sql`${constant(relation)}::pg_catalog.regclass::pg_catalog.oid
          operator(pg_catalog.=) ${integer(index)}`,
        ...columns.map((column, i) =>
          sql`pg_catalog.pg_get_indexdef(${integer(index)}, ${integer(i + 1)}, false)
            operator(pg_catalog.=) pg_catalog.quote_ident(${constant(column)})`)
      ],
      AND
    )
    return [name, { columns, isSame }]
  }))
}

function readColumns (
  table: TableName,
  rows: readonly ColumnRow[],
  types: readonly TypeRow[]
): Map<string, Column> {
  const find = readTypes(types, table.schema)
  return new Map(rows.map(([column, oid, modifier]) =>
    [column, { table, name: identifier(column), type: find(oid, modifier) }]))
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
export function buildParsedCheck ({ table, name, type }: Column): Fragment | undefined {
  const value = sql`(null::${tableName(table)}).${name}`
  if (type.sql === undefined || type.oid >= FIRST_CREATED_OID) return undefined
  return type.kind === 'array'
    ? sql`(null::${type.sql} operator(pg_catalog.=) ${value}) is null`
    : sql`(null::${type.sql}[] operator(pg_catalog.=)
        pg_catalog.array_fill(${value}, '{0}')) is null`
}

/** Conditions that columns have the types they had when they were read. */
export function compareTypes (compared: readonly Column[]): readonly Fragment[] {
  return [...Map.groupBy(compared, ({ table }) => table)].map(([table, columns]) => {
    const isMany = columns.length > MAX_COPIES
    const row = isMany ? sql`n` : sql`(null::${tableName(table)})`
    const array = sql`array[${
      join(columns.map(({ name }) => sql`pg_catalog.pg_typeof(${row}.${name})`))
    }]::pg_catalog.oid[]`
    const current = isMany
      ? sql`(select ${array} from pg_catalog.json_populate_record(${nullRow(table)}, '{}') as n)`
      : array
    const known = columns.map(({ type }) => integer(type.oid))
    return sql`${current} operator(pg_catalog.=) array[${join(known)}]::pg_catalog.oid[]`
  })
}
