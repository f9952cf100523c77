/**
 * Tests that equal values have the same canonical text, and others have not.
 */
import t from 'tap'
import { writeCanonically } from '../../../src/json/canonical.ts'
import { parseJson } from '../../../src/json/parse.ts'

const write = (text: string): string => writeCanonically(parseJson(Buffer.from(text)))

t.test('equal values have the same text', async t => {
  const equal: ReadonlyArray<readonly [text: string, ...others: string[]]> = [
    ['{"a":1,"b":[2,"x",null,true]}', '{ "b": [2.0, "\\u0078", null, true], "a": 1e0 }'],
    ['0', '-0', '0.0', '0e999'],
    ['1.1', '1.10', '11e-1'],
    ['0.9007199254740993e16', '9007199254740993', '9007199254740993.0', '90071992547409930e-1'],
    ['0.1e401', '1e400', '10e399']
  ]
  for (const [text, ...others] of equal) {
    for (const other of [text, ...others]) t.equal(write(other), text, other)
  }
})

t.test('values that differ have different texts', async t => {
  const values = ['1', '"1"', '[1]', '["1"]', '{"a":1}', '{"a":"1"}', 'null', '"null"', '[]', '{}',
    '9007199254740993', '9007199254740992', '1e400', '1e401', '1e9999999999999998',
    '1e9999999999999999']
  t.equal(new Set(values.map(write)).size, values.length)
})
