/**
 * Builds assignments of computed values: `{"$inc": 1}` in `set`.
 */
import { modifiers, type Modifier } from '../../../schemas/modifier.ts'
import { empty, fill, identifier, parameter, sql, type Fragment } from '../../fragment/fragment.ts'
import { toPath } from '../../plan/name.ts'
import type { Assignment, JsonDocument, Single } from '../../plan/nodes.ts'
import { raiseText, type ValueFault } from '../statement/marker.ts'
import { buildDifference, buildText, buildValue, type OperandContext } from '../values/operand.ts'
import type { ValueBuilder } from '../values/value-builder.ts'

/** Builds `"column" = expression`. */
export function buildAssignment (assignment: Assignment, values: ValueBuilder): Fragment {
  return sql`${identifier(assignment.column)} = ${buildNewValue(assignment, values)}`
}

/** Builds the new value of a column. */
export function buildNewValue (
  { column, modifier: name, operand }: Assignment,
  values: ValueBuilder
): Fragment {
  const path = toPath(column)
  const built = operand === undefined
    ? empty
    : buildOperand(operand, modifiers[name], { values, path, stored: true })
  return applyModifier({ column, modifier: name }, built, values)
}

/** The same with an operand that is an expression of the right type. */
export function applyModifier (
  { column, modifier: name }: Pick<Assignment, 'column' | 'modifier'>,
  operand: Fragment,
  values: ValueBuilder
): Fragment {
  const modifier: Modifier = modifiers[name]
  const path = toPath(column)
  return fill(modifier.sql, {
    column: sql`${values.row}.${identifier(column)}`,
    operand,
    empty: modifier.empty === undefined
      ? empty
      : values.buildJson(emptyDocument(modifier.empty), path),
    refused: name === '$append' || name === '$merge' ? raiseFault(name, column) : empty
  })
}

function emptyDocument (text: string): JsonDocument {
  return { kind: 'document', pieces: [text], references: [], shape: 'scalar' }
}

/** An expression that fails when it is evaluated. */
function raiseFault (problem: ValueFault['problem'], column: string): Fragment {
  const fault: ValueFault = { problem, path: ['', column] }
  return raiseText('value', parameter(JSON.stringify(fault)))
}

function buildOperand (operand: Single, { reads }: Modifier, context: OperandContext): Fragment {
  switch (reads) {
    case 'text':
      return buildText(operand, context.values)
    case 'difference':
      return buildDifference(operand, context)
    default:
      return buildValue(operand, context)
  }
}
