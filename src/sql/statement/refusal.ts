/**
 * Builds the statement that takes the place of the operations if one of them names a table or a
 * column that does not exist. The session is set before it, so a role that does not exist, or a
 * key that is in use, is reported first.
 */
import { constant, render, sql } from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { raise } from './raised-error.ts'
import type { Statement } from './statement.ts'
import { tableName } from './table.ts'

/**
 * Returns a statement that raises `unknown`. If the role may not use the schema of the table, it
 * fails with `insufficient_privilege`, as the operation would.
 */
export function refuseStatement (table: TableName): Statement {
  const lookup = sql`pg_catalog.to_regclass(${constant(render(tableName(table)).text)})`
  return { ...render(sql`select ${lookup}, ${raise('unknown')}`), prepare: false }
}
