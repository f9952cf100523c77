/**
 * Delete → SQL.
 */
import type { DeleteNode } from '../plan/nodes.ts'
import { tableName } from './column.ts'
import { sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'

/** The delete alone; `returning` is added by the caller. */
export function deleteStatement ({ table, where }: DeleteNode): Fragment {
  return sql`delete from ${tableName(table)} as t${whereClause(where, table)}`
}
