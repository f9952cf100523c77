/** Tests how a plan is divided into statements that are sent one by one. */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { isNested, type Json, type JsonObject } from '../../../src/json/parse.ts'
import { readNumber } from '../../../src/plan/document.ts'
import type { Reference } from '../../../src/plan/nodes.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import {
  separate,
  type Input,
  type Sending,
  type SentRows,
  type SeparatePlan
} from '../../../src/plan/separate.ts'
import * as op from '../../support/operations.ts'

const limits = { schemas: ['public'], maxRows: 100, maxConditions: 100 }

function divide (batch: readonly object[]): SeparatePlan {
  return separate(planBatch(batch as unknown as Batch, limits), { values: 0, isUpload: false })
}

/** A reference as a client writes it. */
function show ({ source, row, column }: Reference): string {
  return `$${source}.${row}.${String(column)}`
}

/** The rows that are sent: their positions, and their values as a client writes them. */
function rowsOf ({ sent, inputs }: Sending): ReadonlyArray<readonly [number, readonly unknown[]]> {
  const { rows: { value, references }, positions, fields } = sent as SentRows
  return (value as readonly JsonObject[]).map((row, i) => [
    positions[i] as number,
    [
      ...fields.map(({ name }) => {
        const cell = row[name] as Json
        const number = readNumber(cell)
        if (number !== undefined) return show(references[number] as Reference)
        return isNested(cell) ? 'joined' : cell
      }),
      ...inputs.map(({ reference }) => show(reference))
    ]
  ])
}

function showInput ({ reference, uses }: Input): string {
  return `${show(reference)} ${['never', 'once', 'twice'][uses] ?? `${uses} times`}`
}

const order = { id: 'o', op: 'insert', table: 'orders', values: [{ a: 1 }] }

t.test('each group of rows repeats the values of `on_conflict`', t => {
  const { operations } = divide([
    order,
    op.insert('i', 't', [{ a: '$o.0.id' }, { b: 1 }], {
      on_conflict: { columns: ['a'], do: 'update', set: { a: '$o.0.id', b: '$o.0.b' } },
      returning: []
    })
  ])
  t.same(operations[1]?.map(({ inputs }) => inputs.map(showInput)), [
    ['$0.0.id 3 times', '$0.0.b twice']
  ])
  t.end()
})

t.test('a reference becomes a value, once for each text', t => {
  const { statements, operations } = divide([
    order,
    op.select('s', 't', {
      where: { a: { eq: '$o.0.id' }, b: { gt: '$o.0.id' }, c: { in: '$o.*.id' } }
    })
  ])
  t.same(operations.map(all => all.map(({ inputs }) => inputs.map(showInput))), [
    [[]],
    [['$0.0.id twice', '$0.*.id once']]
  ])
  t.same(statements.map(({ isRead }) => isRead), [true, false])
  const [, { plan }] = statements as SeparatePlan['statements'] & { 1: { plan: unknown } }
  t.match(plan, { operations: [{ index: 1 }] })
  t.end()
})

t.test('rows that are returned are stored by one statement each, in their order', t => {
  const i = op.insert('i', 't', [
    { a: 1 },
    { b: { c: ['$o.0.id'] } },
    { a: '$o.0.id' }
  ])
  const [, sent] = divide([order, i]).operations
  t.same(sent?.flatMap(rowsOf), [
    [0, [1]],
    [1, ['joined']],
    [2, ['$0.0.id']]
  ])
  const [, hidden] = divide([order, { ...i, returning: [] }]).operations
  t.equal(hidden?.length, 1)
  t.end()
})

t.test('many rows are stored one by one, with the references in them', t => {
  const values = Array.from({ length: 40 }, (_, a) => ({ a, b: a === 30 ? ['$o.0.id'] : 'x' }))
  const { statements, operations: [, sent = []] } = divide([
    order,
    { id: 'i', op: 'insert', table: 't', values }
  ])
  t.equal(statements.length, 2)
  const rows = sent.flatMap(rowsOf)
  t.same(rows[7], [7, [7, 'x']])
  t.same(rows[30], [30, [30, 'joined']])
  t.end()
})

t.test('each row of an update by key is an update, with what all of them have', t => {
  const { operations: [, sent] } = divide([order, op.update('u', 't', {
    key: ['k'],
    values: [{ k: 1, a: 2, n: { $inc: 3 } }, { k: '$o.0.id', a: null, n: { $inc: 4 } }],
    where: { c: { eq: '$o.0.c' } }
  })])
  t.same(sent?.map(({ sent }) => sent?.key), [['k']])
  t.same(sent?.flatMap(rowsOf), [
    [0, [1, 2, 3, '$0.0.c']],
    [1, ['$0.0.id', null, 4, '$0.0.c']]
  ])
  t.end()
})
