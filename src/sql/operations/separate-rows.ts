/**
 * Which operations return each row as soon as it is there, without an aggregate.
 * Nothing counts their rows, so an operation that reads one of them must check that it exists.
 */
import type { InsertNode, Plan, PlanNode } from '../../plan/nodes.ts'
import type { SharedResult, SharedResults } from '../statement/shared-results.ts'
import { answersOnlyCount } from './output.ts'

/** See CompileOptions. */
interface Options {
  readonly minimal?: boolean
  readonly keep?: boolean
  readonly distributed?: boolean
}

/**
 * Whether an operation returns separate rows. It must return as many rows as the request has, and
 * no check may follow it. They are few: an aggregate of 1000 rows took PostgreSQL a tenth less
 * time, and the service half.
 */
export function returnsSeparateRows (
  node: PlanNode,
  { operations, counted, referenceUses }: Plan,
  { minimal, keep, distributed }: Options
): node is InsertNode {
  const { index } = node
  // Citus would store the result of the subquery that holds the rows.
  if (counted.has(index) || node.when.length > 0 || distributed === true) return false
  if (node.kind !== 'insert' || node.query !== undefined) return false
  if (node.conflict !== undefined) return false
  if (node.expect !== undefined || node.output?.length === 0) return false
  if (node.groups.length > 1 || node.groups[0]?.rows.cells === undefined) return false
  if (answersOnlyCount(node, minimal) || keep === true) return false
  // The last of several operations checks the session at its end, even if it returns no row.
  if (index === operations.length - 1 && index > 0) return false
  const uses = referenceUses.get(index) ?? []
  return uses.length === 0 ||
    (node.groups[0]?.positions.length === 1 && uses.every(({ rows }) => rows === 1))
}

/** By the index of an operation that reads separate rows: what the operation behind them shares. */
export type SeparateSources = ReadonlyMap<number, ReadonlyMap<number, SharedResult>>

/** Finds the operations that read separate rows. */
export function findSeparateSources (
  plan: Plan,
  results: SharedResults,
  options: Options
): SeparateSources {
  const found = new Map<number, Map<number, SharedResult>>()
  for (const [source, uses] of plan.referenceUses) {
    if (!returnsSeparateRows(plan.operations[source] as PlanNode, plan, options)) continue
    const [result] = results.get(source) as readonly [SharedResult, ...SharedResult[]]
    for (const { reader } of uses) {
      const sources = found.get(reader) ?? new Map<number, SharedResult>()
      found.set(reader, sources.set(source, result))
    }
  }
  return found
}
