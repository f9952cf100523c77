/**
 * Compares numbers of JSON by their digits, in time linear in their length. A double holds only
 * some of the digits, and arithmetic with millions of them would block the process for seconds.
 */

/** The sign times `0.<digits>` times ten to the power of `magnitude`. */
export interface Decimal {
  readonly sign: -1 | 0 | 1
  /** Without zeros at either end; empty for 0. */
  readonly digits: string
  /** 0 for 0. Not exact, but of the right sign, if a double cannot hold the exponent. */
  readonly magnitude: number
}

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

export function isNumberText (text: string): boolean {
  return NUMBER.test(text)
}

/** Reads a number as JSON writes it. */
export function readDecimal (text: string): Decimal {
  const power = text.search(/e/i)
  const end = power < 0 ? text.length : power
  const start = text.startsWith('-') ? 1 : 0
  const point = text.indexOf('.')
  const whole = text.slice(start, point < 0 ? end : point)
  const all = point < 0 ? whole : whole + text.slice(point + 1, end)
  let first = 0
  while (all[first] === '0') first++
  let last = all.length
  while (last > first && all[last - 1] === '0') last--
  if (first === last) return { sign: 0, digits: '', magnitude: 0 }
  return {
    sign: start === 1 ? -1 : 1,
    digits: all.slice(first, last),
    magnitude: (power < 0 ? 0 : Number(text.slice(power + 1))) + whole.length - first
  }
}

/** Returns a negative number, 0 or a positive number as `a` is less, equal or greater than `b`. */
export function compareDecimals (a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign
  if (a.magnitude !== b.magnitude) return a.magnitude < b.magnitude ? -a.sign : a.sign
  return a.digits === b.digits ? 0 : a.digits < b.digits ? -a.sign : a.sign
}

/** Whether a double has exactly the digits of a number as JSON writes it, apart from zeros. */
export function isDouble (text: string): boolean {
  return compareDecimals(readDecimal(text), readDecimal(String(Number(text)))) === 0
}

/** Returns the same text for equal numbers. */
export function canonicalDecimal ({ sign, digits, magnitude }: Decimal): string {
  return `${sign < 0 ? '-' : ''}0.${digits}e${magnitude}`
}

export function isIntegral ({ digits, magnitude }: Decimal): boolean {
  return digits.length <= magnitude || digits === ''
}

/**
 * Maximum digits of an integer that is written: more than the 19 of a bigint, so that PostgreSQL
 * says that a larger number is out of range. `1e999999` must not become a million digits.
 */
const MAX_INTEGER_DIGITS = 40

/** Returns the digits of an integer; undefined for a fraction, or for too many digits. */
export function writeInteger (value: Decimal): string | undefined {
  const { sign, digits, magnitude } = value
  if (!isIntegral(value) || magnitude > MAX_INTEGER_DIGITS) return undefined
  return sign === 0 ? '0' : `${sign < 0 ? '-' : ''}${digits.padEnd(magnitude, '0')}`
}

/** Returns a number without an exponent, or with too many digits as it is. */
export function writePlain (text: string): string {
  const { sign, digits, magnitude } = readDecimal(text)
  if (sign === 0) return '0'
  if (!/e/i.test(text) || Math.abs(magnitude) > MAX_INTEGER_DIGITS) return text
  const whole = digits.slice(0, Math.max(magnitude, 0)).padEnd(magnitude, '0')
  const decimals = '0'.repeat(Math.max(-magnitude, 0)) + digits.slice(Math.max(magnitude, 0))
  return `${sign < 0 ? '-' : ''}${whole === '' ? '0' : whole}${decimals && `.${decimals}`}`
}

/** Whether `value` is an integer times `divisor`, which is a double other than 0. */
export function isMultipleOf (value: Decimal, divisor: Decimal): boolean {
  // Both end in a digit other than 0, so a multiple has no more decimal places than the divisor.
  const shift = value.magnitude - value.digits.length - divisor.magnitude + divisor.digits.length
  if (shift < 0 || value.sign === 0) return value.sign === 0
  // An integer of n digits has less than 4 n factors, so more zeros make no difference.
  const zeros = '0'.repeat(Math.min(shift, 4 * divisor.digits.length))
  return isDivisible(value.digits + zeros, BigInt(divisor.digits))
}

/** A double can represent every decimal with this many digits. */
export const EXACT_DIGITS = 15

/** Long division: no step has more digits than the divisor and a few of the value. */
function isDivisible (digits: string, modulus: bigint): boolean {
  let remainder = 0n
  for (let i = 0; i < digits.length; i += EXACT_DIGITS) {
    const next = digits.slice(i, i + EXACT_DIGITS)
    remainder = (remainder * 10n ** BigInt(next.length) + BigInt(next)) % modulus
  }
  return remainder === 0n
}
