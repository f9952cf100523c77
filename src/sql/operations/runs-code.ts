/**
 * Tells whether an operation can run code of the database, which may change the session.
 */
import { identifier, render } from '../../fragment/fragment.ts'
import type { PlanNode, TableName } from '../../plan/nodes.ts'
import { tableName } from '../statement/table.ts'
import type { FindColumns, TableColumns } from '../values/column-types.ts'
import type { FindFunction } from '../values/function-types.ts'

interface Known {
  readonly findColumns: FindColumns
  readonly findFunction: FindFunction
}

/** Tells whether the statement of an operation can run code. */
interface CodeTest {
  /** Whether it can, whatever it reads: it is a call or a write. */
  readonly writes: (node: PlanNode) => boolean
  /** Whether what it reads can run code. */
  readonly reads: (node: PlanNode, statement: { readonly text: string }) => boolean
}

/**
 * Returns the test for the operations of a batch with these tables. What is not known counts as
 * code. All names of a request are quoted in the text of its statement, so the text tells which
 * tables and columns it reads.
 */
export function createCodeTest (
  tables: readonly TableName[],
  { findColumns, findFunction }: Known
): CodeTest {
  const names = tables.map(table => ({ table, name: render(tableName(table)).text }))
  return {
    writes (node) {
      return node.kind === 'call'
        ? findFunction(node.table)?.variants.every(({ runsCode }) => !runsCode) !== true
        : node.kind !== 'select' && findColumns(node.table)?.code?.writes !== false
    },
    reads (node, { text }) {
      const named = names.filter(({ name }) => text.includes(name)).map(({ table }) => table)
      const all = node.kind === 'call' ? named : [node.table, ...named]
      return all.some(table => readsCode(findColumns(table), text))
    }
  }
}

function readsCode (columns: TableColumns | undefined, text: string): boolean {
  const { reads = true, computed = [] } = columns?.code ?? {}
  return reads || [...computed].some(name => text.includes(render(identifier(name)).text))
}
