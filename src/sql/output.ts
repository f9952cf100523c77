/**
 * What an operation answers → SQL.
 */
import type { ColumnPath, OutputColumn, TableName } from '../plan/nodes.ts'
import { columnValue } from './column.ts'
import { identifier, join, sql, type Fragment } from './fragment.ts'
import { tableName } from './cte-builder.ts'

/**
 * The rows of `t` as values of the table's own row type, called `row`: unlike `t.*` that is one
 * column whatever the columns are called, and also when there are none.
 */
export function wholeRow (table: TableName): Fragment {
  return sql`t.*::${tableName(table)} as row`
}

/** `expression as "name", …` of columns that are returned, among which are no aggregates. */
export function returningList (output: readonly OutputColumn[]): Fragment {
  return join(
    output.map(({ name, path }) =>
      sql`${columnValue(path as ColumnPath, sql`t`)} as ${identifier(name)}`
    ),
    sql`, `
  )
}
