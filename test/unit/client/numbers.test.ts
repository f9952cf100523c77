/**
 * Tests how the client parses responses: numbers as doubles or without loss, at any position. Also
 * tests generated ids and Retry-After.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { parseAnswer } from '../../../client/src/numbers.ts'
import { randomId } from '../../../client/src/random.ts'
import { readRetryAfter } from '../../../client/src/headers.ts'

/** Parses a response with one column of this JSON text in the lossless mode. Returns the column. */
const column = (text: string): unknown =>
  (parseAnswer(`{"error":null,"data":{"a":[{"x":${text}}]}}`, 'bigint') as {
    data: { a: Array<{ x: unknown }> }
  }).data.a[0]?.x

t.test('in columns, integers become bigints and other numbers strings', async t => {
  const columns = [
    ['0', 0n],
    ['-7', -7n],
    ['9007199254740993', 9007199254740993n],
    ['123456789012345678901234567890', 123456789012345678901234567890n],
    ['-0', '-0'],
    ['1.10', '1.10'],
    ['0.0', '0.0'],
    ['1e400', '1e400'],
    ['1E+2', '1E+2'],
    ['-12.5e-3', '-12.5e-3'],
    ['"1"', '1'],
    ['"a \\"1\\" \\\\"', 'a "1" \\'],
    ['null', null],
    ['true', true]
  ] as const
  for (const [text, value] of columns) t.equal(column(text), value, text)
})

t.test('inside JSON, a number stays a number if a double can represent it', async t => {
  const elements = [
    ['1', 1],
    ['-1', -1],
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['1.5', 1.5],
    ['1.50', 1.5],
    ['0.1', 0.1],
    ['1e2', 100],
    ['1E21', 1e21],
    ['0.00000001', 1e-8],
    ['-0', -0],
    ['-0.0', -0],
    ['0.10000000000000000001', '0.10000000000000000001'],
    ['1e400', '1e400'],
    ['12345678901234567.8', '12345678901234567.8']
  ] as const
  for (const [text, value] of elements) {
    assert.deepEqual(column(`[${text}]`), [value])
    assert.deepEqual(column(`{"${text}":{"b":[${text}]}}`), { [text]: { b: [value] } })
  }
  t.pass('each at the top level and nested')
})

t.test('property: other values equal the result of JSON.parse', async t => {
  const inexact = (value: unknown): boolean =>
    typeof value === 'number' && !Number.isSafeInteger(value) && Number.isInteger(value)
  fc.assert(fc.property(fc.json({ maxDepth: 4 }), text => {
    const plain: unknown = JSON.parse(text)
    fc.pre(
      !JSON.stringify(plain, (_, value: unknown) => inexact(value) ? '!' : value).includes('"!"')
    )
    assert.deepEqual(column(`[${text}]`), [plain])
  }))
  t.throws(() => parseAnswer('{"error":', 'bigint'), SyntaxError)
  t.same(parseAnswer('{"error":null,"data":{"a":2}}', 'bigint'), { error: null, data: { a: 2 } })
  t.equal(parseAnswer('5', 'bigint') === 5, false, 'a body that is not a response is not parsed')
})

t.test('ids are unique UUIDs of version 4', async t => {
  const ids = Array.from({ length: 1000 }, randomId)
  t.ok(
    ids.every(id =>
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)
    )
  )
  t.equal(new Set(ids).size, ids.length)
  t.equal(new Set(ids.map(id => id[19])).size, 4, 'all variant digits occur')
})

t.test('Retry-After may be seconds or a date', async t => {
  const now = Date.parse('2026-11-20T09:30:00Z')
  const rows = [
    [null, 0],
    ['2', 2000],
    ['0', 0],
    ['Fri, 20 Nov 2026 09:30:05 GMT', 5000],
    ['Fri, 20 Nov 2026 09:29:00 GMT', 0],
    ['soon', 0]
  ] as const
  for (const [header, ms] of rows) t.equal(readRetryAfter(header, now), ms, String(header))
})
