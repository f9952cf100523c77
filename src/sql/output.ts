/**
 * What an operation answers → SQL.
 */
import type { ColumnPath, OutputColumn, TableName } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import { identifier, join, sql, type Fragment } from './fragment.ts'
import { tableName } from './scope.ts'

const row = sql`t`

/**
 * The rows of `t` as values of the table's own row type, called `row`: unlike `t.*` that is one column whatever the columns are
 * called, and also when there are none.
 */
export function wholeRow (table: TableName): Fragment {
  return sql`t.*::${tableName(table)} as row`
}

/** `expression as "name", …`. In groups, places in json are jsonb, which can be compared. */
export function outputList (output: readonly OutputColumn[], grouped = false): Fragment {
  return join(output.map(({ name, path, aggregate }) => {
    const value = path === undefined ? sql`*` : grouped ? comparableValue(path, row) : columnValue(path, row)
    return sql`${aggregate === undefined ? value : sql`${aggregates[aggregate]}(${value})`} as ${identifier(name)}`
  }), sql`, `)
}

/** Columns one after the other, compared. */
export function pathList (paths: readonly ColumnPath[]): Fragment {
  return join(paths.map(path => comparableValue(path, row)), sql`, `)
}

const aggregates: Readonly<Record<NonNullable<OutputColumn['aggregate']>, Fragment>> = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }
