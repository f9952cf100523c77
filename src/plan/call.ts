/**
 * Plans a call of a function.
 */
import type { Ordering } from '../../schemas/operation.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { PlanContext } from './context.ts'
import { planDocument, planScalar, shapeOfReference } from './document.ts'
import { planFilter } from './filter.ts'
import { readMember, type OperationSource } from './check/members.ts'
import type { Argument, CallNode, PlanNode } from './nodes.ts'
import { planColumns, planOrder, readColumns } from './output.ts'
import { units } from './work.ts'

/** Plans the members of a call. `common`: those that all operations have. */
export function planCall (
  source: OperationSource,
  common: Pick<PlanNode, 'index' | 'id' | 'table' | 'expect' | 'answersCount' | 'when'>
): CallNode {
  const { context } = source
  const args = readMember(source, 'args') as JsonObject | undefined
  const where = readMember(source, 'where') as JsonObject | undefined
  const output = planColumns(readColumns(source, 'columns'), { context, path: ['columns'] })
  return {
    kind: 'call',
    ...common,
    args: Object.entries(args ?? {}).map(([name, value]) => {
      context.spend(units.part)
      return [name, planArgument(value, name, context)] as const
    }),
    where: where === undefined ? [] : planFilter(where, { context, path: ['where'] }),
    output,
    distinct: false,
    groupBy: [],
    having: [],
    after: undefined,
    order: planOrder(
      readMember(source, 'order') as ReadonlyArray<Record<string, Ordering>> | undefined,
      output,
      context
    ),
    limit: readMember(source, 'limit') as number | undefined,
    offset: readMember(source, 'offset') as number | undefined,
    lock: undefined
  }
}

/** JSON of the request stays JSON until PostgreSQL knows the type of the parameter. */
function planArgument (value: Json, name: string, context: PlanContext): Argument {
  const place = { context, path: ['args', name] }
  if (value === null) return { kind: 'null' }
  if (Array.isArray(value) || isObject(value)) return planDocument(value, place)
  const scalar = planScalar(value, place)
  if (scalar.kind === 'literal') return scalar
  return {
    kind: 'document',
    pieces: ['', ''],
    references: [scalar],
    shape: shapeOfReference(scalar)
  }
}
