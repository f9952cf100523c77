/**
 * Computed values of `set` → SQL.
 */
import { modifiers, type Modifier } from '../../schemas/modifier.ts'
import type { Assignment, TableName } from '../plan/nodes.ts'
import { empty, fill, identifier, sql, type Fragment } from './fragment.ts'
import { single, singleText } from './operand.ts'

/** `"column" = expression`. */
export function assignment ({ column, modifier: name, operand }: Assignment, table: TableName): Fragment {
  const modifier: Modifier = modifiers[name]
  const meeting = { table, path: { column, keys: [], gives: 'column' } } as const
  const value = operand === undefined ? empty : modifier.reads === 'text' ? singleText(operand) : single(operand, meeting)
  return sql`${identifier(column)} = ${fill(modifier.sql, { column: sql`t.${identifier(column)}`, operand: value })}`
}
