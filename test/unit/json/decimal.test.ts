/**
 * Tests the comparison of decimal numbers against arithmetic with all of their digits, and that its
 * time grows in proportion to their length.
 */
import fc from 'fast-check'
import t from 'tap'
import {
  canonicalDecimal,
  compareDecimals,
  isDouble,
  isIntegral,
  isMultipleOf,
  readDecimal,
  type Decimal
} from '../../../src/json/decimal.ts'
import { growthOf } from '../../support/growth.ts'

const read = readDecimal

const digits = fc.stringMatching(/^[0-9]{1,20}$/)
const decimal = fc.tuple(
  fc.constantFrom('', '-'),
  fc.oneof(fc.constant('0'), fc.stringMatching(/^[1-9][0-9]{0,19}$/)),
  fc.option(digits),
  fc.option(fc.tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.nat(30)))
).map(([sign, whole, fraction, power]) =>
  `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${power === null ? '' : power.join('')}`
)

/** More than the decimal places of the numbers. */
const PLACES = 400

/** The number times ten to the power of PLACES. */
function scale (text: string): bigint {
  const [mantissa = '', power = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return BigInt(whole + fraction) * 10n ** BigInt(PLACES + Number(power) - fraction.length)
}

t.test('decimals are compared by their value', async () => {
  fc.assert(fc.property(decimal, decimal, (a, b) => {
    const difference = scale(a) - scale(b)
    const sign = difference < 0n ? -1 : difference > 0n ? 1 : 0
    const isSame = canonicalDecimal(read(a)) === canonicalDecimal(read(b))
    return Math.sign(compareDecimals(read(a), read(b))) === sign && isSame === (sign === 0)
  }), { numRuns: 2000 })
  fc.assert(fc.property(decimal, a =>
    isIntegral(read(a)) === (scale(a) % scale('1') === 0n) &&
      isMultipleOf(read(a), read('1')) === isIntegral(read(a))
  ), { numRuns: 2000 })
  const divisor = fc.oneof(
    fc.constantFrom('0.01', '2.5', '1e21', '7', '5e-324', '0.1', '120', '1.7976931348623157e+308'),
    fc.double({ min: 1e-20, max: 1e20, noDefaultInfinity: true, noNaN: true }).map(String)
  )
  fc.assert(fc.property(decimal, divisor, fc.nat(50), (a, b, times) => {
    const multiple = scale(b) * BigInt(times)
    return isMultipleOf(read(`${multiple}e-${PLACES}`), read(b)) &&
      isMultipleOf(read(a), read(b)) === (scale(a) % scale(b) === 0n)
  }), { numRuns: 2000 })
})

t.test('an exponent has any length', async t => {
  const nines = '9'.repeat(400)
  t.ok(compareDecimals(read(`1e${nines}`), read('1.7976931348623157e308')) > 0)
  t.ok(compareDecimals(read(`-1e${nines}`), read('-1')) < 0)
  t.ok(compareDecimals(read(`1e-${nines}`), read('5e-324')) < 0)
  t.ok(compareDecimals(read(`1e-${nines}`), read('0')) > 0)
  t.equal(compareDecimals(read(`0e${nines}`), read('-0')), 0)
  for (const power of ['123456789012345', nines]) {
    t.notOk(isMultipleOf(read(`1e${power}`), read('7e3')))
    t.ok(isMultipleOf(read(`14e${power}`), read('7e3')))
    t.notOk(isMultipleOf(read(`14e-${power}`), read('7e3')))
    t.ok(isMultipleOf(read(`0e-${power}`), read('7e3')))
    for (const text of [`1e${power}`, `1e-${power}`]) t.notOk(isDouble(text), text)
  }
})

t.test('a double has the digits of a number, or not', async t => {
  const doubles = ['0', '-0.0', '1.10', '1e21', '0.1e-300', '9007199254740992', '0e999999',
    '123456789012345e290', '1.7976931348623157e308', '5e-324']
  for (const text of doubles) t.ok(isDouble(text), text)
  const others = ['9007199254740993', '0.1000000000000000000001', '1e400', '1e-400', '3e-324']
  for (const text of others) {
    t.notOk(isDouble(text), text)
  }
})

t.test('the time grows in proportion to the digits', async t => {
  const texts: ReadonlyArray<(size: number) => string> = [
    size => '9'.repeat(size),
    size => `1${'0'.repeat(size)}1`,
    size => `0.${'0'.repeat(size)}1`,
    size => '10'.repeat(size / 2)
  ]
  const uses: ReadonlyArray<(decimal: Decimal) => unknown> = [
    decimal => compareDecimals(decimal, read('1e6')),
    canonicalDecimal,
    isIntegral,
    decimal => isMultipleOf(decimal, read('0.07')),
    decimal => isMultipleOf(decimal, read('1.7976931348623157e-300'))
  ]
  for (const [i, write] of texts.entries()) {
    for (const [j, use] of uses.entries()) {
      const growth = growthOf(30_000, size => {
        const text = write(size)
        return () => use(read(text))
      })
      t.ok(growth < 12, `text ${i}, use ${j}: ${growth}`)
    }
  }
})
