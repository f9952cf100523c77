/**
 * Tells whether an operation can run code of the database, which may change the session.
 */
import { identifier, render } from '../../fragment/fragment.ts'
import type { PlanNode, TableName } from '../../plan/nodes.ts'
import { tableName } from '../statement/table.ts'
import type { FindColumns, TableColumns } from '../values/column-types.ts'
import type { FindFunction } from '../values/function-types.ts'

interface Known {
  /** All tables of the batch. */
  readonly tables: readonly TableName[]
  readonly findColumns: FindColumns
  readonly findFunction: FindFunction
}

/**
 * Whether the statement of an operation can run code. What is not known counts as code. All names
 * of a request are quoted in its text, so the text tells which tables and columns it reads.
 */
export function canRunCode (
  node: PlanNode,
  { text }: { readonly text: string },
  { tables, findColumns, findFunction }: Known
): boolean {
  const named = tables.filter(table => text.includes(render(tableName(table)).text))
  if (node.kind === 'call') {
    return findFunction(node.table)?.variants.every(({ runsCode }) => !runsCode) !== true ||
      named.some(table => readsCode(findColumns(table), text))
  }
  const writes = node.kind !== 'select' && findColumns(node.table)?.code?.writes !== false
  return writes || [node.table, ...named].some(table => readsCode(findColumns(table), text))
}

function readsCode (columns: TableColumns | undefined, text: string): boolean {
  const { reads = true, computed = [] } = columns?.code ?? {}
  return reads || [...computed].some(name => text.includes(render(identifier(name)).text))
}
