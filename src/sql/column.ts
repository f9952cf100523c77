/**
 * SQL for columns and for paths into their JSON. In statements, `t` is the table.
 *
 * `t."name"` also finds computed columns (functions of that name that take a row of the table) and
 * system columns like `ctid`. Both are allowed: a function needs EXECUTE, and a row that the role
 * may read in full. A name like `text` does not cast the row: PostgreSQL excludes casts from this
 * notation. It does not exclude aggregates (`t."count"`). Conditions and RETURNING refuse these,
 * and for the rest see select.ts.
 */
import type { ColumnPath, OutputColumn } from '../plan/nodes.ts'
import { isUnchanged } from '../plan/output.ts'
import {
  empty,
  identifier,
  join,
  render,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'

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

/** The kinds of types, other than json and jsonb, into which a path can go. */
export type Container = 'array' | 'composite'

/** The columns of a row in a statement. */
export interface RowColumns {
  /** The name of the row. */
  readonly row: Fragment

  /** What a column is, as far as it is known. Undefined: json or jsonb, if a path goes into it. */
  containerOf(column: string): Container | undefined
}

/** What an output column of a query is. `containerOf`: what a column of its table is. */
export function containerOfOutput (
  output: readonly OutputColumn[],
  name: string,
  containerOf: RowColumns['containerOf']
): Container | undefined {
  const found = output.find(column => column.name === name)
  // Without one, it is among all columns of the table.
  if (found === undefined) return containerOf(name)
  const unchanged = isUnchanged(found) && found.path.resultType === 'column'
  return unchanged ? containerOf(found.path.column) : undefined
}

/**
 * The functions that make a column json, whose numbers keep their text. They accept no other type:
 * if that of the column has changed, PostgreSQL refuses the statement.
 */
const TO_JSON: Readonly<Record<Container, Fragment>> = {
  array: sql`pg_catalog.array_to_json`,
  composite: sql`pg_catalog.row_to_json`
}

/**
 * Whether the text of a statement begins with a path into a column of another type than assumed.
 * `text`: from the position of the error.
 */
export function isPathInto (text: string): boolean {
  return text.startsWith('operator(pg_catalog.->') ||
    Object.values(TO_JSON).some(name => text.startsWith(render(name).text))
}

/**
 * The value of a column path, in the row of `columns` or in `row`. The operators name their schema:
 * extensions have operators of the same name, and `->` of hstore returns text.
 */
export function columnValue (
  { column, keys, resultType }: ColumnPath,
  columns: RowColumns,
  row = columns.row
): Fragment {
  const steps = keys.map((key, i) => {
    const arrow = resultType === 'text' && i === keys.length - 1
      ? sql` operator(pg_catalog.->>) `
      : sql` operator(pg_catalog.->) `
    return typeof key === 'number'
      ? sql`${arrow}${sharedParameter(String(key))}::int`
      : sql`${arrow}${sharedParameter(key)}::text`
  })
  const value = sql`${row}.${identifier(column)}`
  const container = steps.length === 0 ? undefined : columns.containerOf(column)
  const json = container === undefined ? value : sql`${TO_JSON[container]}(${value})`
  return sql`${json}${join(steps, empty)}`
}

/** The value for a comparison. A path is jsonb there, because json has no comparison operators. */
export function comparableValue (
  path: ColumnPath,
  columns: RowColumns,
  row = columns.row
): Fragment {
  const value = columnValue(path, columns, row)
  if (path.resultType === 'column') return value
  return path.resultType === 'json' ? sql`(${value})::jsonb` : sql`(${value})`
}
