/** Tests how names, operators and references of a batch are counted, and what is refused. */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { maxParts } from '../../../schemas/operation.ts'
import { parseJson } from '../../../src/json/parse.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import * as op from '../../support/operations.ts'

function plan (batch: readonly object[], max?: number): unknown {
  const body = parseJson(Buffer.from(JSON.stringify(batch))) as unknown as Batch
  const limits = { schemas: ['public'], maxRows: 10_000, maxConditions: 1000 }
  return planBatch(body, max === undefined ? limits : { ...limits, maxParts: max })
}

const list = <T>(length: number, create: (i: number) => T): T[] =>
  Array.from({ length }, (_, i) => create(i))
const fields = <T>(length: number, value: (i: number) => T): Record<string, T> =>
  Object.fromEntries(list(length, i => [`c${i}`, value(i)]))

const source = op.select('a', 't')
const select = (members: object): object => op.select('s', 't', members)
const where = (filter: object): object => select({ where: filter })
const update = (members: object): object => op.update('s', 't', members)
const set = (value: unknown): object => update({ all: true, set: { x: value } })
const insert = (rows: readonly object[], members = {}): object => op.insert('s', 't', rows, members)
const byKey = (rows: readonly object[], members = {}): object =>
  update({ key: ['id'], values: rows, ...members })
const on = { table: 'u', on: { id: 'id' } }
const conflict = (members: object): object =>
  ({ on_conflict: { columns: ['id'], do: 'update', ...members } })

/** What an operation counts, and the path of its last name, operator or reference. */
type Counted = readonly [operation: object, parts: number, path: ReadonlyArray<string | number>]

const kinds: Readonly<Record<string, Counted>> = {
  'a condition': [where({ x: { eq: 1 } }), 2, ['where', 'x', 'eq']],
  'keys of a path': [where({ 'j->k->>0': { is: null } }), 4, ['where', 'j->k->>0', 'is']],
  'a column as an operand': [
    where({ x: { eq: { $col: 'j->k' } } }), 5, ['where', 'x', 'eq', '$col']
  ],
  'JSON that is compared': [
    where({ j: { cs: { k: { l: [1, 2] }, m: 1 } } }), 2, ['where', 'j', 'cs']
  ],
  exists: [
    where({ exists: { ...on, where: { x: { eq: 1 } } } }), 8,
    ['where', 'exists', 'where', 'x', 'eq']
  ],
  'output columns': [
    select({ columns: ['x', { column: 'j->k', as: 'y' }] }), 6, ['columns', 1, 'as']
  ],
  'an order': [
    select({ order: [{ x: 'asc' }, { y: { direction: 'asc' } }] }), 3,
    ['order', 1, 'y', 'direction']
  ],
  'a nested read': [select({ with: { us: on } }), 5, ['with', 'us', 'on', 'id']],
  when: [select({ when: { a: 1 } }), 1, ['when', 'a']],
  args: [op.call('s', 'f', { x: 1, y: { k: [1] } }), 2, ['args', 'y']],
  'new values': [update({ all: true, set: { x: 1, y: { k: { l: 1 } } } }), 2, ['set']],
  'a modifier with JSON': [set({ $merge: { k: 1, l: 2 } }), 2, ['set', 'x', '$merge']],
  'a modifier with a column': [set({ $col: 'y' }), 3, ['set', 'x', '$col']],
  'columns of a query': [
    { id: 's', op: 'insert', table: 't', from: { table: 'u' }, columns: { x: { $col: 'y' } } }, 4,
    ['columns', 'x', '$col']
  ],
  'one group of rows': [insert([{ x: 1, y: 1 }, { x: 2, y: { $inc: { k: 1 } } }]), 3, ['values']],
  'groups of rows': [insert([{ x: 1 }, { y: 1 }], { returning: ['x'] }), 7, ['values']],
  'groups with on_conflict': [
    insert([{ id: 1 }, { id: 2, x: 1 }], conflict({ set: { x: 1 }, where: { y: { gt: 1 } } })),
    17, ['values']
  ],
  'groups of rows by key': [
    byKey([{ id: 1, x: 1 }, { id: 2, y: 1 }], { returning: ['x'] }), 10, ['values']
  ]
}

const message = (max: number, index: number): RegExp => new RegExp(
  `^The batch has more than ${max} names, operators and references, exceeded in operation ` +
  `${index} \\("s"\\)\\. Send its operations in several batches, or its conditions as lists `
)

t.test('every kind of name, operator and reference counts', async t => {
  for (const [what, [operation, parts, path]] of Object.entries(kinds)) {
    t.doesNotThrow(() => plan([source, operation], parts), what)
    t.throws(() => plan([source, operation], parts - 1), {
      code: 'too_much_work',
      status: 413,
      type: 'request_error',
      message: message(parts - 1, 1),
      details: { op: 's', index: 1, path }
    }, what)
  }
})

t.test('a reference counts wherever it stands', async t => {
  const places: Readonly<Record<string, readonly [operation: object, others: number]>> = {
    where: [where({ x: { eq: '$a.0.x' } }), 2],
    where_list: [where({ x: { in: ['$a.0.x', '$$a.0.x', '$5'] } }), 2],
    set: [set({ k: ['$a.0.x'] }), 1],
    args: [op.call('s', 'f', { x: { k: '$a.0.x' } }), 1],
    values: [insert(list(20, i => i < 2 ? { x: '$a.0.x' } : { x: i })), 2],
    one_of_few_rows: [insert([{ x: '$a.0.x' }]), 2],
    operand: [insert(list(20, i => i === 0 ? { x: { $first: ['$a.0.x'] } } : { x: i })), 2]
  }
  for (const [place, [operation, others]] of Object.entries(places)) {
    t.doesNotThrow(() => plan([source, operation], others + 1), place)
    t.throws(() => plan([source, operation], others), { code: 'too_much_work' }, place)
  }
  t.throws(() => plan([source, insert([{ x: '$a' }])], 0), {
    message: message(0, 1), details: { path: ['values'] }
  })
})

t.test('all operations count together', async t => {
  const size = 20
  const conditions = (length: number): object =>
    ({ where: { and: list(length, () => ({ x: { eq: 1 } })) } })
  const each = Math.floor((maxParts / size - 1) / 2)
  const batch = list(size, i => op.select(`o${i}`, 't', conditions(each)))
  const rest = maxParts - size * (2 * each + 1)
  const last = (parts: number): object =>
    op.select('s', 't', { columns: list(parts, i => `c${i}`) })
  t.doesNotThrow(() => plan([...batch, last(rest)]))
  t.throws(() => plan([...batch, last(rest + 1)]), {
    message: message(maxParts, size), details: { index: size, path: ['columns', rest] }
  })
})

t.test('large batches with few names are accepted', async t => {
  const batches: Readonly<Record<string, object>> = {
    'a list of 200 000 numbers': where({ x: { in: list(200_000, i => i) } }),
    'a list of texts that begin with $': where({ x: { in: list(50_000, i => `$${i}`) } }),
    '10 000 rows': insert(list(10_000, () => fields(8, () => 1))),
    '10 000 rows with a reference each': insert(list(10_000, () => ({ x: '$a.0.id' }))),
    '10 000 rows by key': byKey(list(10_000, id => ({ id, ...fields(4, () => 1) }))),
    'a JSON value of many members': set(fields(50_000, () => 1))
  }
  for (const [what, operation] of Object.entries(batches)) {
    t.doesNotThrow(() => plan([source, operation]), what)
  }
})
