/**
 * Parses the JSON of a response, with numbers as the client's `numbers` option requires.
 *
 * In the mode `bigint`, a numeric column value is a bigint if it is written as an integer, and its
 * text otherwise. This does not depend on its size, so the type of a column does not change with
 * its values. Inside jsonb and arrays, a number stays a number if a double holds it exactly, so
 * that it can be written back unchanged.
 *
 * Numbers are marked in the text before it is parsed. JSON.parse with source text access, where it
 * exists, takes up to twice as long (2 MB: 65 to 130 ms instead of 50 to 65 ms).
 */
import { randomId } from './random.ts'
import type { Numbers } from './values.ts'

/** The prefix of strings that were numbers. It is random, so no data begins with it. */
const mark = randomId()

const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*/g

/** Parses a response of the service. Throws like JSON.parse. */
export function parseAnswer (text: string, numbers: Numbers): unknown {
  if (numbers === 'number') return JSON.parse(text)
  return mapMembers(
    parseMarked(text),
    data =>
      mapMembers(data, rows =>
        Array.isArray(rows)
          ? rows.map(row => mapMembers(row, readColumn))
          : readInside(rows))
  )
}

/** Parses one row. Throws like JSON.parse. */
export function parseRow (text: string, numbers: Numbers): unknown {
  return numbers === 'number' ? JSON.parse(text) : mapMembers(parseMarked(text), readColumn)
}

function parseMarked (text: string): unknown {
  return JSON.parse(
    text.replace(stringOrNumber, token => token.startsWith('"') ? token : `"${mark}${token}"`)
  )
}

/** Maps the members of an object; returns any other value unchanged. */
function mapMembers (value: unknown, read: (member: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, read(member)]))
}

function readColumn (value: unknown): unknown {
  const digits = digitsOf(value)
  return digits === undefined ? readInside(value) : isInteger(digits) ? BigInt(digits) : digits
}

/** Reads JSON inside a column, or a row count. */
function readInside (value: unknown): unknown {
  const digits = digitsOf(value)
  if (digits !== undefined) return readNumber(digits)
  return Array.isArray(value) ? value.map(readInside) : mapMembers(value, readInside)
}

function readNumber (digits: string): number | bigint | string {
  const number = Number(digits)
  if (isInteger(digits)) return Number.isSafeInteger(number) ? number : BigInt(digits)
  if (!Number.isFinite(number)) return digits
  return normalize(digits) === normalize(Object.is(number, -0) ? '-0' : String(number))
    ? number
    : digits
}

/** Returns the text of a marked number; undefined for other values. */
function digitsOf (value: unknown): string | undefined {
  return typeof value === 'string' && value.startsWith(mark) ? value.slice(mark.length) : undefined
}

/** `-0` does not count: only floats have it, and bigints have no negative zero. */
function isInteger (digits: string): boolean {
  return /^(?:0|-?[1-9][0-9]*)$/.test(digits)
}

/**
 * Normalizes a decimal number: its digits without zeros at either end, and the exponent of the last
 * digit. Equal numbers have equal texts.
 */
function normalize (text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [integer = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = `${integer}${fraction}`.replace(/^0+/, '')
  // A regular expression for the zeros at the end would take quadratic time.
  let length = digits.length
  while (digits[length - 1] === '0') length--
  const last = length === 0 ? 0 : Number(exponent) - fraction.length + digits.length - length
  return `${text.startsWith('-') ? '-' : ''}${digits.slice(0, length)}e${last}`
}
