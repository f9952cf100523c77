/**
 * Builds the statement that is sent instead of the operations if one of them names a table or a
 * column that does not exist, or has a value that its type refuses. The session is set before it,
 * so a role that does not exist, or a key that is in use, is reported first.
 */
import { constant, join, render, sql } from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { raise } from './raised-error.ts'
import type { Statement } from './statement.ts'
import { tableName } from './table.ts'

/**
 * Returns a statement that raises `refused`. If the role may not use the schema of one of these
 * tables, it fails with `insufficient_privilege`, as the operation would.
 */
export function refuseStatement (tables: readonly TableName[]): Statement {
  const lookups = tables.map(table =>
    sql`pg_catalog.to_regclass(${constant(render(tableName(table)).text)})`
  )
  return { ...render(sql`select ${join([...lookups, raise('refused')])}`), prepare: false }
}
