/**
 * Computed values of `set` → SQL.
 */
import { modifiers, type Modifier } from '../../schemas/modifier.ts'
import type { Assignment } from '../plan/nodes.ts'
import { empty, fill, identifier, parameter, sql, type Fragment } from './fragment.ts'
import { single, singleText } from './operand.ts'
import type { Scope } from './scope.ts'

/** `"column" = expression`. */
export function assignment ({ column, modifier: name, operand }: Assignment, scope: Scope): Fragment {
  const modifier: Modifier = modifiers[name]
  const path = { column, keys: [], gives: 'column' } as const
  const value = operand === undefined ? empty : modifier.reads === 'text' ? singleText(operand, scope) : single(operand, { scope, path })
  const nothing = modifier.empty === undefined ? empty : scope.typed(sql`${parameter(modifier.empty)}::json`, path)
  return sql`${identifier(column)} = ${fill(modifier.sql, { column: sql`t.${identifier(column)}`, operand: value, empty: nothing })}`
}
