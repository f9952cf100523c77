/**
 * Reads the tables and views of schemas from the catalogue: their columns, who may write them, and
 * how JSON represents their types.
 */
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { readTypes, typesIn, type TypeRow } from '../catalogue/read-types.ts'
import type { Type } from '../catalogue/type.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import {
  constant,
  identifier,
  integer,
  join,
  render,
  sql,
  type Fragment
} from '../fragment/fragment.ts'
import { closeConnection, query, type Connection } from '../postgres/connection.ts'
import { openConnection } from '../postgres/open-connection.ts'
import { withConnection, type AcquireOptions, type ConnectionPool } from '../postgres/pool.ts'
import {
  describeOutside,
  responseTooLarge,
  type FailureOptions
} from '../transaction/to-failure.ts'

interface TableDescription {
  readonly schema: string
  readonly name: string
  readonly comment: string | null
  readonly columns: readonly ColumnDescription[]
}

export interface ColumnDescription {
  readonly name: string
  readonly comment: string | null
  readonly type: Type
  readonly nullable: boolean
  /** Whether an insert may omit the column because it has a default. */
  readonly optional: boolean
  /** What is possible with the column. With a role: what the role may do. */
  readonly select: boolean
  readonly insert: boolean
  readonly update: boolean
}

export interface DescribedTables {
  readonly tables: readonly TableDescription[]
  /** The labels of enums by the OID of the type, in their order. */
  readonly labels: Readonly<Record<number, readonly string[]>>
}

interface TableOptions {
  /** Tables are listed in this order, then by name. */
  readonly schemas: readonly string[]
  /** Only the tables and columns that this role may use. The login role must be able to take it. */
  readonly role: string | undefined
  readonly timeoutMs: number
}

/**
 * Returns the tables, views, materialized views and foreign tables, without partitions and tables
 * that a batch cannot name. Rejects when the connection fails or the role cannot be taken.
 */
export async function describeTables (
  target: DatabaseTarget,
  options: TableOptions
): Promise<DescribedTables> {
  const connection = await openConnection(target, { roleSettings: false })
  try {
    const { tables, types, labels } = await read<Catalogue>(connection, options, sql`
      ${describedTables(options, sql`'oid', atttypid::int8`)}
      select (${listOf(sql`select schema, name, comment, columns from described`)}) as tables,
        ${typesIn(sql`select atttypid from usable`, MAX_TYPES)}::text as types,
        (select coalesce(json_object_agg(enumtypid::int8, labels), '{}')::text from (
          select enumtypid, json_agg(enumlabel order by enumsortorder) as labels from pg_enum
          group by enumtypid) as enums) as labels`)
    const findType = readTypes(JSON.parse(types) as readonly TypeRow[], NO_SCHEMA)
    return {
      tables: (JSON.parse(tables) as readonly TableRow[]).map(table => ({
        ...table,
        columns: table.columns.map(({ oid, ...column }) => ({ ...column, type: findType(oid, -1) }))
      })),
      labels: JSON.parse(labels) as DescribedTables['labels']
    }
  } finally {
    await closeConnection(connection)
  }
}

interface ListOptions
  extends TableOptions, FailureOptions, Pick<AcquireOptions, 'clientClosed'> {
  readonly role: string
  readonly maxBytes: number
  /** A time of performance.now(). */
  readonly deadline: number
}

/**
 * Returns the same tables for clients, as the text of a JSON array: `tables` of TableList
 * (schemas/http.ts). Throws the Failure that the client gets.
 */
export async function listTables (pool: ConnectionPool, options: ListOptions): Promise<string> {
  const { deadline, clientClosed, maxBytes } = options
  try {
    const write = (connection: Connection): ReturnType<typeof writeTables> =>
      writeTables(connection, options)
    const list = await withConnection(pool, deadline, write, { clientClosed })
    if (list === undefined) throw responseTooLarge(maxBytes, { op: null, index: null })
    return list
  } catch (error) {
    if (error instanceof Failure) throw error
    if (error instanceof postgres.PostgresError && error.severity === 'ERROR') {
      throw describeOutside(error as DatabaseError, 'session', options)
    }
    throw failure(performance.now() < deadline ? 'database_unavailable' : 'deadline_exceeded')
  }
}

