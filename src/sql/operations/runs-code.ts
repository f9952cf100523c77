/**
 * Tells whether an operation can run code of the database, which may change the session.
 */
import type { PlanNode } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import type { CompileOptions } from '../values/context.ts'

type Known = Pick<CompileOptions, 'findColumns' | 'findFunction'>

/**
 * Whether an operation can run code: that of the function that it calls, of writes to its table, or
 * of reads of the tables and columns that it names. What is not known counts as code.
 */
export function canRunCode (
  { index, kind, table }: PlanNode,
  { names }: Pick<Plan, 'names'>,
  { findColumns, findFunction }: Known
): boolean {
  const writes = kind === 'call'
    ? findFunction(table)?.variants.every(({ runsCode }) => !runsCode) !== true
    : kind !== 'select' && findColumns(table)?.code?.writes !== false
  return writes || names.some(named => {
    if (named.index !== index) return false
    const columns = findColumns(named.table)
    const { column } = named
    return columns?.code?.reads !== false || (column !== undefined && !columns.has(column) &&
      columns.functions?.get(column) === true)
  })
}
