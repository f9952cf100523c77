/**
 * `set`: JSON → new values. A value is plain JSON or a modifier, an object with exactly one key
 * that begins with `$`, which computes it.
 */
import { maxColumns } from '../../schemas/operation.ts'
import { modifiers, type Modifier, type ModifierName } from '../../schemas/modifier.ts'
import { isObject, type Json } from '../json/parse.ts'
import { checkShape } from './check-shape.ts'
import { planDocument, planObject, planScalar, specialMember } from './document.ts'
import { columnFault, readPath } from './name.ts'
import type { Assignment, PlanContext, Path, Single, StoredJson } from './nodes.ts'

/**
 * New values of an update: `columns` take theirs from one document. Undefined when a fault was
 * found.
 */
export function planSet (set: Json, findings: PlanContext): {
  columns: readonly string[],
  set: StoredJson,
  computed: readonly Assignment[]
} | undefined {
  const path = ['set']
  const entries = readSet(set, path, findings)
  if (entries === undefined) return undefined
  const plain: Array<{ readonly key: string, readonly value: Json, readonly path: Path }> = []
  const computed: Assignment[] = []
  for (const [column, value] of entries) {
    const modifier = specialMember(value)
    const at = [...path, column]
    if (modifier === undefined) plain.push({ key: column, value, path: at })
    // A member that is null becomes NULL, which the JSON null is not.
    else if (modifier[0] === '$value' && modifier[1] !== null) {
      plain.push({ key: column, value: modifier[1], path: [...at, '$value'] })
    } else computed.push(...planModifier(column, modifier, { path: at, findings, conflict: false }))
  }
  return { columns: plain.map(({ key }) => key), set: planObject(plain, findings), computed }
}

/**
 * New values of a row that is there already; a plain one that is not null is as good as `$value`.
 * Undefined when a fault was found.
 */
export function planConflictSet (
  set: Json,
  path: Path,
  findings: PlanContext
): readonly Assignment[] | undefined {
  return readSet(set, path, findings)?.flatMap(([column, value]): readonly Assignment[] => {
    const modifier = specialMember(value)
    const at = [...path, column]
    if (modifier === undefined) {
      const operand: Single = value === null ? { kind: 'null' } : planDocument(value, at, findings)
      return [{ column, modifier: '$value', operand }]
    }
    return planModifier(column, modifier, { path: at, findings, conflict: true })
  })
}

function readSet (
  set: Json,
  path: Path,
  findings: PlanContext
): ReadonlyArray<readonly [string, Json]> | undefined {
  if (!isObject(set)) {
    return findings.fault('member_invalid', path, 'set must be an object of column → new value.')
  }
  const entries = Object.entries(set)
  if (entries.length === 0) {
    return findings.fault('set_empty', path, 'set must name at least one column.')
  }
  if (entries.length > maxColumns) {
    return findings.fault('member_invalid', path, `At most ${maxColumns} columns can be named.`)
  }
  for (const [column] of entries) {
    const fault = columnFault(column)
    if (fault !== undefined) findings.fault('member_invalid', [...path, column], fault)
  }
  return entries
}

interface Place {
  readonly path: Path
  readonly findings: PlanContext
  readonly conflict: boolean
}

/** No assignment when a fault was found. */
function planModifier (
  column: string,
  [key, operand]: readonly [string, Json],
  place: Place
): readonly Assignment[] {
  const path = [...place.path, key]
  const modifier: Modifier | undefined = Object.hasOwn(modifiers, key)
    ? modifiers[key as ModifierName]
    : undefined
  if (modifier === undefined || (modifier.conflict === true && !place.conflict)) {
    place.findings.fault(
      'member_invalid',
      path,
      modifier === undefined
        ? `There is no modifier "${key}"; {"$value": …} writes an object as it is.`
        : `${key} has a meaning in on_conflict alone.`
    )
    return []
  }
  if (!checkShape(modifier.operand, operand, path, place.findings)) return []
  return [{
    column,
    modifier: key as ModifierName,
    operand: planOperand(modifier, operand, path, place.findings)
  }]
}

function planOperand (
  { reads, conflict = false }: Modifier,
  operand: Json,
  path: Path,
  findings: PlanContext
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
      return planDocument(operand, path, findings)
    default:
      return planScalar(operand, path, findings)
  }
}
