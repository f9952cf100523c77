/**
 * Tests which stored value an error of PostgreSQL is about, by the text that it quotes.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { findValue, storedRows, type ValuePlace } from '../../../src/plan/find-value.ts'
import type { PlanNode } from '../../../src/plan/nodes.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import type { Parameter } from '../../../src/plan/parameter.ts'

const limits = { schemas: ['public'], maxRows: 100, maxConditions: 100 }
const list: Parameter = {
  position: 0, isList: true, minItems: 0, isOptional: false
}
const parameters = new Map<string, Parameter>([
  ['tags', list],
  ['rows', {
    ...list,
    position: 1,
    rows: { declared: new Set(['a']), isClosed: true, columns: ['a'] }
  }]
])

function find (operation: object): ValuePlace | undefined {
  const batch = [{ id: 'o', table: 't', ...operation }] as unknown as Batch
  const node = planBatch(batch, limits, { parameters }).operations[0] as PlanNode
  return findValue(node, 'bad', { readReference: () => undefined })
}

t.test('the row of a text in several rows', async t => {
  const insert = (...values: readonly unknown[]): object =>
    ({ op: 'insert', values: values.map(a => ({ a, b: 1 })) })
  t.match(find(insert('good', 'bad')), { column: 'a', row: 1 })
  t.match(find(insert('bad', 'bad')), { column: 'a', row: 0 }, 'both rows are equally wrong')
  t.strictSame(find(insert('bad', ['bad'])), { column: 'a' }, 'only one of the rows may be wrong')
  t.equal(find({ op: 'insert', values: [{ a: 'bad', b: 'bad' }] }), undefined)
})

t.test('parameters without a value have no text', async t => {
  const set = { a: 'bad', b: ['$params.tags'], c: { rows: '$params.rows' } }
  t.match(find({ op: 'update', all: true, set }), { column: 'a' })
})

t.test('of several rows, none is known if a reference is not', async t => {
  const select = { id: 's', op: 'select', table: 't' }
  const insert = { id: 'o', op: 'insert', table: 't', values: [{ a: 1 }, { a: '$s.0.a' }] }
  const node = planBatch([select, insert] as unknown as Batch, limits).operations[1] as PlanNode
  t.strictSame(storedRows(node, { readReference: () => undefined }), [])
  const known = storedRows(node, { readReference: () => 2 })
  t.match(known, [{ values: { a: 1 } }, { values: { a: 2 } }])
})
