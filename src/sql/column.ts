/**
 * Columns and places in their jsonb. The statement calls its table `t`.
 *
 * `t."name"` also finds a function of that name that takes a row of the table, PostgreSQL's
 * computed column, and system columns like `ctid`. Both are let through: a function needs EXECUTE
 * and a row that the role may read in full. A name like `text` does not cast the row: PostgreSQL
 * excludes that from this notation. Aggregates (`t."count"`) it does not exclude, but conditions
 * and RETURNING allow none, and select.ts sees to the rest.
 */
import type { ColumnPath } from '../plan/nodes.ts'
import { empty, identifier, join, sharedParameter, sql, type Fragment } from './fragment.ts'

/**
 * A column, or a place in its json or jsonb, of the row that `row` names. The operators are those
 * of PostgreSQL itself: extensions have others of the same name, and `->` of hstore answers text.
 */
export function columnValue ({ column, keys, gives }: ColumnPath, row: Fragment): Fragment {
  const steps = keys.map((key, i) => {
    const arrow = gives === 'text' && i === keys.length - 1
      ? sql` operator(pg_catalog.->>) `
      : sql` operator(pg_catalog.->) `
    return typeof key === 'number'
      ? sql`${arrow}${sharedParameter(String(key))}::int`
      : sql`${arrow}${sharedParameter(key)}::text`
  })
  return sql`${row}.${identifier(column)}${join(steps, empty)}`
}

/** The same where it is compared: json has no comparison, jsonb does. */
export function comparableValue (path: ColumnPath, row: Fragment): Fragment {
  const value = columnValue(path, row)
  if (path.gives === 'column') return value
  return path.gives === 'json' ? sql`(${value})::jsonb` : sql`(${value})`
}
