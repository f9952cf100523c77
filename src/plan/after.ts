/**
 * Plans `after`: the values of `order` behind which the rows of a select begin.
 */
import type { Json } from '../json/parse.ts'
import type { PlanContext } from './context.ts'
import { planScalar } from './document.ts'
import type { PageStart, SelectNode } from './nodes.ts'

const path = ['after']

/** Plans values whose shape is valid. Returns undefined after an issue. */
export function planAfter (
  values: readonly Json[],
  { order, output = [], groupBy }: Pick<SelectNode, 'order' | 'output' | 'groupBy'>,
  context: PlanContext
): readonly PageStart[] | undefined {
  const planned = values.map((value, i): PageStart['value'] =>
    value === null ? { kind: 'null' } : planScalar(value, { context, path: [...path, i] })
  )
  if (order.length === 0) {
    return context.addIssue('member_missing', ['order'], '"after" requires "order".')
  }
  if (order.length !== values.length) {
    return context.addIssue(
      'member_invalid',
      path,
      `"after" must have one value for each element of "order", which has ${order.length}.`
    )
  }
  const starts = order.flatMap(({ by, direction = 'asc', nulls }, i): readonly PageStart[] => {
    const value = planned[i] as PageStart['value']
    if (typeof by === 'string') return []
    const nullsFirst = nulls === undefined ? direction === 'desc' : nulls === 'first'
    return [{ path: by, descending: direction === 'desc', nullsFirst, value }]
  })
  const aggregated = groupBy.length > 0 || output.some(({ aggregate }) => aggregate !== undefined)
  return aggregated || starts.length < order.length
    ? context.addIssue(
      'member_invalid',
      path,
      '"after" works only with an order of columns and paths, not with groups, aggregates or casts.'
    )
    : starts
}
