/**
 * Builds the clause of an insert that says what happens to a row that exists.
 */
import { empty, identifier, join, parameter, sql, type Fragment } from '../../fragment/fragment.ts'
import type { Assignment, InsertNode } from '../../plan/nodes.ts'
import { notOnCitus } from '../citus/citus.ts'
import type { RowColumns } from '../values/column.ts'
import type { ChangeBuilder } from '../values/value-builder.ts'
import { buildAssignment } from './assignment.ts'
import { buildWhere } from './filter.ts'
import { markRow } from './inserted.ts'

/** Builds ` on conflict …`, which is the same for every group of rows, or an empty fragment. */
export function buildConflictClause (
  { conflict, ...place }: Pick<InsertNode, 'conflict' | 'id' | 'index'>,
  values: ChangeBuilder,
  { marked }: { readonly marked: boolean }
): Fragment {
  if (conflict === undefined) return empty
  const { target, update } = conflict
  const at = 'constraint' in target
    ? sql` on constraint ${identifier(target.constraint)}`
    : sql` (${join(target.columns.map(identifier), sql`, `)})${
      buildWhere(target.where, values, { constants: true })
    }`
  if (update === undefined) return sql` on conflict${at} do nothing`
  const assignments = update.set.map(value => {
    const text = values.distributed ? distributedText(value, values) : undefined
    if (text === null) throw notOnCitus(`${CONFLICT_VALUE}{"$excluded": "${value.column}"}.`, place)
    return text === undefined
      ? buildAssignment(value, values)
      : sql`${identifier(value.column)} = ${parameter(text)}`
  })
  const set = join(assignments, sql`, `)
  const also = marked ? [markRow(false)] : []
  return sql` on conflict${at} do update set ${set}${buildWhere(update.where, values, { also })}`
}

const CONFLICT_VALUE = 'Citus takes only single values in "set" of "on_conflict". Insert the ' +
  'value, and set the column to '

/**
 * A plain value of `set` of `on_conflict` as text, which PostgreSQL reads in the type of its
 * column: Citus takes no function there that is not immutable, and those of JSON are not.
 * Undefined: another assignment. Null: the value has no text that is right for every type.
 */
function distributedText (
  { column, modifier, operand }: Assignment,
  columns: RowColumns
): string | null | undefined {
  if (modifier !== '$value' || operand?.kind !== 'document') return undefined
  const { pieces: [json = ''], references } = operand
  if (references.length > 0) return null
  const kind = columns.kindOf(column)
  if (kind === 'json') return json
  if (/^[[{n]/.test(json)) return null
  if (!json.startsWith('"')) return kind === undefined ? json : null
  return kind === undefined ? JSON.parse(json) as string : null
}
