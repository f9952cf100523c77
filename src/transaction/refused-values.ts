/**
 * Describes the values of a batch that the types of their columns refuse.
 */
import type { Issue } from '../../schemas/error.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import { shorten } from '../plan/check/issues.ts'
import { assignmentsOf, type ValuePlace } from '../plan/find-value.ts'
import type { BulkUpdateNode, PlanNode, RowField } from '../plan/nodes.ts'
import type { Plan } from '../plan/plan.ts'
import { sourceOf } from '../plan/source.ts'
import type { RefusedValue, SlotPlace } from '../sql/statement/slot.ts'
import { describeIssue } from '../values/describe.ts'
import { modifierHelp, placeName } from './describe-error.ts'

/** Maximum number of values that a response lists. */
const MAX_LISTED = 100

/** Returns `value_invalid` with all values that are refused. */
export function describeRefusedValues (
  refused: readonly RefusedValue[],
  plan: Plan
): Failure {
  const listed = refused.slice(0, MAX_LISTED)
    .map(value => toIssue(value, plan.operations[value.index] as PlanNode))
  const [first] = listed as [Issue, ...Issue[]]
  const { op, index, path } = first
  const more = refused.length - 1
  const others = more === 1 ? '1 more value does' : `${more} more values do`
  const also = more === 0 ? '' : ` ${others} not fit, see "errors".`
  const details = { op, index, path, errors: listed, retryable: false }
  return failure('value_invalid', `${first.message}${also}`, details)
}

function toIssue (
  { issue, index, ...place }: RefusedValue,
  node: PlanNode
): Issue {
  const steps = issue.problem === 'member' ? issue.path.slice(0, -1) : issue.path
  const help = modifierHelp(node, place)
  const message = `${placeName(place, node, steps)}: ${describeIssue(issue, help)}`
  return {
    op: node.id,
    index,
    code: 'value_invalid',
    path: [...pathOf(node, place), ...issue.path],
    message: shorten(message)
  }
}

/** The path of a value in its operation. */
export function pathOf (
  node: PlanNode,
  { column, row, isCompared = false, at }: SlotPlace
): Issue['path'] {
  if (at !== undefined) return [...at]
  if (row !== undefined && node.kind === 'insert') return ['values', row, column]
  if (node.kind === 'bulk_update') return pathInRows(node, { column, row, isCompared })
  if (node.kind === 'call') return ['args', column]
  const computed = assignmentsOf(node).find(assignment => assignment.column === column)
  if (computed === undefined && sourceOf(node)?.kind === 'rows') return ['from', 'param']
  const modifier = modifierIn(computed)
  if (node.kind !== 'insert') return ['set', column, ...modifier]
  const isQuery = node.query?.set.includes(computed as never) === true
  return [...isQuery ? ['columns'] : ['on_conflict', 'set'], column, ...modifier]
}

/**
 * The path of a value in the rows of an update by key. Without `row`, it is computed once for the
 * rows of a group.
 */
function pathInRows (
  { groups }: BulkUpdateNode,
  { column, row, isCompared }: SlotPlace
): Issue['path'] {
  const isOfColumn = (value: { readonly column: string }): boolean => value.column === column
  const [group, ...others] = groups.filter(({ positions, computed }) =>
    row === undefined
      ? computed.some(isOfColumn)
      : positions.length === 0 || positions.includes(row))
  if (group === undefined || others.length > 0) return ['values']
  const fields = group.fields.filter(isOfColumn)
  const { modifier, name = column }: Partial<RowField> =
    fields.find(({ modifier }) => (modifier === undefined) === isCompared) ?? fields[0] ??
    group.computed.find(isOfColumn) ?? {}
  return ['values', row ?? group.positions[0] as number, name, ...modifierIn({ modifier })]
}

/** The step of a modifier in a path; a plain value has none. */
function modifierIn (
  { modifier = '$value' }: Partial<Pick<RowField, 'modifier'>> = {}
): readonly string[] {
  return modifier === '$value' ? [] : [modifier]
}

/** The path of a value that is stored; undefined: it is not known. */
export function pathOfStored (node: PlanNode, place: ValuePlace): Issue['path'] | undefined {
  const isKnown = sourceOf(node)?.kind !== 'rows' &&
    (place.row !== undefined || !storesRows(node))
  return isKnown ? pathOf(node, place) : undefined
}

/** Whether an operation stores `values`. */
function storesRows (node: PlanNode): boolean {
  return node.kind === 'bulk_update' || (node.kind === 'insert' && node.query === undefined)
}
