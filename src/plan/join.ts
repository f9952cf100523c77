/**
 * Plans `from` of update and delete: the rows that they are joined to.
 */
import { has } from '../json/parse.ts'
import type { ReadColumn } from './filter.ts'
import { JoinedParameter } from '../../schemas/operation.ts'
import type { OperationSource } from './members.ts'
import type { DeleteNode, Join, UpdateNode } from './nodes.ts'
import { meetColumn, readPath } from './name.ts'
import { planFrom } from './from.ts'

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
  const planned = planFrom(source, JoinedParameter)
  if (planned === undefined) return { read: readPath, finish: () => undefined }
  const { read, finish } = planned
  const { on: pairs } = operation['from'] as { readonly on: Readonly<Record<string, string>> }
  const on = Object.entries(pairs).map(([column, name]) => {
    const path = ['from', 'on', column]
    return [column, read(name, { context, path }, meetColumn(column))] as const
  })
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
