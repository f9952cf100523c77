/**
 * Tests which numbers of a request are written as digits: those whose schema says that they are
 * integers, wherever in the schema that is.
 */
import t from 'tap'
import { parseJson, writeJson, type JsonObject } from '../../../src/json/parse.ts'
import { readParameters, type Parameters } from '../../../src/named/parameters.ts'

const integer = { type: 'integer' }
const number = { type: 'number' }

/** Returns the value of the parameter `x`, which has a schema. */
function write (schema: unknown, x: string, more: object = {}): string {
  const text = JSON.stringify({ type: 'object', properties: { x: schema }, ...more })
  const read = readParameters(parseJson(Buffer.from(text)), Infinity) as Parameters
  const values = parseJson(Buffer.from(`{"x":${x}}`)) as JsonObject
  t.strictSame([...read.check(values)], [], x)
  return writeJson(read.read(values)[0] ?? null)
}

t.test('the digits of an integer', async t => {
  const nines = '9'.repeat(40)
  for (const [sent, written] of [
    ['1.0', '1'], ['1e3', '1000'], ['-0', '0'], ['-0.0', '0'], ['0e5', '0'], ['-1.50e1', '-15'],
    ['9007199254740993.0', '9007199254740993'], ['10e-1', '1'], ['1e20', '1'.padEnd(21, '0')],
    ['12345678901234567890', '12345678901234567890'], [`${nines}.0`, nines], ['1e40', '1e40'],
    ['1e999999', '1e999999'], [`1e${'9'.repeat(15)}`, `1e${'9'.repeat(15)}`], ['7', '7'],
    ['null', 'null']
  ] as const) t.equal(write({ type: ['integer', 'null'] }, sent), written, sent)
  for (const sent of ['1.0', '1.10', '1e3', '-0']) {
    for (const schema of [number, true, {}, { enum: [1, 1.1, 1000, 0] }, { not: { type: 'null' } },
      { type: ['integer', 'number'] }]) {
      t.equal(write(schema, sent), sent, JSON.stringify(schema))
    }
  }
})

t.test('an integer anywhere in the schema', async t => {
  const $defs = { id: integer, list: { type: 'array', items: { $ref: '#/$defs/id' } } }
  const cases: ReadonlyArray<readonly [schema: unknown, sent: string, written: string]> = [
    [{ $ref: '#/$defs/id' }, '1.0', '1'],
    [{ $ref: '#/$defs/list' }, '[2,1.0]', '[2,1]'],
    [{ allOf: [number, integer] }, '1.0', '1'],
    [{ anyOf: [integer, { type: 'string' }] }, '1.0', '1'],
    [{ oneOf: [integer, { type: 'null' }] }, '1.0', '1'],
    [{ anyOf: [integer, number] }, '1.0', '1.0'],
    [{ if: { minimum: 5 }, then: integer, else: number }, '9.0', '9.0'],
    [{ if: { minimum: 5 }, then: integer, else: integer }, '9.0', '9'],
    [{ prefixItems: [integer, number], items: integer }, '[1.0,1.0,1.0]', '[1,1.0,1]'],
    [
      { properties: { a: integer, b: number, d: true }, additionalProperties: integer },
      '{"c":1.0,"b":1.0,"a":1.0,"d":["1.0",null,1.0]}',
      '{"c":1,"b":1.0,"a":1,"d":["1.0",null,1.0]}'
    ],
    [
      { patternProperties: { '^n_': number }, additionalProperties: integer },
      '{"n_a":1.0,"n_b":1.0,"c":1.0}', '{"n_a":1.0,"n_b":1.0,"c":1}'
    ],
    [{ type: 'array', items: { properties: { a: integer } } }, '[{"a":1e1},{"b":1.0}]',
      '[{"a":10},{"b":1.0}]'],
    [true, '{"a":[1.0],"b":1e1}', '{"a":[1.0],"b":1e1}']
  ]
  for (const [schema, sent, written] of cases) {
    t.equal(write(schema, sent, { $defs }), written, JSON.stringify(schema))
  }
})

t.test('a default is written as digits, too', async t => {
  const params = parseJson(Buffer.from(
    '{"type":"object","properties":{"x":{"type":"integer","default":1e3},"constructor":true}}'
  ))
  const read = readParameters(params, Infinity) as Parameters
  t.equal(writeJson(read.read({}) as never), '[1000,null]')
})
