/**
 * Tests what locateRow makes of attempts that end in another way than the first one.
 */
import t from 'tap'
import { failure } from '../../../src/errors/catalogue.ts'
import { finish } from '../../../src/json/parse.ts'
import { BatchPlanner, toPlannedBatch, type PlannedBatch } from '../../../src/plan/plan-batch.ts'
import { locateRow } from '../../../src/transaction/locate-row.ts'
import type { BatchOutcome, Failed } from '../../../src/transaction/outcome.ts'
import * as op from '../../support/operations.ts'

const planner = new BatchPlanner({
  schemas: ['public'],
  maxRows: 100,
  maxConditions: 100,
  maxWork: 100_000
})
const planned = finish(planner.plan([
  op.insert('before', 'log', [{ n: 1 }]),
  op.insert('o', 'people', [{ age: 1 }, { age: -1 }])
] as unknown as Parameters<BatchPlanner['plan']>[0])) as PlannedBatch

const times = { operations: [] }
const error = { code: '23514', message: 'violates a check', constraint_name: 'people_age_check' }
const failed: Failed = { kind: 'failed', error, at: 1, times }

const locate = (outcome: BatchOutcome, first: Failed = failed) =>
  locateRow(first, planned, async () => outcome)

t.test('the row of the part that fails with the same error', async t => {
  t.equal(await locate({ ...failed, at: 2 }), 1)
})

t.test('no row after another end', async t => {
  t.equal(await locate({ kind: 'committed', rows: [], times }), undefined)
  t.equal(await locate({ kind: 'unknown', committed: false, times }), undefined)
  t.equal(await locate({ ...failed, at: 'commit' }), undefined)
  t.equal(await locate({ ...failed, at: 0 }), undefined, 'an operation before')
  const other = { ...error, constraint_name: 'people_name_check' }
  t.equal(await locate({ ...failed, error: other, at: 2 }), undefined, 'another constraint')
  const inFunction = { ...error, where: 'SQL statement' }
  t.equal(await locate({ ...failed, error: inFunction, at: 2 }), undefined, 'in a function')
})

t.test('no attempt that could not tell', async t => {
  const never = async (): Promise<BatchOutcome> => t.fail('no attempt') as never
  for (const first of [
    { ...failed, at: 'commit' },
    { ...failed, at: 0 },
    { ...failed, error: { ...error, code: '42501' } },
    { ...failed, error: { ...error, where: 'PL/pgSQL function' } },
    { ...failed, error: { ...error, code: '23503', detail: 'Key is not present in table "b".' } }
  ] as const) t.equal(await locateRow(first, planned, never), undefined)
  t.equal(await locateRow(failed, toPlannedBatch(planned.plan()), never), undefined, 'no rows')
})

t.test('an attempt that is not possible', async t => {
  const refused = Promise.reject(failure('overloaded'))
  t.equal(await locateRow(failed, planned, () => refused), undefined)
  await t.rejects(locateRow(failed, planned, () => Promise.reject(new Error('a bug'))), /a bug/)
})
