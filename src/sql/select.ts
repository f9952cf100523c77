/**
 * Select → SQL.
 */
import type { SelectNode } from '../plan/nodes.ts'
import { sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { tableName, wholeRow } from './reference.ts'

/** The query alone; how many rows are read of it is the caller's business. */
export function selectStatement ({ table, where }: SelectNode): Fragment {
  return sql`select ${wholeRow(table)} from ${tableName(table)} as t${whereClause(where, table)}`
}
