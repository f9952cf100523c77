/**
 * Finds what a type would drop from a text without an error. PostgreSQL reads many forms of a
 * value: a text that is not recognised here passes, and PostgreSQL reads or refuses it.
 */
import type { BaseType, Form } from '../catalogue/type.ts'
import { readDecimal, writeInteger } from '../json/decimal.ts'
import { fitInterval } from './interval-text.ts'
import type { Lost } from './loss.ts'
import { MAX_PRECISION, readTime, type TimeText } from './time-text.ts'

/** Returns the text to send, or what the type would drop from it. */
export type Fit = (text: string, type: BaseType) => string | Lost

const DIGITS: Lost = { loses: 'digits' }
const CHARACTERS: Lost = { loses: 'characters' }
const BYTES: Lost = { loses: 'bytes' }
const FRACTION: Lost = { loses: 'fraction' }
const ZONE: Lost = { loses: 'zone' }
const DAY: Lost = { loses: 'day' }
const CLOCK: Lost = { loses: 'clock' }

/** A number with a point or an exponent, which Number and PostgreSQL read alike. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i

/** The fraction digits that a number has; negative: zeros before its point. */
function placesOf (text: string): number {
  // Underscores are separators from PostgreSQL 16 on.
  const plain = text.trim().replaceAll('_', '')
  if (!DECIMAL.test(plain)) return -Infinity
  const { digits, magnitude } = readDecimal(plain.replace(/^\+/, ''))
  return digits === '' ? -Infinity : digits.length - magnitude
}

/** Digits after the point of money. Locales with fewer or more are rare. */
const MONEY_SCALE = 2

const MAX_NAME_BYTES = 63

/** The byte of the type "char", as its digits in octal. */
const OCTAL = /^\\[0-3][0-7]{2}$/

function isLonger (text: string, length: number): boolean {
  if (text.length <= length) return false
  // A character has at most two code units.
  return text.length > 2 * length || [...text].length > length
}

function fitTime (drops: (time: TimeText) => Lost | undefined): Fit {
  return (text, { precision = MAX_PRECISION }) => {
    const time = readTime(text)
    if (time === undefined) return text
    return drops(time) ?? (time.digits > precision ? FRACTION : text)
  }
}

/** The forms whose types can drop something; the others drop nothing. */
export const FITS: Readonly<Partial<Record<Form, Fit>>> = {
  // A number of JSON. PostgreSQL refuses the texts `1.0` and `1e3`.
  integer: text => placesOf(text) > 0 ? DIGITS : writeInteger(readDecimal(text)) ?? text,
  numeric: (text, { scale }) =>
    scale !== undefined && placesOf(text) > scale ? DIGITS : text,
  money: text => placesOf(text) > MONEY_SCALE ? DIGITS : text,
  characters: (text, { length = Infinity }) => isLonger(text, length) ? CHARACTERS : text,
  name: text => Buffer.byteLength(text) > MAX_NAME_BYTES ? BYTES : text,
  byte: text => Buffer.byteLength(text) > 1 && !OCTAL.test(text) ? BYTES : text,
  date: fitTime(({ hasZone, isMidnight }) => hasZone ? ZONE : isMidnight ? undefined : CLOCK),
  time: fitTime(({ hasDay, hasZone }) => hasDay ? DAY : hasZone ? ZONE : undefined),
  timetz: fitTime(({ hasDay }) => hasDay ? DAY : undefined),
  timestamp: fitTime(({ hasZone }) => hasZone ? ZONE : undefined),
  timestamptz: fitTime(() => undefined),
  interval: fitInterval
}
