/**
 * The JSON of an answer → values, numbers as they were asked for.
 *
 * Without loss (`bigint`), a column that is a number is a bigint when it is written as an integer,
 * else its text, however large it is: what a column comes as does not change with its values.
 * Inside of jsonb and arrays a number stays one as long as a double holds it exactly, for what is
 * read there must be what is written back.
 *
 * Numbers are marked in the text before it is parsed. The source text access of JSON.parse would
 * tell them as well, where there is one; it took twice as long (2 MB: 65 to 130 ms against 50 to 65
 * ms).
 */
import { randomId } from './random.ts'
import type { Numbers } from './values.ts'

/** Begins the strings that numbers become. Nobody can know it, so no data begins like it. */
const mark = randomId()

/** The tokens of JSON that are strings or numbers. */
const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*/g

/** An answer of the service. Throws what JSON.parse throws. */
export function parseAnswer (text: string, numbers: Numbers): unknown {
  if (numbers === 'number') return JSON.parse(text)
  const answer: unknown = JSON.parse(
    text.replace(stringOrNumber, token => token.startsWith('"') ? token : `"${mark}${token}"`)
  )
  return mapMembers(
    answer,
    data =>
      mapMembers(data, rows =>
        Array.isArray(rows)
          ? rows.map(row => mapMembers(row, readColumn))
          : readInside(rows))
  )
}

/** The members of an object, each by `read`; anything else by itself. */
function mapMembers (value: unknown, read: (member: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, read(member)]))
}

function readColumn (value: unknown): unknown {
  const digits = digitsOf(value)
  return digits === undefined ? readInside(value) : isInteger(digits) ? BigInt(digits) : digits
}

/** JSON inside of a column, and numbers of rows. */
function readInside (value: unknown): unknown {
  const digits = digitsOf(value)
  if (digits !== undefined) return readNumber(digits)
  return Array.isArray(value) ? value.map(readInside) : mapMembers(value, readInside)
}

function readNumber (digits: string): number | bigint | string {
  const number = Number(digits)
  if (isInteger(digits)) return Number.isSafeInteger(number) ? number : BigInt(digits)
  if (!Number.isFinite(number)) return digits
  return decimal(digits) === decimal(Object.is(number, -0) ? '-0' : String(number))
    ? number
    : digits
}

/** The text of what was a number. */
function digitsOf (value: unknown): string | undefined {
  return typeof value === 'string' && value.startsWith(mark) ? value.slice(mark.length) : undefined
}

/** `-0` is none: only a float is, and a bigint has no such zero. */
function isInteger (digits: string): boolean {
  return /^(?:0|-?[1-9][0-9]*)$/.test(digits)
}

/**
 * One text for each decimal number, however it is written: its digits without zeros at either end,
 * and the exponent of the last one.
 */
function decimal (text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  const last = significant === ''
    ? 0
    : Number(exponent) - fraction.length + digits.length - significant.length
  return `${text.startsWith('-') ? '-' : ''}${significant}e${last}`
}
