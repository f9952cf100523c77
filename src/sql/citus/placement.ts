/**
 * Where Citus runs a statement: on a worker as a whole, or on the coordinator.
 */
import { empty, type Fragment } from '../../fragment/fragment.ts'
import type { PlanNode, ReferenceUse, Requirements } from '../../plan/nodes.ts'
import type { References } from '../values/references.ts'
import type { StatementNeeds } from '../values/statement-needs.ts'
import { fence } from './citus.ts'

/** What decides where Citus runs a statement. */
export interface Placement {
  /** The result goes through a setting. */
  readonly keep?: boolean
  /** What later operations read from this one. */
  readonly uses: readonly ReferenceUse[]
  /** Later operations depend on the number of its rows. */
  readonly counted: boolean
  readonly requirements: Requirements | undefined
  readonly checkValues: boolean
  readonly distributed: boolean
  readonly needs: StatementNeeds
  readonly references: References
}

/**
 * Whether Citus may run the statement on a worker as a whole: it neither reads nor writes settings
 * of operations, and a worker can check its types. An insert would not run there as a whole. The
 * operation must have been built.
 */
export function isPushedDown (
  node: PlanNode,
  { uses, counted, requirements, keep = false, checkValues, needs, references }: Placement
): boolean {
  return isForOneTable(node) && node.when.length === 0 && uses.length === 0 && !counted &&
    requirements === undefined && !keep && !checkValues && needs.rows === 0 &&
    needs.checksByName && !references.readsSettings
}

function isForOneTable (node: PlanNode): boolean {
  switch (node.kind) {
    case 'select':
      return node.nested === undefined
    case 'update':
    case 'delete':
      return node.join === undefined
    default:
      return false
  }
}

export function buildFence (node: PlanNode, context: Placement): Fragment {
  return context.distributed && !isPushedDown(node, context) ? fence : empty
}
