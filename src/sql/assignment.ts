/**
 * Computed values of `set` → SQL.
 */
import { modifiers, type Modifier } from '../../schemas/modifier.ts'
import type { Assignment, Single } from '../plan/nodes.ts'
import { empty, fill, identifier, parameter, sql, type Fragment } from './fragment.ts'
import { raiseText, type ValueFault } from './marker.ts'
import { difference, single, singleText, type Meeting } from './operand.ts'
import type { CteBuilder } from './cte-builder.ts'

/** `"column" = expression`. */
export function assignment (
  { column, modifier: name, operand }: Assignment,
  scope: CteBuilder
): Fragment {
  const modifier: Modifier = modifiers[name]
  const path = { column, keys: [], gives: 'column' } as const
  const value = fill(modifier.sql, {
    column: sql`t.${identifier(column)}`,
    operand: operand === undefined ? empty : read(operand, modifier, { scope, path, stored: true }),
    empty: modifier.empty === undefined
      ? empty
      : scope.typed(sql`${parameter(modifier.empty)}::json`, path),
    refused: name === '$append' || name === '$merge' ? refusal(name, column) : empty
  })
  return sql`${identifier(column)} = ${value}`
}

/** Fails when it is evaluated. */
function refusal (problem: ValueFault['problem'], column: string): Fragment {
  const fault: ValueFault = { problem, path: ['', column] }
  return raiseText('value', parameter(JSON.stringify(fault)))
}

function read (operand: Single, { reads }: Modifier, meeting: Meeting): Fragment {
  switch (reads) {
    case 'text':
      return singleText(operand, meeting.scope)
    case 'difference':
      return difference(operand, meeting)
    default:
      return single(operand, meeting)
  }
}
