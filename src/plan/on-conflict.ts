/**
 * Plans `on_conflict`: what an insert does with a row that exists already.
 */
import type { Static } from '@sinclair/typebox'
import { OnConflict } from '../../schemas/operation.ts'
import { isObject, type Json } from '../json/parse.ts'
import { checkSchema } from './check/check-schema.ts'
import type { PlanContext } from './context.ts'
import { planFilter } from './filter.ts'
import { toPath } from './name.ts'
import type { Assignment, ConflictNode, Predicate, RowGroup } from './nodes.ts'
import { planSet } from './set.ts'

/** The columns that each run of rows names; undefined when the rows are invalid. */
type RunColumns = ReadonlyArray<Pick<RowGroup, 'columns'>> | undefined

const path = ['on_conflict']

/** Plans `on_conflict`; returns undefined after an issue of its shape. */
export function planConflict (
  value: Json,
  runs: RunColumns,
  context: PlanContext
): ConflictNode | undefined {
  if (!checkSchema(OnConflict, value, { context, path })) {
    // The schema does not check the values of `set`, so their issues are found here.
    const set = isObject(value) ? value['set'] : undefined
    if (isObject(set) && Object.keys(set).length > 0) {
      planSet(set, { context, path: [...path, 'set'], conflict: true })
    }
    return undefined
  }
  const conflict = value as unknown as Static<typeof OnConflict>
  checkTarget(conflict, context)
  const { columns = [], constraint, index_where: indexWhere } = conflict
  for (const [i, column] of columns.entries()) {
    context.nameStored(column, [...path, 'columns', i])
  }
  const update = planUpdate(conflict, runs, context)
  const where = planFilter(indexWhere, { context, path: [...path, 'index_where'] })
  return { target: constraint === undefined ? { columns, where } : { constraint }, update }
}

function checkTarget (
  { columns, constraint, index_where: indexWhere }: Static<typeof OnConflict>,
  context: PlanContext
): void {
  if ((columns === undefined) === (constraint === undefined)) {
    context.addIssue(
      'member_invalid',
      path,
      '"on_conflict" must have exactly one of "columns" and "constraint".'
    )
  }
  if (columns === undefined && indexWhere !== undefined) {
    context.addIssue(
      'member_invalid',
      [...path, 'index_where'],
      '"index_where" requires "columns".'
    )
  }
}

function planUpdate (
  { do: action, columns: key, set, where }: Static<typeof OnConflict>,
  runs: RunColumns,
  context: PlanContext
): ConflictNode['update'] {
  if (action === 'nothing') {
    for (const [name, member] of Object.entries({ set, where })) {
      if (member !== undefined) {
        context.addIssue('member_invalid', [...path, name], `"${name}" requires "do": "update".`)
      }
    }
    return undefined
  }
  return {
    set: set === undefined
      ? assignInserted(key ?? [], runs, context)
      : planSet(set as Json, { context, path: [...path, 'set'], conflict: true }) ?? [],
    isDefault: set === undefined,
    where: planConditions(where, context)
  }
}

/**
 * Without `set`, each inserted column is set to the value that was to be inserted, except those of
 * the key, which is equal.
 */
function assignInserted (
  key: readonly string[],
  runs: RunColumns,
  context: PlanContext
): readonly Assignment[] {
  const columns = runs?.[0]?.columns ?? []
  const different = new Set(runs?.map(run => JSON.stringify(run.columns))).size > 1
  if (runs !== undefined && (different || columns.length === 0)) {
    // A default would overwrite a column that the row does not name.
    context.addIssue(
      'member_invalid',
      [...path, 'set'],
      '"set" is required when rows name different columns, or none.'
    )
  }
  return withoutKey(columns, key, column => column).map(column => ({
    column,
    modifier: '$excluded',
    operand: { kind: 'column', path: toPath(column), of: 'excluded' }
  }))
}

/**
 * Removes the columns of the key. If no other is inserted, they stay: PostgreSQL returns an
 * existing row only if it is updated.
 */
export function withoutKey<Item> (
  items: readonly Item[],
  key: readonly string[],
  nameOf: (item: Item) => string
): readonly Item[] {
  const others = items.filter(item => !key.includes(nameOf(item)))
  return others.length === 0 ? items : others
}

function planConditions (where: object | undefined, context: PlanContext): readonly Predicate[] {
  const place = { context, path: [...path, 'where'] }
  if (where !== undefined && Object.keys(where).length === 0) {
    context.addIssue(
      'where_empty',
      place.path,
      '"where" must not be empty; to update every existing row, remove it.'
    )
  }
  return planFilter(where, place)
}
