/**
 * Tests that the error of a value names its row and column, and never another one: in random
 * batches, the text of one bad value also stands in other rows, columns and operations.
 * `PROPERTY_RUNS=500` runs more cases, `SEED=n` repeats a run.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import * as op from '../support/operations.ts'
import { propertyRuns } from '../support/runs.ts'
import { useService } from '../support/service.ts'

const columns = `k int, t text, u text, j jsonb, l text[], i int, s smallint, v varchar(3), d date,
  r int4range, n numeric(4,2), m mood, a int[], p pair`
const schema = `
  create type mood as enum ('ok');
  create type pair as (word text, count int);
  create table things (${columns});
  create table earlier (t text, n int);
  insert into things (k) select generate_series(0, 40);`

/** The columns that refuse a value, with the value, and the text of it that is not refused. */
const refused: ReadonlyArray<readonly [column: string, value: unknown, text: string]> = [
  ['i', 'x', 'x'],
  ['i', 99_999_999_999, '99999999999'],
  ['i', 1.5, '1.5'],
  ['s', 70_000, '70000'],
  ['v', 'long', 'long'],
  ['d', '2024-02-31', '2024-02-31'],
  ['r', '[5,1)', '[5,1)'],
  ['n', 12_345, '12345'],
  ['m', ' ok', 'ok'],
  ['a', [1, 'x'], 'x'],
  ['p', { word: 'y', count: 'x' }, 'x']
]
const accepted: Readonly<Record<string, unknown>> = {
  i: null, s: 1, v: 'ok', d: '2024-02-29', r: '[1,5)', n: 2, m: 'ok', a: [2]
}

const { properties, required } =
  op.rowsOf(Object.fromEntries([...'ktujlisvdrnmap'].map(name => [name, true])))
const rowsParam = {
  type: 'object',
  properties: { ...properties, word: { type: 'string' } },
  required: [...required, 'word']
}
const first = op.insert('before', 'earlier', [{ t: '$params.word', n: 70_000 }])
const insert = op.insert('o', 'things', '$params.rows' as never)
const service = await useService(t, {
  schema,
  env: { MAX_UPLOAD_ROWS: '100' },
  batches: {
    insert: { params: rowsParam, operations: [first, insert] },
    from: {
      params: rowsParam,
      operations: [first, op.insert('o', 'things', undefined, {
        from: { param: 'rows' },
        columns: {
          t: '$params.word',
          u: { $col: 't' },
          ...Object.fromEntries([...'isvdrnmap'].map(name => [name, { $col: name }]))
        }
      })]
    },
    scalar: {
      params: { type: 'object', properties: { word: true, bad: true }, required: ['word', 'bad'] },
      operations: [first, op.insert('o', 'things', [
        { t: '$params.word', s: 1 }, { u: '$params.word', s: '$params.bad' }
      ])]
    }
  }
})

interface Case {
  readonly kind: 'insert' | 'key' | 'set' | 'batch' | 'from' | 'upload'
  readonly bad: (typeof refused)[number]
  readonly rows: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly at: number
}

const arbitraryCase = fc.record({
  kind: fc.constantFrom<Case['kind']>('insert', 'key', 'set', 'batch', 'from', 'upload'),
  bad: fc.constantFrom(...refused),
  count: fc.constantFrom(1, 2, 3, 20),
  place: fc.nat(),
  copies: fc.array(fc.tuple(fc.nat(), fc.constantFrom(...'tujlp')), { maxLength: 8 }),
  others: fc.array(fc.tuple(fc.nat(), fc.constantFrom(...'isvdrnma')), { maxLength: 8 }),
  inAll: fc.boolean(),
  reference: fc.boolean()
}).map(({ kind, bad, count, place, copies, others, inAll, reference }): Case => {
  const [column, value, text] = bad
  const size = kind === 'set' ? 1 : count
  const at = place % size
  const rows: Array<Record<string, unknown>> = Array.from({ length: size }, (_, k) =>
    ({ k, t: 'word' }))
  const row = (position: number) => rows[position % size] as Record<string, unknown>
  for (const [position, name] of others) row(position)[name] = accepted[name]
  const copy: Readonly<Record<string, unknown>> = {
    t: text, u: text, j: { word: [text] }, l: ['y', text], p: { word: text, count: 1 }
  }
  for (const [position, name] of copies) row(position)[name] = copy[name]
  if (reference && ['insert', 'key', 'set'].includes(kind)) row(place + 1)['u'] = '$before.0.t'
  row(at)[column] = value
  // Rows that name the same columns are stored together.
  if (inAll) {
    const none = Object.fromEntries(rows.flatMap(Object.keys).map(name => [name, null]))
    rows.forEach((row, i) => {
      rows[i] = { ...none, ...row }
    })
  }
  return { kind, bad, rows, at }
})

