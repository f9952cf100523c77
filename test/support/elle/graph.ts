/**
 * The dependencies between the committed transactions of a history.
 */
import { readsOf, type Transaction } from './history.ts'
import type { Versions } from './versions.ts'

/**
 * `ww`: the second transaction appended right after the first one. `wr`: it read what the first one
 * appended. `rw`: it appended what the first one did not see yet. `rt`: it started after the first
 * one was answered.
 */
export type EdgeKind = 'ww' | 'wr' | 'rw' | 'rt'

export interface Edge {
  readonly kind: EdgeKind
  /** The position of the second transaction in `nodes`. */
  readonly to: number
}

export interface Graph {
  readonly nodes: readonly Transaction[]
  /** The edges that start at each node. */
  readonly edges: ReadonlyArray<readonly Edge[]>
}

export function buildGraph (versions: Versions): Graph {
  const nodes = [...versions.committed].sort((a, b) => a.invoked - b.invoked)
  const positions = new Map(nodes.map((node, i) => [node, i]))
  const edges: Edge[][] = nodes.map(() => [])
  const seen = new Set<string>()
  const connect = (
    from: Transaction | undefined,
    kind: EdgeKind,
    to: Transaction | undefined
  ): void => {
    const [start, end] = [positions.get(from as Transaction), positions.get(to as Transaction)]
    if (start === undefined || end === undefined || start === end) return
    const name = `${start} ${kind} ${end}`
    if (!seen.has(name)) edges[start]?.push({ kind, to: end })
    seen.add(name)
  }
  connectData(versions, connect)
  connectRealTime(nodes, connect)
  return { nodes, edges }
}

type Connect = (
  from: Transaction | undefined,
  kind: EdgeKind,
  to: Transaction | undefined
) => void

function connectData ({ orders, writerOf, committed }: Versions, connect: Connect): void {
  for (const [key, order] of orders) {
    for (const [i, element] of order.entries()) {
      const previous = order[i - 1]
      if (previous !== undefined) connect(writerOf(key, previous), 'ww', writerOf(key, element))
    }
  }
  for (const reader of committed) {
    for (const { key, list } of readsOf(reader)) {
      const last = list.at(-1)
      const lastWriter = last === undefined ? undefined : writerOf(key, last)
      const next = orders.get(key)?.[list.length]
      connect(lastWriter, 'wr', reader)
      // After an append of its own, a transaction precedes the next one by `ww`.
      if (next !== undefined && lastWriter !== reader) connect(reader, 'rw', writerOf(key, next))
    }
  }
}

/**
 * Adds the edges from each answered transaction to those that started later, without those that
 * follow from others.
 */
function connectRealTime (nodes: readonly Transaction[], connect: Connect): void {
  const moments = nodes.flatMap(node => [
    { at: node.invoked, node, starts: true },
    { at: node.completed, node, starts: false }
  ]).filter(({ at }) => at < Infinity).sort((a, b) => a.at - b.at)
  /** The answered transactions that precede no other answered one. */
  let frontier: readonly Transaction[] = []
  for (const { node, starts } of moments) {
    if (starts) for (const answered of frontier) connect(answered, 'rt', node)
    else frontier = [...frontier.filter(({ completed }) => completed > node.invoked), node]
  }
}
