/**
 * Builds the DELETE of a delete operation.
 */
import type { DeleteNode } from '../plan/nodes.ts'
import { buildGate } from './gate.ts'
import { empty, join, sql, type Fragment } from './fragment.ts'
import { buildJoin } from './join.ts'
import { tableName } from './table.ts'
import type { ChangeBuilder } from './value-builder.ts'

/** Builds the statement without `returning`. */
export function buildDelete (node: DeleteNode, values: ChangeBuilder): Fragment {
  const { source, where } = buildJoin(node, values)
  const using = source.length === 0 ? empty : sql` using ${join(source, empty)}`
  const gate = values.evaluateOnce(buildGate(node))
  return sql`delete from ${tableName(node.table)} as t${using}${where(gate)}`
}
