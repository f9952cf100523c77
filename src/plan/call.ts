/**
 * Plans a call of a function.
 */
import { isObject, type Json } from '../json/parse.ts'
import type { Members } from './check/members.ts'
import { within, type PlanContext } from './context.ts'
import { documentOf, planDocument, planScalar } from './document.ts'
import type { Argument, CallNode, OperationNode } from './nodes.ts'
import { planColumns, planQuery } from './output.ts'

export function planCall (
  { args = {}, columns, ...members }: Members<'call'>,
  common: Omit<OperationNode, 'output'>,
  context: PlanContext
): CallNode {
  const place = { context, path: [], table: undefined }
  const output = planColumns(columns, within(place, 'columns'))
  return {
    kind: 'call',
    ...common,
    args: Object.entries(args).map(([name, value]) =>
      [name, planArgument(value as Json, name, context)]),
    output,
    ...planQuery(members, output, place)
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
