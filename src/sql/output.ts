/**
 * SQL for the output of an operation.
 */
import type { ColumnPath, OutputColumn, TableName } from '../plan/nodes.ts'
import { columnValue } from './column.ts'
import { empty, identifier, join, sql, type Fragment } from './fragment.ts'
import { tableName } from './table.ts'

/** Columns 1 and 2 of each operation: when it began, and when its rows were ready. */
export const operationTimes: Fragment =
  sql`, pg_catalog.statement_timestamp(), pg_catalog.clock_timestamp()`

/**
 * The rows of `t` as values of the table's row type, with the name `row`. Unlike `t.*` this is one
 * column for every table, even for a table without columns.
 */
export function wholeRow (table: TableName): Fragment {
  return sql`t.*::${tableName(table)} as row`
}

const AGGREGATES = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }

/** What an output column computes from the value of its path; `*` without a path. */
export function outputValue ({ aggregate, distinct }: OutputColumn, value: Fragment): Fragment {
  if (aggregate === undefined) return value
  return sql`${AGGREGATES[aggregate]}(${distinct === true ? sql`distinct ` : empty}${value})`
}

/** `expression as "name", …` for RETURNING, which has no aggregates. */
export function returningList (output: readonly OutputColumn[]): Fragment {
  return join(
    output.map(({ name, path }) =>
      sql`${columnValue(path as ColumnPath, sql`t`)} as ${identifier(name)}`
    ),
    sql`, `
  )
}
