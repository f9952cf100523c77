/**
 * Tests that the check of parameters is bounded by its work: by what a schema applies to values,
 * not by the sizes of either.
 */
import t from 'tap'
import type { JsonObject } from '../../../src/json/parse.ts'
import { readParameters, type Parameters } from '../../../src/named/parameters.ts'

const MAX_WORK = 1000

/** Returns a check of a value of the parameter `x`, which returns the number of issues. */
function prepareCheck (schema: object): (x: unknown) => number {
  const params = { type: 'object', properties: { x: schema } } as unknown as JsonObject
  const { check } = readParameters(params, MAX_WORK) as Parameters
  return x => [...check({ x } as JsonObject, { first: true })].length
}

const list = (length: number): readonly number[] => Array.from({ length }, (_, i) => i)
const text = (i: number): string => `${'a'.repeat(50)}${i}`
const record = (length: number): object => Object.fromEntries(list(length).map(i => [`a${i}`, i]))
/** Parts that all apply to a value. */
const parts = (length: number, part: object): readonly object[] =>
  list(length).map(i => ({ ...part, description: `${i}` }))

/** Schemas, with a value of each that needs too much and half of it, which does not. */
const cases: ReadonlyArray<readonly [string, object, (n: number) => unknown, number]> = [
  ['parts for each item', { items: { allOf: parts(100, { type: 'number' }) } }, list, 230],
  ['parts that differ', { items: { not: { anyOf: parts(100, { type: 'array' }) } } }, list, 230],
  ['referred parts', {
    items: { $ref: '#/properties/x/$defs/all' },
    $defs: { all: { allOf: parts(100, { type: 'number' }) } }
  }, list, 230],
  ['regular expressions', { items: { pattern: '^a+\\d+$' } }, n => list(n).map(text), 480],
  ['names by regular expressions', {
    patternProperties: Object.fromEntries(list(10).map(i => [`^a.*${i}$`, { type: 'number' }]))
  }, record, 190],
  ['unlike items', { type: 'array', uniqueItems: true }, n => list(n).map(text), 1800],
  ['unlike objects', { type: 'array', uniqueItems: true }, n => list(n).map(i => ({ i })), 600],
  ['keywords for each member', {
    allOf: parts(100, { additionalProperties: { type: 'number' } })
  }, record, 66],
  ['characters', {
    allOf: parts(100, { type: 'string', maxLength: 1e6 })
  }, n => 'x'.repeat(n), 15_000]
]

t.test('a check that needs too much work is refused', async t => {
  for (const [what, schema, make, n] of cases) {
    const check = prepareCheck(schema)
    t.equal(check(make(Math.floor(n / 2))), 0, what)
    t.throws(() => check(make(n)), { code: 'too_much_work' }, what)
  }
})

t.test('the message says what to do', async t => {
  const check = prepareCheck({ items: { pattern: 'a' } })
  t.throws(() => check(list(1000).map(text)), {
    message: 'The check of the parameters needs more than 1000 units of work (MAX_WORK). ' +
      'Send them in several requests.'
  })
})

t.test('each check has its own budget', async t => {
  const check = prepareCheck({ items: { pattern: '^a+\\d+$' } })
  for (const i of list(5)) t.equal(check(list(200 + i).map(text)), 0)
})
