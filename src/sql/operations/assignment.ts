/**
 * Builds the assignments of `set`, and the clause of an insert that says what happens to a row that
 * exists.
 */
import {
  isJoining,
  modifiers,
  type JoiningName,
  type Modifier,
  type ModifierName
} from '../../../schemas/modifier.ts'
import {
  empty,
  fill,
  identifier,
  sql,
  type Fragment,
  join
} from '../../fragment/fragment.ts'
import { readGiven } from '../../plan/document.ts'
import { toPath } from '../../plan/name.ts'
import { withoutKey } from '../../plan/on-conflict.ts'
import { meetsAs } from '../../plan/set.ts'
import type { Assignment, InsertNode } from '../../plan/nodes.ts'
import { buildText, buildValue } from '../values/operand.ts'
import type { TypedAs } from '../values/typed-json.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildWhere } from './filter.ts'
import { markRow } from './output.ts'

/** Builds `"column" = expression`. */
export function buildAssignment (assignment: Assignment, values: TypedValues): Fragment {
  return sql`${identifier(assignment.column)} = ${buildNewValue(assignment, values)}`
}

/** Builds the new value of a column. */
export function buildNewValue (
  { column, modifier: name, operand }: Assignment,
  values: TypedValues
): Fragment {
  const as = readAs(name)
  const place = { path: toPath(column), stored: true, joins: readJoining(name) }
  const built = operand === undefined
    ? empty
    : as === 'text' ? buildText(operand, values) : buildValue(operand, { ...place, as, values })
  return applyModifier({ column, modifier: name }, built, values)
}

/** How the operand of a modifier is read; see TypedAs. */
export function readAs (name: ModifierName = '$value'): TypedAs | 'text' {
  const modifier: Modifier = modifiers[name]
  return modifier.reads === 'text' ? 'text' : meetsAs(modifier)
}

/** Builds the new value of a column from an operand that is an expression of the right type. */
export function applyModifier (
  { column, modifier: name }: Pick<Assignment, 'column' | 'modifier'>,
  operand: Fragment,
  values: TypedValues
): Fragment {
  const modifier: Modifier = modifiers[name]
  const path = toPath(column)
  return fill(modifier.sql, {
    column: sql`${values.row}.${identifier(column)}`,
    operand,
    empty: modifier.empty === undefined
      ? empty
      : values.buildJson(
        { kind: 'document', value: modifier.empty, references: [] },
        path,
        { stored: true, joins: readJoining(name) }
      ),
    refused: isJoining(name)
      ? values.needs.raiseIssue({ column, issue: { problem: name, path: [] } })
      : empty
  })
}

function readJoining (name: ModifierName): JoiningName | undefined {
  return isJoining(name) ? name : undefined
}

/** Builds ` on conflict …`, which is the same for every group of rows, or an empty fragment. */
export function buildConflictClause (
  { conflict }: Pick<InsertNode, 'conflict'>,
  values: TypedValues,
  { marked }: { readonly marked: boolean }
): Fragment {
  if (conflict === undefined) return empty
  const { target, update } = conflict
  const at = 'constraint' in target
    ? sql` on constraint ${identifier(target.constraint)}`
    : sql` (${join(target.columns.map(identifier))})${
      buildWhere(target.where, values, { constants: true })
    }`
  if (update === undefined) return sql` on conflict${at} do nothing`
  const set = update.isDefault && 'constraint' in target
    ? withoutKey(update.set, values.keyOf(target.constraint), ({ column }) => column)
    : update.set
  const assignments = set.map(value => {
    const text = values.plain ? plainText(value, values) : undefined
    return text === undefined
      ? buildAssignment(value, values)
      : sql`${identifier(value.column)} = ${text}`
  })
  const also = marked ? [markRow(false)] : []
  return sql` on conflict${at} do update set ${join(assignments)}${
    buildWhere(update.where, values, { also })
  }`
}

/**
 * Builds a plain value of `set` of `on_conflict` as text, which PostgreSQL reads in the type of its
 * column: Citus takes no function there that is not immutable, and those of JSON are not.
 * Undefined: another assignment, or a column of which the service does not know the type.
 */
function plainText (
  { column, modifier, operand }: Assignment,
  values: TypedValues
): Fragment | undefined {
  if (modifier !== '$value' || operand?.kind !== 'document' || operand.value === null) {
    return undefined
  }
  const given = readGiven(operand)
  return given && values.writeText(given, column)
}
