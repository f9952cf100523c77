/**
 * Tests the paths of values that their types refuse, by the kind of their operation.
 */
import t from 'tap'
import { BatchPlanner } from '../../../src/plan/plan-batch.ts'
import type { PlanNode } from '../../../src/plan/nodes.ts'
import { pathOf, pathOfStored } from '../../../src/transaction/refused-values.ts'
import * as op from '../../support/operations.ts'

const planner = new BatchPlanner({
  schemas: ['public'],
  maxRows: 100,
  maxConditions: 100
})

function plan (operation: object): PlanNode {
  const batch = [operation] as unknown as Parameters<BatchPlanner['plan']>[0]
  return planner.plan(batch).plan.operations[0] as PlanNode
}

const where = { a: { cs: [1] } }
const conflict = { on_conflict: { columns: ['a'], do: 'update', set: { b: 1 }, where } }
const nodes = {
  insert: plan(op.insert('i', 't', [{ a: 1 }], conflict)),
  query: plan({
    id: 'i', op: 'insert', table: 't', from: { table: 's' }, columns: { a: 1 }, ...conflict
  }),
  update: plan(op.update('u', 't', { set: { a: { $inc: 1 } }, where })),
  keyed: plan(op.update('u', 't', { key: ['a'], values: [{ a: 1, b: { $inc: 1 } }] })),
  groups: plan(op.update('u', 't', {
    key: [{ column: 'a', as: 'old' }],
    values: [
      { old: 1, b: { $inc: 1 } }, { old: 2, b: { $inc: 1 } }, { old: 3, b: { $dec: 1 } },
      { old: 4, a: 1 }, { old: 5, c: { $inc: 1 } }, { old: 6, c: { $dec: 1 } }
    ]
  })),
  call: plan(op.call('c', 'f', { a: 1 }))
}

t.test('a value in a condition', async t => {
  const compared = { column: 'a', isCompared: true }
  const at = ['where', 'a', 'cs']
  t.strictSame(pathOf(nodes.query, { ...compared, at }), at)
  t.strictSame(pathOf(nodes.keyed, { ...compared, row: 0 }), ['values', 0, 'a'])
})

t.test('a value that is stored', async t => {
  const stored = { column: 'a', row: 3 }
  t.strictSame(pathOf(nodes.insert, stored), ['values', 3, 'a'])
  t.strictSame(pathOf(nodes.keyed, { column: 'b' }), ['values', 0, 'b', '$inc'])
  t.strictSame(pathOf(nodes.keyed, { column: 'z', row: 0 }), ['values', 0, 'z'])
  t.strictSame(pathOf(nodes.insert, { column: 'b' }), ['on_conflict', 'set', 'b'])
  t.strictSame(pathOf(nodes.query, { column: 'a' }), ['columns', 'a'])
  t.strictSame(pathOf(nodes.query, { column: 'b' }), ['on_conflict', 'set', 'b'])
  t.strictSame(pathOf(nodes.update, { column: 'a' }), ['set', 'a', '$inc'])
  t.strictSame(pathOf(nodes.call, { column: 'a' }), ['args', 'a'])
})

t.test('a value in the rows of an update by key', async t => {
  const rows: ReadonlyArray<readonly [Parameters<typeof pathOf>[1], ...path: unknown[]]> = [
    [{ column: 'b', row: 1 }, 'values', 1, 'b', '$inc'],
    [{ column: 'b' }, 'values', 2, 'b', '$dec'],
    [{ column: 'c' }, 'values'],
    [{ column: 'a', row: 2, isCompared: true }, 'values', 2, 'old'],
    [{ column: 'a', row: 3, isCompared: true }, 'values', 3, 'old'],
    [{ column: 'a', row: 3 }, 'values', 3, 'a'],
    [{ column: 'a', row: 2 }, 'values', 2, 'old']
  ]
  for (const [place, ...path] of rows) t.strictSame(pathOf(nodes.groups, place), path)
})

t.test('a value that was found by its text', async t => {
  t.strictSame(pathOfStored(nodes.insert, { column: 'a', row: 0 }), ['values', 0, 'a'])
  t.equal(pathOfStored(nodes.insert, { column: 'a' }), undefined, 'of one of several rows')
  t.strictSame(pathOfStored(nodes.update, { column: 'a' }), ['set', 'a', '$inc'])
  t.equal(pathOfStored(nodes.keyed, { column: 'b' }), undefined, 'of one of several rows')
})
