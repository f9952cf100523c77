/**
 * Plans `from`: a query, or rows of a parameter.
 */
import type { TSchema } from '@sinclair/typebox'
import { has, isObject, type Json } from '../json/parse.ts'
import { checkShape } from './check-shape.ts'
import { readMember, type OperationSource } from './members.ts'
import { planRowsSource, type RowsMembers } from './parameter-source.ts'
import { planSource, type PlannedSource, type SourceMembers } from './source.ts'

/**
 * Plans the member `from`. Returns undefined after an issue of its shape. `parameterSchema`: the
 * shape of rows of a parameter, which only named batches have.
 */
export function planFrom (
  source: OperationSource,
  parameterSchema: TSchema
): PlannedSource | undefined {
  const { operation, context } = source
  const place = { context, path: ['from'] }
  const from = operation['from'] as Json
  if (context.parameters === undefined || !isObject(from) || !has(from, 'param')) {
    const members = readMember(source, 'from') as SourceMembers | undefined
    return members && planSource(members, place)
  }
  return checkShape(parameterSchema, from, place)
    ? planRowsSource(from as RowsMembers, place)
    : undefined
}
