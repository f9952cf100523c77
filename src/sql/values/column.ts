/**
 * SQL for columns and for paths into their JSON. In statements, `t` is the table.
 *
 * `t."name"` also finds computed columns (functions of that name that take a row of the table) and
 * system columns like `ctid`. Both are allowed: a function needs EXECUTE, and a row that the role
 * may read in full. A name like `text` does not cast the row: PostgreSQL excludes casts from this
 * notation. It does not exclude aggregates (`t."count"`). Conditions and RETURNING refuse these,
 * and for the rest see select.ts.
 */
import {
  empty,
  identifier,
  join,
  render,
  sharedParameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { ColumnPath, OutputColumn } from '../../plan/nodes.ts'
import { isUnchanged } from '../../plan/output.ts'

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
 * The kinds of types that need SQL of their own, also as the base of a domain. `json` is json or
 * jsonb.
 */
export type ColumnKind = 'json' | 'array' | 'composite'

/** The columns of a row in a statement. */
export interface RowColumns {
  /** The name of the row. */
  readonly row: Fragment

  /** What a column is; undefined: it has another type, or is not known. */
  kindOf(column: string): ColumnKind | undefined
}

/** What an output column of a query is. `kindOf`: what a column of its table is. */
export function kindOfOutput (
  output: readonly OutputColumn[],
  name: string,
  kindOf: RowColumns['kindOf']
): ColumnKind | undefined {
  const found = output.find(column => column.name === name)
  // No output column has this name, so it is a column of the table (`*`).
  if (found === undefined) return kindOf(name)
  const unchanged = isUnchanged(found) && found.path.resultType === 'column'
  return unchanged ? kindOf(found.path.column) : undefined
}

/**
 * The functions that make a column json, whose numbers keep their text. They accept no other type:
 * if that of the column has changed, PostgreSQL refuses the statement.
 */
const TO_JSON: Readonly<Partial<Record<ColumnKind, Fragment>>> = {
  array: sql`pg_catalog.array_to_json`,
  composite: sql`pg_catalog.row_to_json`
}

/** Beginnings of the SQL that PostgreSQL refuses if a column is of another kind than assumed. */
const DEPENDING = [
  'operator(pg_catalog.->',
  ...Object.values(TO_JSON).map(name => render(name).text)
]

/** Whether an error is at a path into a column. `text`: the statement from there. */
export function isPath (text: string): boolean {
  return DEPENDING.some(beginning => text.startsWith(beginning))
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
  const kind = steps.length === 0 ? undefined : columns.kindOf(column)
  const toJson = kind && TO_JSON[kind]
  const json = toJson === undefined ? value : sql`${toJson}(${value})`
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
