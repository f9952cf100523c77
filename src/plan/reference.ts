/**
 * The grammar of references in strings. Existence of rows and columns shows only while running;
 * this file knows names alone.
 */
import { referenceAttempt } from '../../schemas/filter.ts'
import { maxInt4 } from '../../schemas/operation.ts'
import type { StringMeaning } from './nodes.ts'

const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/
/**
 * What follows the name: nothing, `row`, `row.column`, `*.column` or `column`. What looks like a
 * row in the place of a lone column is one.
 */
const form =
  /^(?:|\.(?<row>0|[1-9][0-9]*)|\.(?:(?<rowOf>0|[1-9][0-9]*|\*)\.|(?!(?:[0-9]+|\*)$))(?<column>[^.]+))$/

/** Reads `text` inside the operation whose earlier operations are `earlier` (id → index). */
export function readString (text: string, earlier: ReadonlyMap<string, number>): StringMeaning {
  if (!text.startsWith('$')) return { kind: 'data', text }
  if (escaped.test(text)) return { kind: 'data', text: text.slice(1) }
  if (!referenceAttempt.test(text)) return { kind: 'data', text }
  const [name = ''] = text.slice(1).split('.', 1)
  const source = earlier.get(name)
  if (source === undefined) {
    return {
      kind: 'unknown',
      message: 'The string begins like a reference, but names no earlier operation; one more $ ' +
        'before it makes it a plain string.'
    }
  }
  const parts = form.exec(text.slice(name.length + 1))?.groups
  if (parts === undefined) {
    return {
      kind: 'malformed',
      message: 'The string begins like a reference, but is none of the form $op, $op.column, ' +
        '$op.row, $op.row.column or $op.*.column; one more $ before it makes it a plain ' +
        'string.'
    }
  }
  const { row, rowOf = row ?? '0', column } = parts
  // A number beyond stays that of a missing row.
  return {
    kind: 'reference',
    source,
    row: rowOf === '*' ? '*' : Math.min(Number(rowOf), maxInt4),
    column
  }
}
