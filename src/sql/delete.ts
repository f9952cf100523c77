/**
 * Delete → SQL.
 */
import type { DeleteNode } from '../plan/nodes.ts'
import { sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { tableName, type CteBuilder } from './cte-builder.ts'

/** The delete alone; `returning` is added by the caller. */
export function deleteStatement ({ table, where }: DeleteNode, scope: CteBuilder): Fragment {
  return sql`delete from ${tableName(table)} as t${whereClause(where, scope)}`
}
