/**
 * Compares numbers of JSON by their digits. A double holds only some of them.
 */

/** `digits` times ten to the power of `exponent`. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** Returns a negative number, 0 or a positive number as `a` is less, equal or greater than `b`. */
export function compareDecimals (a: string, b: string): number {
  const [left, right] = [readDecimal(a), readDecimal(b)]
  const sign = signOf(left)
  if (sign !== signOf(right) || sign === 0) return sign - signOf(right)
  const difference = magnitudeOf(left) - magnitudeOf(right)
  if (difference !== 0) return sign * difference
  // Of the same magnitude, their exponents differ by no more than they have digits.
  const exponent = Math.min(left.exponent, right.exponent)
  const [x, y] = [left, right].map(({ digits, exponent: of }) =>
    digits * 10n ** BigInt(of - exponent)
  ) as [bigint, bigint]
  return x < y ? -1 : x > y ? 1 : 0
}

/** Returns the same text for equal numbers other than 0. */
export function canonicalDecimal (text: string): string {
  const { digits, exponent } = readDecimal(text)
  const significant = String(digits).replace(/0+$/, '')
  return `${significant}e${exponent + String(digits).length - significant.length}`
}

/** Whether `a` is an integer times `b`, which is not 0. */
export function isMultipleOf (a: string, b: string): boolean {
  const [value, divisor] = [readDecimal(a), readDecimal(b)]
  const shift = value.exponent - divisor.exponent
  if (value.digits === 0n) return true
  if (shift >= 0) return value.digits * powerOfTen(shift, divisor.digits) % divisor.digits === 0n
  // The divisor would have more digits than the value.
  if (-shift > String(value.digits).length) return false
  return value.digits % (divisor.digits * 10n ** BigInt(-shift)) === 0n
}

/** Ten to the power of `exponent`, modulo `modulus`. */
function powerOfTen (exponent: number, modulus: bigint): bigint {
  let result = 1n
  let base = 10n
  for (let rest = BigInt(exponent); rest > 0n; rest >>= 1n) {
    if (rest % 2n === 1n) result = result * base % modulus
    base = base * base % modulus
  }
  return result
}

/** Reads a number as JSON writes it. */
function readDecimal (text: string): Decimal {
  const [mantissa = '', power = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

function signOf ({ digits }: Decimal): number {
  return digits < 0n ? -1 : digits > 0n ? 1 : 0
}

function magnitudeOf ({ digits, exponent }: Decimal): number {
  return String(digits < 0n ? -digits : digits).length + exponent
}