async function send ({ kind, bad: [, , word], rows }: Case) {
  const before = op.insert('before', 'earlier', [{ t: word, n: 1 }])
  const { k, ...set } = rows[0] as Record<string, unknown>
  switch (kind) {
    case 'insert':
      return await service.post([before, op.insert('o', 'things', rows)])
    case 'key':
      return await service.post([before, op.update('o', 'things', { key: ['k'], values: rows })])
    case 'set':
      return await service.post([before, op.update('o', 'things', { set, all: true })])
    case 'upload':
      return await service.run(
        `from?word=${encodeURIComponent(word)}`,
        rows.map(row => `${JSON.stringify(row)}\n`).join(''),
        { headers: { 'content-type': 'application/x-ndjson' } }
      )
    default:
      return await service.run(kind === 'batch' ? 'insert' : 'from', { rows, word })
  }
}

const named = /^(?:Row (?<row>\d+) of (?:values|from)(?:, (?:column|member)|:)|Column) ?(?:"(?<column>\w+)":)?/

function pathOf ({ kind, bad: [column], at }: Case): ReadonlyArray<string | number> {
  return kind === 'set' ? ['set', column] : [kind === 'upload' ? 'rows' : 'values', at, column]
}

t.test('no other row or column is named', async t => {
  let found = 0
  const property = fc.asyncProperty(arbitraryCase, async sent => {
    const { kind, bad: [column], at } = sent
    const { status, body: { error } } = await send(sent)
    // PostgreSQL refuses a value, or its type does before anything is sent.
    const isWritten = error.code === 'value_invalid'
    assert.equal(status, isWritten ? 422 : 400, JSON.stringify(error))
    const groups = named.exec(error.message)?.groups ?? {}
    const about = JSON.stringify([sent, error.message])
    assert.equal(groups['column'] ?? column, column, about)
    assert.equal(Number(groups['row'] ?? at), at, about)
    // The row alone, if PostgreSQL does not quote the value.
    const isRow = !isWritten && kind !== 'set' && error.path?.length === 2
    const path = isRow ? ['values', at] : pathOf(sent)
    assert.deepEqual(error.path ?? (isWritten ? [] : path), path, about)
    if (groups['column'] !== undefined) found++
  })
  await fc.assert(property, {
    numRuns: propertyRuns(60, 300),
    ...process.env['SEED'] === undefined ? {} : { seed: Number(process.env['SEED']) }
  })
  t.ok(found > 0, `${found} columns`)
})

t.test('a parameter that is refused is named', async t => {
  for (const [word, bad, message] of [
    ['y', 'x', /^Row 1 of values, column "s": invalid input/],
    ['x', 'x', /^Row 1 of values, column "s": invalid input/],
    ['y', 70_000, /^Row 1 of values, column "s": value "…" is out of range/]
  ] as const) {
    const answer = await service.run('scalar', { word, bad })
    t.match(answer, { status: 400, body: { error: { op: 'o', message } } }, `${word} ${bad}`)
  }
})

t.test('a value that is not one of a row is not taken for one', async t => {
  const conflict = (members: object): object =>
    ({ on_conflict: { columns: ['k'], do: 'update', ...members } })
  const { sql } = service.database
  await sql`create unique index on things (k)`
  for (const members of [
    { set: { t: 'x' }, where: { i: { eq: 'x' } } },
    { set: { n: 12_345 } }
  ]) {
    const { body } = await service.post([
      op.insert('o', 'things', [{ k: 0, t: 'x' }, { k: 1, t: 'y' }], conflict(members))
    ])
    t.equal(body.error.op, 'o')
    t.notMatch(body.error.message, /^Row/, JSON.stringify(members))
  }
})

