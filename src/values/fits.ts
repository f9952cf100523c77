/**
 * Finds what a type would drop from a text without an error. PostgreSQL reads many forms of a
 * value: one that is not understood here is refused if the type could drop a part of it.
 */
import type { BaseType, Form } from '../catalogue/type.ts'
import { readDecimal, writeInteger } from '../json/decimal.ts'
import { fitInterval } from './interval-text.ts'
import { issueOf, type WriteIssue, type WriteProblem } from './issue.ts'
import { MAX_PRECISION, readTime, type TimeText } from './time-text.ts'

/** Returns the text to send, or what the type would drop from it. */
export type Fit = (text: string, type: BaseType) => string | WriteIssue

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

/** Returns a Fit that refuses what `findDropped` finds. */
function refuse (findDropped: (text: string, type: BaseType) => WriteProblem | undefined): Fit {
  return (text, type) => {
    const dropped = findDropped(text, type)
    return dropped === undefined ? text : issueOf(dropped, type)
  }
}

function refuseTime (findDropped: (time: TimeText) => WriteProblem | undefined): Fit {
  return refuse((text, { form, precision = MAX_PRECISION }) => {
    const time = readTime(text, form === 'time' || form === 'timetz')
    if (time !== undefined) {
      return findDropped(time) ?? (time.digits > precision ? 'fraction' : undefined)
    }
    // A timestamptz drops only digits after a point.
    return form === 'timestamptz' && !text.includes('.') ? undefined : 'form'
  })
}

/** The forms whose types can drop something; the others drop nothing. */
export const FITS: Readonly<Partial<Record<Form, Fit>>> = {
  // A number of JSON. PostgreSQL refuses the texts `1.0` and `1e3`.
  integer: (text, type) =>
    placesOf(text) > 0 ? issueOf('digits', type) : writeInteger(readDecimal(text)) ?? text,
  numeric: refuse((text, { scale }) => placesOf(text) > (scale as number) ? 'digits' : undefined),
  money: refuse(text => {
    const isLong = DECIMAL.test(text) ? placesOf(text) > MONEY_SCALE : LONG_MONEY.test(text)
    return isLong ? 'digits' : undefined
  }),
  characters: refuse((text, { length }) =>
    isLonger(text, length as number) ? 'characters' : undefined),
  name: refuse(text => Buffer.byteLength(text) > MAX_NAME_BYTES ? 'bytes' : undefined),
  byte: refuse(text => Buffer.byteLength(text) > 1 && !OCTAL.test(text) ? 'bytes' : undefined),
  date: refuseTime(({ hasZone, isMidnight }) =>
    hasZone ? 'zone' : isMidnight ? undefined : 'clock'),
  time: refuseTime(({ hasDay, hasZone }) => hasDay ? 'day' : hasZone ? 'zone' : undefined),
  timetz: refuseTime(({ hasDay }) => hasDay ? 'day' : undefined),
  timestamp: refuseTime(({ hasZone }) => hasZone ? 'zone' : undefined),
  timestamptz: refuseTime(() => undefined),
  interval: fitInterval
}

/** Whether a type drops nothing from any text: only a limit makes numeric and characters do so. */
export function isLossless ({ form, scale, length }: BaseType): boolean {
  return FITS[form] === undefined || (form === 'numeric' && scale === undefined) ||
    (form === 'characters' && length === undefined)
}
