/**
 * Tests that the value of a reference is read from a result only if it is certain.
 */
import t from 'tap'
import { writeJson, type Json } from '../../../src/json/parse.ts'
import type { Reference } from '../../../src/plan/nodes.ts'
import { referenceReader, rowsOfResults } from '../../../src/transaction/read-reference.ts'

const results = [
  '[{"a":1.10,"b":null},{"a":2}]', '3', 'null', '[]', '[{"a":{"x":1,"x":2}}]'
].map(text => Buffer.from(text))

const refer = (
  source: number,
  row: Reference['row'],
  column?: string,
  otherwise?: readonly Reference[]
): Reference => ({
  kind: 'reference', source, row, column, ...otherwise === undefined ? {} : { otherwise }
})

t.test('values of results', async t => {
  const read = referenceReader(rowsOfResults(results))
  const cases: ReadonlyArray<readonly [Reference, string | undefined]> = [
    [refer(0, 0, 'a'), '1.10'],
    [refer(0, 0, 'b'), 'null'],
    [refer(0, 1), '{"a":2}'],
    [refer(0, '*', 'a'), '[1.10,2]'],
    [refer(3, 0, 'a', [refer(0, 1, 'a')]), '2'],
    // The column is not returned, there are no rows, or the result is no list that can be read.
    [refer(0, 1, 'b'), undefined],
    [refer(0, '*', 'b'), undefined],
    [refer(0, 2, 'a'), undefined],
    [refer(1, 0, 'a'), undefined],
    [refer(2, 0, 'a'), undefined],
    [refer(4, 0, 'a'), undefined],
    [refer(5, 0, 'a'), undefined]
  ]
  for (const [reference, expected] of cases) {
    const value: Json | undefined = read(reference)
    t.equal(value === undefined ? undefined : writeJson(value), expected, JSON.stringify(reference))
  }
})
