/** Tests MAX_WORK: which batches are refused because they would keep the service busy. */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { Failure } from '../../../src/errors/catalogue.ts'
import { parseJson } from '../../../src/json/parse.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'

const limits = { schemas: ['public'], maxRows: 10_000, maxConditions: 1000, maxWork: 100_000 }

function plan (batch: unknown, maxWork = limits.maxWork): ReturnType<typeof planBatch> {
  const body = parseJson(Buffer.from(JSON.stringify(batch))) as unknown as Batch
  return planBatch(body, { ...limits, maxWork })
}

function codeOf (batch: unknown): string {
  try {
    plan(batch)
    return 'accepted'
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return error.code
  }
}

const list = <T>(length: number, create: (i: number) => T): T[] =>
  Array.from({ length }, (_, i) => create(i))
const fields = <T>(length: number, value: (i: number) => T, name = 'c'): Record<string, T> =>
  Object.fromEntries(list(length, i => [`${name}${i}`, value(i)]))
const path = (keys: number): string => `j${'->k'.repeat(keys)}`

const source = { id: 'a', op: 'select', table: 't' }
const select = (id: number, members: object): object => ({ ...source, id: `s${id}`, ...members })
const insert = (id: number, members: object): object => ({ ...select(id, members), op: 'insert' })
const update = (id: number, members: object): object => ({ ...select(id, members), op: 'update' })

const anyOf = (length: number, condition: (i: number) => object): object =>
  ({ where: { or: list(length, condition) } })
const equal = (i: number): object => ({ a: { eq: i } })
const on = { table: 'u', on: { id: 'id' } }
const increment = { $inc: 1 }
const byKey = (length: number, change: (i: number) => object): object =>
  ({ key: ['id'], values: list(length, id => ({ id, ...change(id) })) })

t.test('large batches of one kind of work are accepted', async t => {
  const batches: Readonly<Record<string, unknown>> = {
    '100 operations': list(100, i => select(i, anyOf(20, equal))),
    '1000 conditions': [select(0, anyOf(1000, equal))],
    'a list of 200 000 numbers': [select(0, { where: { a: { in: list(200_000, i => i) } } })],
    '10 000 rows': [insert(0, { values: list(10_000, () => fields(8, () => 1)) })],
    '10 000 rows with references': [
      source,
      insert(0, { values: list(10_000, () => fields(4, () => '$a.0.id')) })
    ],
    '10 000 rows by key': [update(0, byKey(10_000, () => fields(4, () => 1)))],
    '1600 columns': [update(0, { all: true, set: fields(1600, () => increment) })],
    'when in 100 operations': list(100, i =>
      select(i, i === 0 ? {} : { when: Object.fromEntries(list(i, n => [`s${n}`, 1])) })
    )
  }
  for (const [what, batch] of Object.entries(batches)) t.equal(codeOf(batch), 'accepted', what)
})

t.test('the product of two limits is refused', async t => {
  const firstOf = (n: number): object =>
    ({ a: { eq: { $first: list(9, k => `$a.${9 * n + k}.id`) } } })
  const batches: Readonly<Record<string, unknown>> = {
    'conditions of operations': list(60, i => select(i, anyOf(1000, equal))),
    'keys of conditions': [select(0, anyOf(650, i => ({ [path(99)]: { eq: i } })))],
    'keys of columns': list(5, i =>
      select(i, { columns: list(200, n => ({ column: path(99), as: `c${n}` })) })
    ),
    'references of operations': [
      source,
      ...list(90, i => select(i, { where: { a: { in: list(700, () => '$a.0.id') } } }))
    ],
    '$first of operations': [source, ...list(90, i => select(i, anyOf(100, firstOf)))],
    'groups of operations': list(100, i =>
      insert(i, { values: list(190, n => ({ [`c${n}`]: 1, x: 1 })) })
    ),
    'groups by key of operations': list(100, i =>
      update(i, byKey(180, n => ({ [`c${n}`]: increment })))
    ),
    'nested reads of operations': list(100, i => select(i, { with: fields(100, () => on, 'w') })),
    'exists of operations': list(11, i =>
      select(i, anyOf(490, () => ({ exists: { ...on, where: { a: { eq: 1 } } } })))
    ),
    'arguments of operations': list(90, i =>
      ({ id: `c${i}`, op: 'call', function: 'f', args: fields(1000, n => n) })
    ),
    'sort keys of operations': list(20, i =>
      select(i, { order: list(1600, n => ({ [`c${n}`]: 'asc' })) })
    ),
    'computed values of operations': list(20, i =>
      update(i, { all: true, set: fields(1500, () => increment) })
    ),
    'columns of queries': list(15, i =>
      insert(i, { from: { table: 'u' }, columns: fields(1500, n => ({ $col: `a${n}` })) })
    )
  }
  for (const [what, batch] of Object.entries(batches)) t.equal(codeOf(batch), 'too_much_work', what)
})

t.test('the refusal names the operation and what to do', async t => {
  const batch = [select(0, {}), select(1, anyOf(100, equal))]
  const { work } = plan(batch)
  const total = Math.ceil(work.reduce((sum, units) => sum + units, 0))
  t.equal(work.length, 2)
  t.ok((work[1] as number) > (work[0] as number) + 100 * 5)
  t.doesNotThrow(() => plan(batch, total))
  t.throws(() => plan(batch, total - 1), {
    code: 'too_much_work',
    status: 413,
    type: 'request_error',
    message: /more than \d+ units of work \(MAX_WORK\), exceeded in operation 1 \("s1"\)\. Send /,
    details: { op: 's1', index: 1 }
  })
})
