/**
 * Rewrites an operation for statements that are sent one by one, so that it needs no values of row
 * types: on Citus, each worker has other row types.
 */
import type { InsertNode, OutputColumn, PlanNode } from '../../plan/nodes.ts'
import { ALL_COLUMNS } from '../../plan/output.ts'

const WHOLE: readonly OutputColumn[] = [
  { name: ALL_COLUMNS, path: undefined, aggregate: undefined }
]

/**
 * Returns the operation with `*` where it returns whole rows, and a select with a limit: over
 * several shards, Citus merges a subquery without one into the conversion to JSON, which then loses
 * the order and names columns `f1`, `f2`, …. `maxRows`: MAX_ROWS. A statement reads one row more,
 * to find out whether there are too many.
 */
export function toPlain (node: PlanNode, { maxRows }: { readonly maxRows: number }): PlanNode {
  const { output = WHOLE } = node
  switch (node.kind) {
    case 'call':
      return node
    case 'select': {
      const { limit = { value: maxRows + 1 }, nested, answersCount } = node
      if (nested === undefined) return { ...node, output, limit }
      // Rows that are only counted are not read.
      return answersCount === true
        ? { ...node, output, limit, nested: undefined }
        : { ...node, limit }
    }
    case 'insert':
      return { ...node, output, ...withLimit(node, maxRows) }
    default:
      return { ...node, output }
  }
}

/** The query of an insert keeps its order only with a limit, like that of a select. */
function withLimit ({ query }: InsertNode, maxRows: number): Pick<InsertNode, 'query'> {
  if (query?.source.kind !== 'table') return { query }
  const { source } = query
  const { limit = { value: maxRows + 1 } } = source
  return { query: { ...query, source: { ...source, limit } } }
}
