/**
 * Plans `set`: JSON → new values. A value is plain JSON, or a modifier: an object with exactly one
 * key, which begins with `$`.
 */
import { maxColumns } from '../../schemas/operation.ts'
import { modifiers, type Modifier, type ModifierName } from '../../schemas/modifier.ts'
import { isObject, type Json } from '../json/parse.ts'
import { checkShape } from './check-shape.ts'
import type { Place, PlanContext } from './context.ts'
import { describeUnknown } from './describe.ts'
import { planDocument, planScalar, readDollarMember } from './document.ts'
import { findColumnProblem, readPath } from './name.ts'
import type { Assignment, Single, UpdateNode } from './nodes.ts'
import { planObject, type DocumentMember } from './stored-values.ts'

/**
 * Plans `set` of an update. `columns` take their values from one document, `computed` are the other
 * columns. Returns undefined after an issue.
 */
export function planSet (
  set: Json,
  context: PlanContext
): Pick<UpdateNode, 'columns' | 'set' | 'computed'> | undefined {
  const path = ['set']
  const entries = readEntries(set, { context, path })
  if (entries === undefined) return undefined
  const plain: DocumentMember[] = []
  const computed: Assignment[] = []
  for (const [column, value] of entries) {
    const modifier = readDollarMember(value)
    const place = { context, path: [...path, column], conflict: false }
    if (modifier === undefined) plain.push({ column, value, path: place.path })
    // A member of the document that is null becomes NULL; the JSON null is an assignment.
    else if (modifier[0] === '$value' && modifier[1] !== null) {
      plain.push({ column, value: modifier[1], path: [...place.path, '$value'] })
    } else computed.push(...planModifier(column, modifier, place))
  }
  return { columns: plain.map(({ column }) => column), set: planObject(plain, context), computed }
}

/**
 * Plans `set` of `on_conflict`, where a plain value that is not null is the same as `$value`.
 * Returns undefined after an issue.
 */
export function planConflictSet (
  set: Json,
  { context, path }: Place
): readonly Assignment[] | undefined {
  return readEntries(set, { context, path })?.flatMap(
    ([column, value]): readonly Assignment[] => {
      const modifier = readDollarMember(value)
      const place = { context, path: [...path, column], conflict: true }
      if (modifier !== undefined) return planModifier(column, modifier, place)
      const operand: Single = value === null ? { kind: 'null' } : planDocument(value, place)
      return [{ column, modifier: '$value', operand }]
    }
  )
}

function readEntries (
  set: Json,
  { context, path }: Place
): ReadonlyArray<readonly [string, Json]> | undefined {
  if (!isObject(set)) {
    return context.addIssue(
      'member_invalid',
      path,
      '"set" must be an object, for example {"status": "paid"}.'
    )
  }
  const entries = Object.entries(set)
  if (entries.length === 0) {
    return context.addIssue('set_empty', path, '"set" must name at least one column.')
  }
  if (entries.length > maxColumns) {
    return context.addIssue(
      'member_invalid',
      path,
      `"set" names ${entries.length} columns; at most ${maxColumns} are allowed.`
    )
  }
  for (const [column] of entries) {
    const problem = findColumnProblem(column)
    if (problem !== undefined) context.addIssue('member_invalid', [...path, column], problem)
  }
  return entries
}

interface ModifierPlace extends Place {
  /** Whether the place is inside `on_conflict`. */
  readonly conflict: boolean
}

/** Returns no assignment after an issue. */
function planModifier (
  column: string,
  [name, operand]: readonly [string, Json],
  { context, path, conflict }: ModifierPlace
): readonly Assignment[] {
  const place = { context, path: [...path, name] }
  const modifier: Modifier | undefined = Object.hasOwn(modifiers, name)
    ? modifiers[name as ModifierName]
    : undefined
  if (modifier === undefined || (modifier.conflict === true && !conflict)) {
    context.addIssue(
      'member_invalid',
      place.path,
      modifier === undefined
        ? describeUnknownModifier(name)
        : `"${name}" is only allowed in "on_conflict".`
    )
    return []
  }
  if (!checkShape(modifier.operand, operand, place)) return []
  const planned = planOperand(modifier, operand, place)
  return [{ column, modifier: name as ModifierName, operand: planned }]
}

function describeUnknownModifier (name: string): string {
  return `${describeUnknown('modifier', name, Object.keys(modifiers))} ` +
    'To store the object itself, use {"$value": …}.'
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
        path: readPath(operand as string),
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
