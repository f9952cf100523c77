/**
 * The same batch with other values. Mostly it has the same shape, so the service keeps the plan and
 * the statements of one for the other.
 */

/** Members whose texts and numbers are no values. */
const FIXED: ReadonlySet<string> = new Set([
  'id', 'table', 'op', 'columns', 'returning', 'column', 'as', 'fn', 'cast', 'constraint', 'do',
  'answer', 'function', 'lock',
  'order', 'group_by', 'on', 'key', 'when', 'expect', 'is',
  '$col', '$from', '$excluded', '$first'
])

/** Changes each number and each text that is no reference. `name`: that of the member. */
export function withOtherValues (value: unknown, name = ''): unknown {
  if (FIXED.has(name)) return value
  if (typeof value === 'number') return value + 1
  if (typeof value === 'string') return value.startsWith('$') ? value : `${value}x`
  if (Array.isArray(value)) return value.map(item => withOtherValues(item))
  if (typeof value !== 'object' || value === null || 'rawJSON' in value) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withOtherValues(item, key)])
  )
}
