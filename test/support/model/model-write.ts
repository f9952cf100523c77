/**
 * Finds values that the types of their columns cannot hold exactly, before any operation runs:
 * fractions for whole numbers, and more digits after the point than a column has. Values of
 * conditions only compare.
 */
import type { Operation } from './finish-batch.ts'
import { digitsOf } from './raw-json.ts'
import { tableOf, type Kind } from './tables.ts'

/** Digits after the point of `price`; no other column has a limit. */
const PRICE_SCALE = 2

/** Whether a value of the operation does not fit its column. */
export function hasUnfit (operation: Operation): boolean {
  const { values, set, columns, args, on_conflict: conflict } = operation
  const stored = operation.op === 'select'
    ? []
    : [
        ...(values ?? []) as readonly object[],
        set ?? {},
        args ?? {},
        operation.op === 'insert' ? columns ?? {} : {},
        (conflict as { readonly set?: object } | undefined)?.set ?? {}
      ]
  const kinds = tableOf(operation).columns
  return stored.some(row => Object.entries(row).some(([column, value]) =>
    digitsAfterPoint(value) > limitOf(column, kinds[column])))
}

function limitOf (column: string, kind: Kind | undefined): number {
  if (column === 'price') return PRICE_SCALE
  return kind === 'int' || kind === 'big' ? 0 : Infinity
}

/** Without zeros at the end; those of a value, or of the operand of a modifier. */
function digitsAfterPoint (value: unknown): number {
  if (typeof value === 'object' && value !== null && digitsOf(value) === undefined) {
    return Math.max(...Object.values(value).map(digitsAfterPoint), -Infinity)
  }
  const text = digitsOf(value) ?? (typeof value === 'string' ? value : '')
  const [, digits = '', exponent = '0'] = /^-?\d+(?:\.(\d*))?(?:e(-?\d+))?$/.exec(text) ?? []
  return digits.replace(/0+$/, '').length - Number(exponent)
}
