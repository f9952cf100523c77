/**
 * Builds queries for what an error message can suggest. Each returns `found`, JSON as text.
 */
import { constant, render, sql, type Fragment } from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { arrayText } from '../../plan/value-text.ts'
import { tableName } from './table.ts'

/** Maximum number of tables or functions that are compared with a name. */
const MAX_NAMES = 1000

/** The tables that GET /tables lists for a role. */
export function usableTables (
  { role, schemas }: { readonly role: string, readonly schemas: readonly string[] }
): Fragment {
  const name = constant(role)
  return sql`select pg_catalog.json_agg(f)::pg_catalog.text as found from (
    select n.nspname as schema, c.relname as name from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) c.relnamespace
    where n.nspname operator(pg_catalog.=) any (${constant(arrayText(schemas))}::pg_catalog.name[])
      and c.relkind in ('r', 'v', 'm', 'f', 'p') and not c.relispartition
      and pg_catalog.has_schema_privilege(${name}, n.oid, 'usage')
      and (pg_catalog.has_table_privilege(${name}, c.oid, 'select, insert, update, delete')
        or pg_catalog.has_any_column_privilege(${name}, c.oid, 'select, insert, update'))
    limit ${constant(String(MAX_NAMES))}::pg_catalog.int4) as f`
}

/** The names of functions that a role may call. */
export function usableFunctions ({ role, schemas }: Parameters<typeof usableTables>[0]): Fragment {
  return sql`select pg_catalog.json_agg(f)::pg_catalog.text as found from (
    select distinct n.nspname as schema, p.proname as name from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) p.pronamespace
    where n.nspname operator(pg_catalog.=) any (${constant(arrayText(schemas))}::pg_catalog.name[])
      and p.prokind in ('f')
      and pg_catalog.has_function_privilege(${constant(role)}, p.oid, 'execute')
    limit ${constant(String(MAX_NAMES))}::pg_catalog.int4) as f`
}

/** The columns of a table that a role may read or write. */
export function usableColumns (table: TableName, role: string): Fragment {
  return sql`select pg_catalog.json_agg(a.attname)::pg_catalog.text as found
    from pg_catalog.pg_attribute as a
    where a.attrelid operator(pg_catalog.=)
        pg_catalog.to_regclass(${constant(render(tableName(table)).text)})
      and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
      and pg_catalog.has_column_privilege(${constant(role)}, a.attrelid, a.attnum,
        'select, insert, update')`
}

/** The labels of columns with an enum, an array of it or a domain over it. */
export function enumLabels (table: TableName): Fragment {
  return sql`select pg_catalog.json_object_agg(a.attname, (
      select pg_catalog.json_agg(e.enumlabel order by e.enumsortorder)
      from pg_catalog.pg_enum as e where e.enumtypid in (y.oid, y.typelem, y.typbasetype)
    ))::pg_catalog.text as found
    from pg_catalog.pg_attribute as a
    join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) a.atttypid
    where a.attrelid operator(pg_catalog.=)
        pg_catalog.to_regclass(${constant(render(tableName(table)).text)})
      and exists (select from pg_catalog.pg_enum as e
        where e.enumtypid in (y.oid, y.typelem, y.typbasetype))`
}
