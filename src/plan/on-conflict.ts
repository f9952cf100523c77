/**
 * `on_conflict`: what an insert does with a row that is there already.
 */
import type { Static } from '@sinclair/typebox'
import { OnConflict } from '../../schemas/operation.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { checkShape } from './check-shape.ts'
import { planFilter } from './filter.ts'
import type { Assignment, ConflictNode, PlanOptions, Predicate, RowGroup } from './nodes.ts'
import { planConflictSet } from './set.ts'

/** The columns that every run of rows names; undefined when the rows are faulty. */
type Shapes = ReadonlyArray<Pick<RowGroup, 'columns'>> | undefined

/** Plans `on_conflict`; undefined when a fault was found. */
export function planConflict (
  value: Json,
  runs: Shapes,
  options: PlanOptions
): ConflictNode | undefined {
  const { findings } = options
  const path = ['on_conflict']
  if (!checkShape(OnConflict, value, path, findings)) {
    // Only the values of `set` have faults that their shape does not show.
    const set = isObject(value) ? value['set'] : undefined
    if (isObject(set) && Object.keys(set).length > 0) {
      planConflictSet(set, [...path, 'set'], findings)
    }
    return undefined
  }
  const conflict = value as unknown as Static<typeof OnConflict>
  const { columns, constraint } = conflict
  if ((columns === undefined) === (constraint === undefined)) {
    findings.fault(
      'member_invalid',
      path,
      'on_conflict takes exactly one of columns and constraint.'
    )
  }
  if (columns === undefined && conflict.index_where !== undefined) {
    findings.fault('member_invalid', [...path, 'index_where'], 'index_where belongs to columns.')
  }
  const update = planUpdate(conflict, runs, options)
  const where = conflict.index_where === undefined
    ? []
    : planFilter(conflict.index_where as unknown as JsonObject, [...path, 'index_where'], options)
  return {
    target: constraint === undefined ? { columns: columns ?? [], where } : { constraint },
    update
  }
}

function planUpdate (
  { do: action, set, where }: Static<typeof OnConflict>,
  runs: Shapes,
  options: PlanOptions
): ConflictNode['update'] {
  if (action === 'nothing') {
    for (const [name, member] of Object.entries({ set, where })) {
      if (member !== undefined) {
        options.findings.fault(
          'member_invalid',
          ['on_conflict', name],
          `${name} belongs to "do": "update".`
        )
      }
    }
    return undefined
  }
  return {
    set: planNewValues(set as Json | undefined, runs, options),
    where: planConditions(where as unknown as JsonObject | undefined, options)
  }
}

/** Without `set` every inserted column is set. */
function planNewValues (
  set: Json | undefined,
  runs: Shapes,
  { findings }: PlanOptions
): readonly Assignment[] {
  if (set !== undefined) return planConflictSet(set, ['on_conflict', 'set'], findings) ?? []
  const shapes = new Set(runs?.map(({ columns }) => JSON.stringify(columns)))
  const columns = runs?.[0]?.columns ?? []
  if (runs !== undefined && (shapes.size > 1 || columns.length === 0)) {
    findings.fault(
      'member_invalid',
      ['on_conflict', 'set'],
      'set is required where rows name different columns or none: a default would ' +
        'overwrite what a row never named.'
    )
  }
  return columns.map(column => ({
    column,
    modifier: '$excluded',
    operand: { kind: 'column', path: { column, keys: [], gives: 'column' }, of: 'excluded' }
  }))
}

function planConditions (
  where: JsonObject | undefined,
  options: PlanOptions
): readonly Predicate[] {
  if (where === undefined) return []
  const path = ['on_conflict', 'where']
  if (Object.keys(where).length === 0) {
    options.findings.fault(
      'where_empty',
      path,
      'where holds no condition; leave it out to update every row that is there.'
    )
  }
  return planFilter(where, path, options)
}