/** Returns the text of listTables; undefined if it is larger than `maxBytes`. */
async function writeTables (
  connection: Connection,
  { maxBytes, ...options }: TableOptions & { readonly maxBytes: number }
): Promise<string | undefined> {
  const first = constant(options.schemas[0] as string)
  const { list } = await read<{ list: string | null }>(connection, options, sql`
    ${describedTables(options, sql`'type', format_type(atttypid, atttypmod)`)}
    select case when octet_length(list) <= ${integer(maxBytes)} then list end as list
    from (select (${listOf(sql`
      select case when schema = ${first} then name else schema || '.' || name end as name, comment,
        columns from described`)}) as list) as listed`)
  return list ?? undefined
}

/** Returns the row of a statement that finds the objects of pg_catalog without their schema. */
async function read<Row extends Readonly<Record<string, string | null>>> (
  connection: Connection,
  { role, timeoutMs }: TableOptions,
  statement: Fragment
): Promise<Row> {
  const settings = sql`set local search_path = pg_catalog;
    set local statement_timeout = ${integer(timeoutMs)}${
      role === undefined ? sql`` : sql`; set local role ${identifier(role)}`
    }`
  // In one message, the statements are one transaction, also behind a pooler.
  const results = await query(connection, render(sql`${settings}; ${statement}`).text)
  const [row] = results.at(-1) as unknown as [Row]
  return row
}

/** A schema of no type: so the names of types have their schemas. */
const NO_SCHEMA = ''

/** More than a database has. */
const MAX_TYPES = 1_000_000

type Catalogue = Readonly<Record<'tables' | 'types' | 'labels', string>>

interface TableRow extends Omit<TableDescription, 'columns'> {
  readonly columns: ReadonlyArray<Omit<ColumnDescription, 'type'> & { readonly oid: number }>
}

/** A JSON array of the rows of a query, as text. */
function listOf (rows: Fragment): Fragment {
  return sql`select coalesce(json_agg(row), '[]')::text from (${rows}) as row`
}

/**
 * The table expression `described`: the tables in their order. `type`: the member of each column
 * that contains its type.
 */
function describedTables ({ schemas, role }: TableOptions, type: Fragment): Fragment {
  const names = sql`array[${join(schemas.map(constant))}]::name[]`
  const may = (privilege: string): Fragment =>
    role === undefined
      ? sql`true`
      : sql`(has_schema_privilege(n.oid, 'usage')
          and has_column_privilege(c.oid, a.attnum, ${constant(privilege)}))`
  /** The events are bits: 4 is an update and 8 an insert. */
  const accepts = (event: number): Fragment =>
    sql`a.attidentity <> 'a' and a.attgenerated = ''
      and (pg_relation_is_updatable(c.oid, false) & ${integer(event)}) <> 0
      and (c.relkind in ('r', 'p') or pg_column_is_updatable(c.oid, a.attnum, false))`
  return sql`with columns as (
      select c.oid as table_oid, n.nspname as schema, c.relname as name, a.*,
        ${may('select')} as may_select,
        ${may('insert')} and ${accepts(8)} as may_insert,
        ${may('update')} and ${accepts(4)} as may_update
      from pg_class as c
      join pg_namespace as n on n.oid = c.relnamespace
      join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where n.nspname = any(${names}) and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and not c.relispartition and c.relname !~ '[.]'),
    usable as (select * from columns where may_select or may_insert or may_update),
    described as (
      select schema, name, obj_description(table_oid, 'pg_class') as comment,
        json_agg(json_build_object('name', attname, ${type},
          'comment', col_description(table_oid, attnum),
          'nullable', not attnotnull
            and not (select typnotnull from pg_type where oid = atttypid),
          'optional', atthasdef or attidentity <> '', 'select', may_select,
          'insert', may_insert, 'update', may_update) order by attnum) as columns
      from usable group by table_oid, schema, name
      order by array_position(${names}, schema), name)`
}
