/**
 * SQL for the output of an operation.
 */
import { casts } from '../../../schemas/cast.ts'
import { empty, fill, identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { ColumnPath, OutputColumn, PlanNode, TableName } from '../../plan/nodes.ts'
import { isAllColumns } from '../../plan/output.ts'
import { tableName } from '../statement/table.ts'
import { columnValue, type RowColumns } from '../values/column.ts'
import { isInserted } from './inserted.ts'

/** Columns 1 and 2 of each operation: when it began, and when its rows were ready. */
export const operationTimes: Fragment =
  sql`, pg_catalog.statement_timestamp(), pg_catalog.clock_timestamp()`

/** Whether the result is the number of rows. `minimal`: see CompileOptions. */
export function answersOnlyCount (
  { answersCount }: Pick<PlanNode, 'answersCount'>,
  minimal: boolean | undefined
): boolean {
  return minimal === true || answersCount === true
}

/**
 * The rows of `t`, or of another name, as values of the table's row type, with the name `row`.
 * Unlike `t.*` this is one column for every table, even for a table without columns.
 */
export function wholeRow (table: TableName, row = sql`t`): Fragment {
  return sql`${row}.*::${tableName(table)} as row`
}

/** The row `t` as JSON, with the name `row`. */
export function jsonRow (table: TableName): Fragment {
  return sql`pg_catalog.to_json(t.*::${tableName(table)}) as row`
}

/** The columns of a row as one value. */
export function rowValue (
  row: Fragment,
  { distributed }: { readonly distributed: boolean }
): Fragment {
  // Citus cannot read anonymous composites that were computed in another part of a statement.
  return distributed ? sql`pg_catalog.to_json(${row}.*)` : sql`${row}.*::record`
}

const AGGREGATES = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }

/** What an output column computes from the value of its path; `*` without a path. */
export function outputValue (
  { aggregate, cast, distinct }: OutputColumn,
  value: Fragment
): Fragment {
  const converted = cast === undefined ? value : sql`(${value})::${fill(casts[cast], {})}`
  if (aggregate === undefined) return converted
  return sql`${AGGREGATES[aggregate]}(${distinct === true ? sql`distinct ` : empty}${converted})`
}

/** `expression as "name", …` for RETURNING, which has no aggregates. */
export function returningList (
  output: readonly OutputColumn[],
  columns: RowColumns
): Fragment {
  const clash = buildNameClash(output)
  return join(
    output.map(column => {
      if (isAllColumns(column)) return sql`t.*`
      const value = returnedValue(column, columns)
      const checked = clash === undefined
        ? value
        : sql`case when (case when false then (select ${clash}) end) is null then ${value} end`
      return sql`${checked} as ${identifier(column.name)}`
    }),
    sql`, `
  )
}

function returnedValue (column: OutputColumn, columns: RowColumns): Fragment {
  const { path, inserted } = column
  if (inserted !== undefined) return inserted === 'always' ? sql`true` : isInserted
  return outputValue(column, columnValue(path as ColumnPath, columns))
}

/**
 * Columns of a subquery, and its FROM, in which PostgreSQL refuses a name that is both a column of
 * the table and that of another output column: JSON would keep only one of them. Undefined if that
 * cannot be. `row`: the name of the row.
 */
export function buildNameClash (
  output: readonly OutputColumn[],
  more: readonly Fragment[] = [],
  row = sql`t`
): Fragment | undefined {
  const names = output.filter(column => !isAllColumns(column)).map(({ name }) => identifier(name))
  if (names.length === 0 || names.length === output.length) return undefined
  const columns = [...more, ...names.map(name => sql`o.${name}`)]
  const nulls = names.map(name => sql`, null as ${name}`)
  return sql`row(${join(columns, sql`, `)}) as "0" from (select ${row}.*${join(nulls, empty)}) as o`
}
