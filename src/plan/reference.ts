/**
 * Parses references in strings. It knows only the ids of earlier operations: whether a row or a
 * column exists is known when the batch runs.
 */
import { referenceAttempt } from '../../schemas/operand.ts'
import { maxInt4 } from '../../schemas/operation.ts'
import type { ParsedString } from './nodes.ts'

const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/
/**
 * What follows the id: nothing, `.row`, `.row.column`, `.*.column` or `.column`. A number after the
 * id is a row, never a column.
 */
const form =
  /^(?:|\.(?<row>0|[1-9][0-9]*)|\.(?:(?<rowOf>0|[1-9][0-9]*|\*)\.|(?!(?:[0-9]+|\*)$))(?<column>[^.]+))$/

// The messages do not quote the string: it may be a password.
const plainTextHint = 'To send plain text, start the string with $$.'
const unknownMessage =
  `The string looks like a reference, but names no earlier operation. ${plainTextHint}`
const malformedMessage =
  'A reference must have the form $op, $op.column, $op.row, $op.row.column or $op.*.column. ' +
  plainTextHint

/** Parses a string of an operation. `earlier` maps the ids of earlier operations to indexes. */
export function parseString (text: string, earlier: ReadonlyMap<string, number>): ParsedString {
  if (!text.startsWith('$')) return { kind: 'data', text }
  if (escaped.test(text)) return { kind: 'data', text: text.slice(1) }
  if (!referenceAttempt.test(text)) return { kind: 'data', text }
  const [name = ''] = text.slice(1).split('.', 1)
  const source = earlier.get(name)
  if (source === undefined) return { kind: 'unknown', message: unknownMessage }
  const parts = form.exec(text.slice(name.length + 1))?.groups
  if (parts === undefined) return { kind: 'malformed', message: malformedMessage }
  const { row, rowOf = row ?? '0', column } = parts
  return {
    kind: 'reference',
    source,
    // No result has more rows than int4 can count, so a larger number still names a missing row.
    row: rowOf === '*' ? '*' : Math.min(Number(rowOf), maxInt4),
    column
  }
}