t.test('a value of an earlier operation that is refused is named', async t => {
  const { sql } = service.database
  await sql`create table sources (k int primary key, p numeric(8, 2), f float8, q int)`
  await sql`insert into sources values (1, 100, 1.5, 2)`
  const before = op.select('b', 'sources', {
    columns: ['p', 'f', 'q', { fn: 'avg', column: 'p', as: 'avg' }],
    group_by: ['p', 'f', 'q']
  })
  const set = (set: object, where: object = { k: { eq: 0 } }): object =>
    op.update('o', 'things', { set, where })
  const cases: ReadonlyArray<readonly [operation: object, place: string | undefined]> = [
    [op.insert('o', 'things', [{ k: 90, i: '$b.0.p' }]), 'Row 0 of values, column "i"'],
    [op.insert('o', 'things', [{ k: 90, i: 1 }, { k: 91, i: '$b.0.avg' }]),
      'Row 1 of values, column "i"'],
    [set({ i: { $inc: '$b.0.f' }, t: 'x' }), 'Column "i"'],
    [set({ i: { $first: ['$b.0.f', '$b.0.p'] } }), 'Column "i"'],
    [set({ s: '$b.0.p', i: '$b.0.q' }, { k: { lt: '$b.0.q' } }), 'Column "s"'],
    [op.update('o', 'things', { key: ['k'], values: [{ k: 1, i: 1 }, { k: 2, i: '$b.0.p' }] }),
      'Row 1 of values, column "i"'],
    [op.update('o', 'things', {
      key: ['k'],
      values: Array.from({ length: 40 }, (_, k) => ({ k, i: k === 30 ? '$b.0.p' : k }))
    }), 'Row 30 of values, column "i"'],
    [op.insert('o', 'things', [{ k: 0 }], {
      on_conflict: { columns: ['k'], do: 'update', set: { i: '$b.0.p' } }
    }), 'Column "i"'],
    [op.insert('o', 'things', undefined, {
      from: { table: 'sources' }, columns: { k: { $col: 'k' }, i: '$b.0.p' }
    }), 'Column "i"'],
    // A text is not refused.
    [set({ i: '$b.0.p', t: '100.00' }), 'Column "i"'],
    // Several columns could be meant, or a condition.
    [set({ i: '$b.0.p', s: '$b.0.p' }), undefined],
    [set({ i: '$b.0.p' }, { s: { eq: '$b.0.p' } }), undefined],
    [op.select('o', 'things', { where: { i: { in: ['$b.0.p', '$b.0.f'] } } }), undefined]
  ]
  for (const [operation, place] of cases) {
    const { status, body } = await service.post([before, operation])
    const about = JSON.stringify(operation)
    t.match(body.error, { op: 'o', sqlstate: '22P02' }, about)
    t.equal(status, 400, about)
    const found = /^(?<place>.*): invalid input/.exec(body.error.message)?.groups?.['place']
    t.equal(found, place, `${about}: ${body.error.message}`)
  }
  const headers = { prefer: 'return=minimal' }
  const { body } = await service.post([before, set({ i: '$b.0.p' })], { headers })
  t.match(body.error, { op: 'o', message: /^invalid input/ }, 'the value is not known')
})

t.test('JSON of an earlier operation that a column refuses is named', async t => {
  const before = op.insert('b', 'things', [{ k: 60, j: { word: 'x' }, t: 'y', n: 1 }])
  const insert = (values: object): object => op.insert('o', 'things', [values])
  const cases: ReadonlyArray<readonly [operation: object, message: string]> = [
    [insert({ k: 61, a: '$b.0.j' }), 'Row 0 of values, column "a": '],
    [op.update('o', 'things', { key: ['k'], values: [{ k: 1, a: '$b.0.j' }] }),
      'Row 0 of values, column "a": '],
    [op.update('o', 'things', { set: { a: '$b.0.j' }, where: { k: { eq: 1 } } }), 'Column "a": '],
    [insert({ k: 61, p: { word: '$b.0.t', nope: 1 } }),
      'Row 0 of values, column "p": the type pair has no member "nope".'],
    [insert({ k: 61, p: { $merge: '$b.0.t' } }),
      'Row 0 of values, column "p": the type pair has no member "$merge". The modifier $merge']
  ]
  for (const [operation, message] of cases) {
    const { body: { error } } = await service.post([before, operation])
    t.ok(error?.message.startsWith(message), `${JSON.stringify(operation)}: ${error?.message}`)
  }
})
