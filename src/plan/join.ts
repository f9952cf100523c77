/**
 * Plans `from` of update and delete: the rows that they are joined to.
 */
import { has } from '../json/parse.ts'
import type { ReadColumn } from './filter.ts'
import { readMember, type OperationSource } from './members.ts'
import type { DeleteNode, Join, UpdateNode } from './nodes.ts'
import { readPath } from './name.ts'
import { planSource, type SourceMembers } from './source.ts'

export interface PlannedJoin {
  /** Reads a column of `from`. */
  readonly read: ReadColumn
  /** Returns the join, after all columns were read; undefined after an issue. */
  readonly finish: () => Join | undefined
}

/** Returns undefined if the operation has no `from`. */
export function planJoin (source: OperationSource): PlannedJoin | undefined {
  const { operation, context } = source
  if (!has(operation, 'from')) return undefined
  const from = readMember(source, 'from') as
    | (SourceMembers & { readonly on: Readonly<Record<string, string>> })
    | undefined
  if (from === undefined) return { read: readPath, finish: () => undefined }
  const { read, finish } = planSource(from, { context, path: ['from'] })
  const on = Object.entries(from.on).map(([column, name]) =>
    [column, read(name, { context, path: ['from', 'on', column] })] as const
  )
  return {
    read,
    finish () {
      const source = finish()
      return source && { source, on }
    }
  }
}

/** Adds the join to an operation. Returns undefined after an issue of the join. */
export function withJoin<Node extends UpdateNode | DeleteNode> (
  node: Node,
  joined: PlannedJoin | undefined
): Node | undefined {
  if (joined === undefined) return node
  const join = joined.finish()
  return join && { ...node, join }
}
