/**
 * Builds the DELETE of a delete operation.
 */
import type { DeleteNode } from '../plan/nodes.ts'
import { buildWhere } from './filter.ts'
import { buildGate } from './gate.ts'
import { sql, type Fragment } from './fragment.ts'
import { tableName } from './table.ts'
import type { ValueBuilder } from './value-builder.ts'

/** Builds the statement without `returning`. */
export function buildDelete (
  { table, where, when }: DeleteNode,
  values: ValueBuilder
): Fragment {
  const also = buildGate({ when })
  return sql`delete from ${tableName(table)} as t${buildWhere(where, values, { also })}`
}
