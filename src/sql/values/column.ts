/**
 * SQL for columns and for paths into their JSON. In statements, `t` is the table.
 *
 * `t."name"` also finds computed columns (functions of that name that take a row of the table) and
 * system columns like `ctid`. Both are allowed: a function needs EXECUTE, and a row that the role
 * may read in full. A name like `text` does not cast the row: PostgreSQL excludes casts from this
 * notation. It does not exclude aggregates (`t."count"`). Conditions and RETURNING refuse these,
 * and for the rest see select.ts.
 */
import type { Type } from '../../catalogue/type.ts'
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
import { kindOf, type ColumnKind } from './value-type.ts'

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

/** The columns of a row in a statement. */
export interface RowColumns {
  /** The name of the row. */
  readonly row: Fragment

  /** The type of a column; undefined: it is not known. */
  typeOf(column: string): Type | undefined
}

/** The type of an output column of a query. `typeOf`: the type of a column of its table. */
export function typeOfOutput (
  output: readonly OutputColumn[],
  name: string,
  typeOf: RowColumns['typeOf']
): Type | undefined {
  const found = output.find(column => column.name === name)
  // No output column has this name, so it is a column of the table (`*`).
  if (found === undefined) return typeOf(name)
  const unchanged = isUnchanged(found) && found.path.resultType === 'column'
  return unchanged ? typeOf(found.path.column) : undefined
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
  const kind = steps.length === 0 ? undefined : kindOf(columns.typeOf(column))
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
