/**
 * Builds the DELETE of a delete operation.
 */
import type { DeleteNode } from '../plan/nodes.ts'
import type { CteBuilder } from './cte-builder.ts'
import { buildWhere } from './filter.ts'
import { sql, type Fragment } from './fragment.ts'
import { tableName } from './table.ts'

/** Builds the statement without `returning`. */
export function buildDelete ({ table, where }: DeleteNode, ctes: CteBuilder): Fragment {
  return sql`delete from ${tableName(table)} as t${buildWhere(where, ctes)}`
}
