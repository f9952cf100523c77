/**
 * Finds values that the types of their columns cannot hold exactly, before any operation runs:
 * fractions for whole numbers, and more digits after the point than a column has.
 */
import type { Operation } from './finish-batch.ts'
import { digitsOf } from './raw-json.ts'
import { tableOf, type Kind } from './tables.ts'

/** Digits after the point of `price`; no other column has a limit. */
const PRICE_SCALE = 2

/** The places of a value: `compared` in a condition, which has no limits. */
interface Place {
  readonly columns: Readonly<Record<string, Kind>>
  readonly column: string | undefined
  readonly compared: boolean
}

const CONDITIONS = ['where', 'on', 'having', 'exists', 'not_exists', 'after']

/** Members whose numbers and texts are no values of columns. */
const OTHERS = ['id', 'op', 'expect', 'when', 'limit', 'offset', 'returning', 'lock', 'group_by']

/** Whether a value of the operation does not fit its column. */
export function hasUnfit ({ table, order, after, ...members }: Operation): boolean {
  const { columns } = tableOf(table)
  const sorted = (order ?? []) as readonly object[]
  const places = ((after ?? []) as readonly unknown[]).map((value, i) =>
    isUnfit(value, { columns, column: Object.keys(sorted[i] as object)[0], compared: true }))
  return places.includes(true) ||
    Object.entries(members).some(([name, value]) =>
      !OTHERS.includes(name) &&
        isUnfit(value, { columns, column: undefined, compared: CONDITIONS.includes(name) }))
}

function isUnfit (node: unknown, place: Place): boolean {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) {
    return place.column !== undefined && digitsAfterPoint(node) > limitOf(place)
  }
  const { table } = node as { readonly table?: string }
  const columns = table === undefined ? place.columns : tableOf(table).columns
  return Object.entries(node).some(([name, value]) => isUnfit(value, {
    columns,
    column: !Array.isArray(node) && name in columns ? name : place.column,
    compared: place.compared || CONDITIONS.includes(name)
  }))
}

function limitOf ({ columns, column = '', compared }: Place): number {
  if (column === 'price') return compared ? Infinity : PRICE_SCALE
  return ['int', 'big'].includes(columns[column] as Kind) ? 0 : Infinity
}

/** Without zeros at the end. */
function digitsAfterPoint (value: unknown): number {
  const text = digitsOf(value) ?? (typeof value === 'string' ? value : '')
  const [, digits = '', exponent = '0'] = /^-?\d+(?:\.(\d*))?(?:e(-?\d+))?$/.exec(text) ?? []
  return digits.replace(/0+$/, '').length - Number(exponent)
}
