/**
 * Finds what a type would drop from a text without an error. PostgreSQL reads many forms of a
 * value: one that is not understood here is refused if the type could drop a part of it.
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
const FORM: Lost = { loses: 'form' }

/** A number with a point or an exponent, which Number and PostgreSQL read alike. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i

/** An integer in another base, from PostgreSQL 16 on. */
const BASED = /^[+-]?0[xob]/i

/** The fraction digits that a number has; negative: zeros before its point. */
function placesOf (text: string): number {
  // Underscores are separators from PostgreSQL 16 on.
  const plain = text.trim().replaceAll('_', '')
  if (BASED.test(plain)) return 0
  if (!DECIMAL.test(plain)) return -Infinity
  const { digits, magnitude } = readDecimal(plain.replace(/^\+/, ''))
  return digits === '' ? -Infinity : digits.length - magnitude
}

/** Digits after the point of money. Locales with fewer or more are rare. */
const MONEY_SCALE = 2

/** A third digit of money with a sign, a currency or separators: `$1.005`. */
const LONG_MONEY = /\.\d\d\d*[1-9]/

const MAX_NAME_BYTES = 63

/** The byte of the type "char", as its digits in octal. */
const OCTAL = /^\\[0-3][0-7]{2}$/

function isLonger (text: string, length: number): boolean {
  if (text.length <= length) return false
  // A character has at most two code units.
  return text.length > 2 * length || [...text].length > length
}

function fitTime (drops: (time: TimeText) => Lost | undefined): Fit {
  return (text, { form, precision = MAX_PRECISION }) => {
    const time = readTime(text, form === 'time' || form === 'timetz')
    // A timestamptz drops only digits after a point.
    if (time === undefined) return form === 'timestamptz' && !text.includes('.') ? text : FORM
    return drops(time) ?? (time.digits > precision ? FRACTION : text)
  }
}

/** The forms whose types can drop something; the others drop nothing. */
export const FITS: Readonly<Partial<Record<Form, Fit>>> = {
  // A number of JSON. PostgreSQL refuses the texts `1.0` and `1e3`.
  integer: text => placesOf(text) > 0 ? DIGITS : writeInteger(readDecimal(text)) ?? text,
  numeric: (text, { scale }) =>
    scale !== undefined && placesOf(text) > scale ? DIGITS : text,
  money: text => {
    const isLong = DECIMAL.test(text) ? placesOf(text) > MONEY_SCALE : LONG_MONEY.test(text)
    return isLong ? DIGITS : text
  },
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
