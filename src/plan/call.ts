/**
 * Plans a call of a function.
 */
import { isObject, type Json } from '../json/parse.ts'
import type { Members } from './check/members.ts'
import type { PlanContext } from './context.ts'
import { documentOf, planDocument, planLimits, planScalar } from './document.ts'
import { planFilter } from './filter.ts'
import type { Argument, CallNode, OperationNode } from './nodes.ts'
import { planColumns, planOrder } from './output.ts'

export function planCall (
  { args = {}, where, columns, order, ...members }: Members<'call'>,
  common: Omit<OperationNode, 'output'>,
  context: PlanContext
): CallNode {
  const output = planColumns(columns, { context, path: ['columns'], table: undefined })
  return {
    kind: 'call',
    ...common,
    args: Object.entries(args).map(([name, value]) =>
      [name, planArgument(value as Json, name, context)]),
    where: planFilter(where, { context, path: ['where'] }),
    output,
    distinct: false,
    groupBy: [],
    having: [],
    after: undefined,
    order: planOrder(order, output, { context, path: ['order'], table: undefined }),
    ...planLimits(members, { context, path: [] }),
    lock: undefined
  }
}

/**
 * Plans one argument. Objects, arrays and references stay JSON, because only PostgreSQL knows the
 * type of the parameter.
 */
function planArgument (value: Json, name: string, context: PlanContext): Argument {
  const place = { context, path: ['args', name] }
  if (value === null) return { kind: 'null' }
  if (Array.isArray(value) || isObject(value)) return planDocument(value, place)
  const scalar = planScalar(value, place)
  if (scalar.kind === 'literal') return scalar
  return documentOf(scalar)
}
