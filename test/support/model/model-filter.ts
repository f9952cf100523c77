/**
 * The SQL of values and filters of the model.
 */
import { resolve, resolveList } from './model-reference.ts'
import type { Context } from './outcome.ts'
import { digitsOf } from './raw-json.ts'
import { tableOf, type Kind } from './tables.ts'

export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`
export const name = (column: string): string => `"${column}"`
export const tableName = (table: string): string => `public.${name(table.replace('public.', ''))}`
export const array = (elements: readonly string[]): string => `array[${elements.join(', ')}]`

/** Returns a scalar as text, spelled as in the JSON; undefined for null. */
export function textOf (value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  return digitsOf(value) ?? JSON.stringify(value)
}

/**
 * Returns a literal for a column of this kind, without a type if PostgreSQL can infer it. Integers
 * have no exponent in SQL.
 */
export function literal (value: unknown, kind: Kind): string {
  if (value === null || value === undefined) return 'null'
  if (kind === 'doc') return `${quote(JSON.stringify(value))}::jsonb`
  if (kind === 'tags' && Array.isArray(value)) {
    return `${array(value.map(one => literal(one, 'text')))}::text[]`
  }
  const isWhole = (kind === 'int' || kind === 'big') && /^\d+e\d+$/.test(digitsOf(value) ?? '')
  return quote(isWhole ? String(Number(digitsOf(value))) : textOf(value) as string)
}

export const types: Readonly<Record<Kind, string>> = {
  int: 'int',
  big: 'bigint',
  num: 'numeric',
  float: 'float8',
  text: 'text',
  bool: 'boolean',
  day: 'date',
  at: 'timestamptz',
  tags: 'text[]',
  doc: 'jsonb'
}

const symbols: Readonly<Record<string, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  has_key: '?',
  has_keys_any: '?|',
  has_keys_all: '?&'
}

export function filter (node: object, context: Context): string {
  return Object.entries(node).map(([key, value]) => {
    if (key === 'and' || key === 'or') {
      return `(${(value as object[]).map(one => `(${filter(one, context)})`).join(` ${key} `)})`
    }
    if (key === 'not') return `(not (${filter(value as object, context)}))`
    if (key === 'exists') return existence(value as Existence, context)
    if (key === 'not_exists') return `(not ${existence(value as Existence, context)})`
    return tests(key, value as object, context)
  }).join(' and ')
}

interface Existence {
  readonly table: string
  readonly on: Readonly<Record<string, string>>
  readonly where?: object
}

function existence ({ table, on, where = {} }: Existence, context: Context): string {
  const inner = { ...context, table: tableOf({ table }), row: `${context.row}_in` }
  const pairs = Object.entries(on).map(([column, outer]) =>
    `${inner.row}.${name(column)} = ${context.row}.${name(outer)}`
  )
  const conditions = [filter(where, inner), ...pairs].filter(one => one !== '')
  return `(0 < (select count(*) from ${tableName(table)} as ${inner.row} where ${
    conditions.join(' and ')
  }))`
}

function tests (column: string, node: object, context: Context): string {
  return Object.entries(node).map(([operator, operand]) =>
    operator === 'not'
      ? `(not (${tests(column, operand as object, context)}))`
      : test(column, operator, operand, context)
  ).join(' and ')
}

function test (
  key: string,
  operator: string,
  operand: unknown,
  context: Context
): string {
  const { results, row, table } = context
  const { left, kind } = columnOf(key, context)
  const one = (value: unknown): string => literal(resolve(value, results), kind)
  const list = (value: unknown): string =>
    `${array(resolveList(value, results).map(one => literal(one, kind)))}::${types[kind]}[]`
  const symbol = symbols[operator] as string
  const { $col, $excluded, $from, $value, any, all } =
    (typeof operand === 'object' && operand !== null ? operand : {}) as Record<string, unknown>
  if (operator === 'is') {
    return `${left} is ${operand === 'not_null' ? 'not null' : String(operand)}`
  }
  if (operator === 'in') return `${left} = any (${list(operand)})`
  if (operator === 'nin') return `${left} <> all (${list(operand)})`
  if (operator === 'between') {
    return `${left} between ${(operand as unknown[]).map(one).join(' and ')}`
  }
  if (operator.startsWith('has_key')) {
    return `${left} ${symbol} ${
      operator === 'has_key'
        ? `${literal(resolve(operand, results), 'text')}::text`
        : `${array((operand as string[]).map(quote))}::text[]`
    }`
  }
  if ($col !== undefined) return `${left} ${symbol} ${row}.${name($col as string)}`
  if ($excluded !== undefined) return `${left} ${symbol} excluded.${name($excluded as string)}`
  if ($from !== undefined) {
    return `${left} ${symbol} ${columnOf($from as string, { table, row: 'f' }).left}`
  }
  if ($value !== undefined) return `${left} ${symbol} ${one($value)}`
  if (any !== undefined) return `${left} ${symbol} any (${list(any)})`
  if (all !== undefined) return `${left} ${symbol} all (${list(all)})`
  return `${left} ${symbol} ${one(operand)}`
}

/** Returns a column or a path in its jsonb, with the parentheses that SQL requires. */
export function columnOf (
  key: string,
  { table, row }: Pick<Context, 'table' | 'row'>
): { readonly left: string, readonly kind: Kind } {
  const [column = '', ...steps] = key.split(/(->>?)/)
  const left = `${row}.${name(column)}`
  if (steps.length === 0) return { left, kind: table.columns[column] as Kind }
  const path = steps.map(step =>
    step.startsWith('->') ? ` ${step} ` : /^-?\d+$/.test(step) ? step : quote(step)
  ).join('')
  return { left: `(${left}${path})`, kind: steps.includes('->>') ? 'text' : 'doc' }
}
