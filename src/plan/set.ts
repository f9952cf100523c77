/**
 * Plans `set`, and `columns` of an insert: JSON → new values. A value is plain JSON, or a
 * modifier: an object with exactly one key, which begins with `$`.
 */
import { modifiers, type Modifier, type ModifierName } from '../../schemas/modifier.ts'
import { SourceOperand } from '../../schemas/operand.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { isObject, type Json } from '../json/parse.ts'
import { checkSchema } from './check/check-schema.ts'
import { describeUnknown } from './check/describe.ts'
import type { Place } from './context.ts'
import { planDocument, planScalar, readDollarMember } from './document.ts'
import { planSourceColumn } from './filter.ts'
import { columnsOf, findColumnProblem, meetColumn, type ReadColumn } from './name.ts'
import type { Assignment, Meeting, Single } from './nodes.ts'

/**
 * Plans new values, of which a plain one that is not null is the same as `$value`. `planWord`: for
 * the others. Returns undefined for a member that is missing, and after an issue.
 */
export function planSet (
  values: Json | undefined,
  place: ModifierPlace,
  planWord = planModifier
): readonly Assignment[] | undefined {
  if (values === undefined) return undefined
  return readEntries(values, place)?.flatMap(([column, value]) => {
    const inner = { ...place, path: [...place.path, column] }
    const word = readDollarMember(value)
    if (word !== undefined) place.context.count(1, [...inner.path, word[0]])
    return planNewValue([column, value], inner, planWord)
  })
}

/** Plans the new value of a column. Returns no assignment after an issue. */
export function planNewValue (
  [column, value]: readonly [string, Json],
  place: ModifierPlace,
  planWord = planModifier
): readonly Assignment[] {
  const word = readDollarMember(value)
  if (word !== undefined) return planWord(column, word, place)
  const operand: Single = value === null ? { kind: 'null' } : planDocument(value, place)
  return [{ column, modifier: '$value', operand }]
}

const insertWords = ['$col', '$first', '$value']

/**
 * Plans an object with one key that begins with `$`, in `columns` of an insert whose rows come from
 * a query. `$col` names a column of the query.
 */
export function planInsertWord (
  column: string,
  [name, operand]: readonly [string, Json],
  place: ModifierPlace
): readonly Assignment[] {
  const { context } = place
  const path = [...place.path, name]
  if (name === '$col') return planSourceValue(column, operand, { ...place, path })
  if (insertWords.includes(name)) return planModifier(column, [name, operand], place)
  const message = `${describeUnknown('member', name, insertWords)} ${STORE_OBJECT}`
  context.addIssue('member_invalid', path, message)
  return []
}

/** A value of `from` is stored as it is, so a path into json stays json. */
function planSourceValue (
  column: string,
  operand: Json,
  place: ModifierPlace
): readonly Assignment[] {
  if (!checkSchema(modifiers.$from.operand, operand, place)) return []
  const planned = planSourceColumn(operand as string, place, {
    read: place.readSource,
    meets: meetColumn(column)
  })
  const { path } = planned
  const stored = path.keys.length > 0 ? path : { ...path, resultType: 'column' as const }
  return [{ column, modifier: '$from', operand: { ...planned, path: stored } }]
}

const STORE_OBJECT = 'To store the object itself, use {"$value": …}.'

function readEntries (
  set: Json,
  { context, path }: Place
): ReadonlyArray<readonly [string, Json]> | undefined {
  const name = `"${path.at(-1)}"`
  if (!isObject(set)) {
    return context.addIssue(
      'member_invalid',
      path,
      `${name} must be an object, for example {"status": "paid"}.`
    )
  }
  const entries = Object.entries(set)
  context.count(entries.length, path)
  if (entries.length === 0) {
    return context.addIssue('set_empty', path, `${name} must name at least one column.`)
  }
  if (entries.length > maxColumns) {
    return context.addIssue(
      'member_invalid',
      path,
      `${name} names ${entries.length} columns; at most ${maxColumns} are allowed.`
    )
  }
  for (const [column] of entries) {
    context.nameStored(column, [...path, column])
    const problem = findColumnProblem(column)
    if (problem !== undefined) context.addIssue('member_invalid', [...path, column], problem)
  }
  return entries
}

interface ModifierPlace extends Place {
  /** Whether the place is inside `on_conflict`. */
  readonly conflict?: boolean
  /** Reads a column of `from`; undefined if the operation has no `from`. */
  readonly readSource?: ReadColumn | undefined
}

/** Plans a computed value of a column. Returns no assignment after an issue. */
function planModifier (
  column: string,
  [name, operand]: readonly [string, Json],
  { context, path, conflict = false, readSource }: ModifierPlace
): readonly Assignment[] {
  const place = { context, path: [...path, name], readSource }
  const modifier = findModifier(name, { context, path, conflict })
  if (modifier === undefined) return []
  if (modifier.joined === true) return planSourceValue(column, operand, place)
  const joined = namesSource(operand, modifier, readSource)
  if (!checkSchema(joined ? SourceOperand : modifier.operand, operand, place)) return []
  const planned = joined
    ? planSourceColumn(
      (operand as { readonly $from: string }).$from,
      { context, path: [...place.path, '$from'] },
      {
        read: readSource,
        meets: meetColumn(column, meetsAs(modifier))
      }
    )
    : planOperand(modifier, operand, place)
  return [{ column, modifier: name as ModifierName, operand: planned }]
}

/** How the operand meets the column. */
export function meetsAs ({ reads }: Modifier): Meeting['as'] {
  return reads === 'difference' || reads === 'factor' ? reads : 'value'
}

/** Returns undefined after an issue. */
function findModifier (
  name: string,
  { context, path, conflict = false }: ModifierPlace
): Modifier | undefined {
  const modifier: Modifier | undefined = Object.hasOwn(modifiers, name)
    ? modifiers[name as ModifierName]
    : undefined
  if (modifier === undefined || (modifier.conflict === true && !conflict)) {
    return context.addIssue(
      'member_invalid',
      [...path, name],
      modifier === undefined
        ? `${describeUnknown('modifier', name, Object.keys(modifiers))} ${STORE_OBJECT}`
        : `"${name}" is only allowed in "on_conflict".`
    )
  }
  return modifier
}

/**
 * Whether the operand of a modifier such as `$inc` is `{"$from": column}`. Without `from`, such an
 * object in `$merge` is data.
 */
function namesSource (
  operand: Json,
  { takesSource = false, reads }: Modifier,
  readSource: ReadColumn | undefined
): boolean {
  const isData = reads === 'json' && readSource === undefined
  return takesSource && !isData && readDollarMember(operand)?.[0] === '$from'
}

function planOperand (
  { reads, conflict = false }: Modifier,
  operand: Json,
  place: Place
): Single | undefined {
  switch (reads) {
    case 'nothing':
      return undefined
    case 'column':
      return {
        kind: 'column',
        path: columnsOf(place.context.table)(operand as string, place),
        of: conflict ? 'excluded' : 'row'
      }
    case 'json':
      return planDocument(operand, place)
    case 'first':
      return place.context.resolveFirst(operand as readonly string[], place.path)
    default:
      return planScalar(operand, place)
  }
}
