/**
 * Where Citus runs a statement: on a worker as a whole, or on the coordinator.
 */
import type { OperatorName } from '../../../schemas/operator.ts'
import { empty, type Fragment } from '../../fragment/fragment.ts'
import type { PlanNode, Predicate, ReferenceUse, Requirements } from '../../plan/nodes.ts'
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
      return node.join === undefined && !mayContradict(node.where)
    default:
      return false
  }
}

/** Conditions by which Citus selects shards, also inside of `not`. */
const SELECTING: ReadonlySet<OperatorName> = new Set(['eq', 'neq', 'in', 'nin'])

/**
 * Whether conditions may contradict each other in the distribution column, which is not known here:
 * they compare a column twice. Citus then finds no shard, and fails to run a change together with
 * its result ("could not find valid entry for shard 0"). On the coordinator it changes no rows.
 */
function mayContradict (where: readonly Predicate[]): boolean {
  const compared = new Set<string>()
  return selectingColumns(where, new Map()).some(column => {
    const twice = compared.has(column)
    compared.add(column)
    return twice
  })
}

/**
 * The columns of conditions that select shards. Those of another table have the name of the column
 * that they equal, which `names` has.
 */
function selectingColumns (
  predicates: readonly Predicate[],
  names: ReadonlyMap<string, string>
): readonly string[] {
  const nameOf = (column: string): string => names.get(column) ?? column
  return predicates.flatMap((predicate): readonly string[] => {
    switch (predicate.kind) {
      case 'condition':
        return SELECTING.has(predicate.operator) ? [nameOf(predicate.column.column)] : []
      case 'exists': {
        const { on, where } = predicate
        return selectingColumns(where, new Map(on.map(([inner, outer]) => [inner, nameOf(outer)])))
      }
      case 'not':
        return selectingColumns([predicate.of], names)
      default:
        return selectingColumns(predicate.of, names)
    }
  })
}

export function buildFence (node: PlanNode, context: Placement): Fragment {
  return context.distributed && !isPushedDown(node, context) ? fence : empty
}
