/**
 * SQL for columns and for paths into their JSON. In statements, `t` is the table.
 *
 * `t."name"` also finds computed columns (functions of that name that take a row of the table) and
 * system columns like `ctid`. Both are allowed: a function needs EXECUTE, and a row that the role
 * may read in full. A name like `text` does not cast the row: PostgreSQL excludes casts from this
 * notation. It does not exclude aggregates (`t."count"`). Conditions and RETURNING refuse these,
 * and for the rest see select.ts.
 */
import type { ColumnPath } from '../plan/nodes.ts'
import { empty, identifier, join, sharedParameter, sql, type Fragment } from './fragment.ts'

/** The name of a row of `from`. */
export const SOURCE_ROW: Fragment = sql`f`

/** System columns, which every table has (docs: "System Columns"). */
export const SYSTEM_COLUMNS: ReadonlySet<string> = new Set([
  'tableoid',
  'xmin',
  'cmin',
  'xmax',
  'cmax',
  'ctid'
])

/**
 * The value of a column path in the row with the name `row`. The operators name their schema:
 * extensions have operators of the same name, and `->` of hstore returns text.
 */
export function columnValue ({ column, keys, resultType }: ColumnPath, row: Fragment): Fragment {
  const steps = keys.map((key, i) => {
    const arrow = resultType === 'text' && i === keys.length - 1
      ? sql` operator(pg_catalog.->>) `
      : sql` operator(pg_catalog.->) `
    return typeof key === 'number'
      ? sql`${arrow}${sharedParameter(String(key))}::int`
      : sql`${arrow}${sharedParameter(key)}::text`
  })
  return sql`${row}.${identifier(column)}${join(steps, empty)}`
}

/** The value for a comparison. A path is jsonb there, because json has no comparison operators. */
export function comparableValue (path: ColumnPath, row: Fragment): Fragment {
  const value = columnValue(path, row)
  if (path.resultType === 'column') return value
  return path.resultType === 'json' ? sql`(${value})::jsonb` : sql`(${value})`
}
