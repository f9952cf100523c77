/**
 * Reads the tables and views of schemas from the catalogue: their columns, who may write them, and
 * how JSON represents their types.
 */
import { constant, join, render, sql, type Fragment } from '../sql/fragment.ts'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { closeConnection, query, type Connection } from './connection.ts'
import { openConnection } from './open-connection.ts'

export interface TableDescription {
  readonly schema: string
  readonly name: string
  readonly comment: string | null
  readonly columns: readonly ColumnDescription[]
}

export interface ColumnDescription {
  readonly name: string
  readonly comment: string | null
  readonly type: TypeDescription
  readonly nullable: boolean
  /** Whether an insert may omit the column because it has a default. */
  readonly optional: boolean
  /** What is possible with the column. With a role: what the role may do. */
  readonly select: boolean
  readonly insert: boolean
  readonly update: boolean
}

/** A type of PostgreSQL. Domains are their base types. */
export type TypeDescription =
  /** A type of PostgreSQL without parts, by its name in pg_type. */
  | { readonly kind: 'plain', readonly name: string }
  | { readonly kind: 'enum', readonly labels: readonly string[] }
  | { readonly kind: 'array', readonly element: TypeDescription }
  | { readonly kind: 'composite', readonly fields: readonly Field[] }

interface Field {
  readonly name: string
  readonly type: TypeDescription
}

/**
 * Returns the tables, views, materialized views and foreign tables, without partitions, in the
 * order of `schemas` and of their names. `role`: only the tables and columns that it may use.
 * Rejects when the connection fails or the role does not exist.
 */
export async function describeTables (
  target: DatabaseTarget,
  schemas: readonly string[],
  role: string | undefined
): Promise<readonly TableDescription[]> {
  const connection = await openConnection(target, { roleSettings: false })
  try {
    return await readTables(connection, schemas, role)
  } finally {
    await closeConnection(connection)
  }
}

async function readTables (
  connection: Connection,
  schemas: readonly string[],
  role: string | undefined
): Promise<readonly TableDescription[]> {
  await query(connection, 'set search_path = pg_catalog')
  const rows = await query<Catalogue>(connection, render(catalogueQuery(schemas, role)).text)
  const { tables, types } = rows[0] as Catalogue
  const typesByOid = new Map((JSON.parse(types) as readonly TypeRow[]).map(row => [row.oid, row]))
  return (JSON.parse(tables) as readonly TableRow[]).map(table => ({
    ...table,
    columns: table.columns.map(({ oid, ...column }) => {
      const { type, notNull } = describeType(oid, typesByOid)
      return { ...column, type, nullable: column.nullable && !notNull }
    })
  }))
}

type Catalogue = Readonly<Record<'tables' | 'types', string>>

interface TableRow extends Omit<TableDescription, 'columns'> {
  readonly columns: ReadonlyArray<Omit<ColumnDescription, 'type'> & { readonly oid: number }>
}

interface TypeRow {
  readonly oid: number
  readonly name: string
  readonly notNull: boolean
  /** OIDs; null: the type is no domain or array. */
  readonly base: number | null
  readonly element: number | null
  readonly labels: readonly string[] | null
  readonly fields: ReadonlyArray<{ readonly name: string, readonly oid: number }> | null
}

function describeType (
  oid: number,
  types: ReadonlyMap<number, TypeRow>
): { readonly type: TypeDescription, readonly notNull: boolean } {
  const { name, notNull, base, element, labels, fields } = types.get(oid) as TypeRow
  if (base !== null) {
    const inner = describeType(base, types)
    return { type: inner.type, notNull: notNull || inner.notNull }
  }
  const part = (of: number): TypeDescription => describeType(of, types).type
  if (element !== null) return { type: { kind: 'array', element: part(element) }, notNull }
  if (labels !== null) return { type: { kind: 'enum', labels }, notNull }
  if (fields === null) return { type: { kind: 'plain', name }, notNull }
  const described = fields.map(field => ({ name: field.name, type: part(field.oid) }))
  return { type: { kind: 'composite', fields: described }, notNull }
}

/** One row: the tables, and every type that their columns contain. */
function catalogueQuery (schemas: readonly string[], role: string | undefined): Fragment {
  const names = join(schemas.map(constant), sql`, `)
  // A name instead of an OID gives the error that the role does not exist.
  const may = (privilege: string): Fragment =>
    role === undefined
      ? sql`true`
      : sql`(has_schema_privilege(${constant(role)}, n.oid, 'usage')
          and has_column_privilege(${constant(role)}, c.oid, a.attnum, ${constant(privilege)}))`
  const writable = (event: Fragment): Fragment =>
    sql`(a.attidentity <> 'a' and a.attgenerated = ''
      and (pg_relation_is_updatable(c.oid, false) & ${event}) <> 0
      and (c.relkind in ('r', 'p') or pg_column_is_updatable(c.oid, a.attnum, false)))`
  return sql`with recursive columns as (
      select c.oid as table_oid, n.nspname, c.relname, a.attnum, a.attname, a.atttypid,
        not a.attnotnull as nullable,
        a.atthasdef or a.attidentity <> '' as optional,
        ${may('select')} as may_select,
        ${may('insert')} and ${writable(sql`8`)} as may_insert,
        ${may('update')} and ${writable(sql`4`)} as may_update
      from pg_class as c
      join pg_namespace as n on n.oid = c.relnamespace
      join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where n.nspname in (${names}) and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and not c.relispartition and c.relname !~ '[.]'),
    usable as (select * from columns where may_select or may_insert or may_update),
    parts (oid) as (
      select atttypid from usable
      union
      select part.oid from parts join pg_type as t on t.oid = parts.oid
        cross join lateral (
          select nullif(t.typbasetype, 0) as oid
          union all select t.typelem where t.typcategory = 'A'
          union all select f.atttypid from pg_attribute as f where t.typtype = 'c'
            and f.attrelid = t.typrelid and f.attnum > 0 and not f.attisdropped) as part
      where part.oid is not null)
    select (select coalesce(json_agg(described order by position, name), '[]') from (
        select array_position(array[${names}]::name[], nspname) as position, nspname as schema,
          relname as name, obj_description(table_oid, 'pg_class') as comment,
          json_agg(json_build_object('name', attname, 'oid', atttypid::int8,
            'comment', col_description(table_oid, attnum), 'nullable', nullable,
            'optional', optional, 'select', may_select, 'insert', may_insert,
            'update', may_update) order by attnum) as columns
        from usable group by table_oid, nspname, relname) as described)::text as tables,
      (select coalesce(json_agg(json_build_object('oid', t.oid::int8, 'name', t.typname,
          'notNull', t.typnotnull,
          'base', case t.typtype when 'd' then t.typbasetype::int8 end,
          'element', case t.typcategory when 'A' then t.typelem::int8 end,
          'labels', case t.typtype when 'e' then (
            select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum as e
            where e.enumtypid = t.oid) end,
          'fields', case t.typtype when 'c' then (
            select json_agg(json_build_object('name', f.attname, 'oid', f.atttypid::int8)
              order by f.attnum) from pg_attribute as f
            where f.attrelid = t.typrelid and f.attnum > 0 and not f.attisdropped) end)), '[]')
        from parts join pg_type as t on t.oid = parts.oid)::text as types`
}
