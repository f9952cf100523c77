/**
 * Tells whether an operation can run code of the database, which may change the session.
 */
import type { PlanNode } from '../../plan/nodes.ts'
import type { NamedPart } from '../../plan/plan.ts'
import type { CompileOptions } from '../values/context.ts'

type Known = Pick<CompileOptions, 'findColumns' | 'findFunction'>

/**
 * Whether an operation can run code: that of the function that it calls, of writes to its table, or
 * of reads of the tables and columns that it names (`names`). What is not known counts as code.
 */
export function canRunCode (
  { kind, table }: PlanNode,
  names: readonly NamedPart[],
  { findColumns, findFunction }: Known
): boolean {
  const writes = kind === 'call'
    ? findFunction(table)?.variants.every(({ runsCode }) => !runsCode) !== true
    : kind !== 'select' && findColumns(table)?.code?.writes !== false
  return writes || names.some(({ table, column }) => {
    const columns = findColumns(table)
    return columns?.code?.reads !== false || (column !== undefined && !columns.has(column) &&
      columns.functions?.get(column) === true)
  })
}
