/**
 * Tests `$first`: it is the first of several references whose row exists, wherever a reference to
 * one value may stand, in all runs of a batch.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { findFailure, issuesOf } from '../support/issues.ts'
import { expectSame, useRuns } from '../support/runs-of-batch.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('sad', 'happy');
  create domain sku as text check (value <> '');
  create table sources (id int primary key, n int, big bigint, num numeric, txt text,
    ts timestamptz, day date, flag bool, data jsonb, doc json, mood mood, code sku, ints int[],
    texts text[]);
  insert into sources values
    (1, 1, 9007199254740993, 12345678901234567890.120, 'a', '2026-01-02T03:04:05.000006Z',
      '2026-01-02', true, '{"k": [1, "a"]}', '{"k":1}', 'happy', 'x', '{1,2}', '{a}'),
    (2, 2, -1, 0.10, 'b', 'infinity', '0044-03-15 BC', false, 'null', 'null', 'sad', 'y', '{}',
      '{"b c"}'),
    (3, null, null, null, null, null, null, null, null, null, null, null, null, null);
  create table targets (like sources);
  alter table targets add primary key (id);
  insert into targets select * from sources;
  insert into targets select id + 10, n, big, num, txt, ts, day, flag, data, doc, mood, code, ints,
    texts from sources;
  grant all on all tables in schema public to oneflight_user;
`
const tables = ['targets']
const columns = [
  'n', 'big', 'num', 'txt', 'ts', 'day', 'flag', 'data', 'doc', 'mood', 'code', 'ints', 'texts'
]

type Op = Readonly<Record<string, unknown>>
/** Reads one row, or none. */
const source = (id: string, row: number, more: object = {}): Op =>
  op.select(id, 'sources', { where: { id: { eq: row } }, ...more })

/** Operations that read a value of a column in each way that there is. */
function readersOf (column: string, value: unknown): readonly Op[] {
  const where = { id: { in: [1, 2] } }
  const nested = { a: [value, { b: value }], c: value }
  const filters = [
    { [column]: { isdistinct: value } },
    { or: [{ [column]: { eq: value } }, { id: { eq: 3 } }], not: { [column]: { neq: value } } },
    { [column]: { in: [value] } },
    { [column]: { between: [value, value] } },
    { [column]: { gte: { any: [value] }, lte: { all: [value] } } }
  ]
  const insert = (values: readonly object[], more: object = {}): Op =>
    ({ op: 'insert', table: 'targets', values, ...more })
  const update = (set: object): Op => ({ op: 'update', table: 'targets', set, where })
  const rows = (count: number): readonly object[] =>
    Array.from({ length: count }, (_, i) => ({ id: 50 + i, [column]: value }))
  return [
    insert(rows(1)),
    insert([{ id: 50, [column]: value }, { id: 51, [column]: value, txt: 'other' }]),
    insert(rows(10)),
    insert(rows(30)),
    insert([{ id: 50, data: nested }, { id: 51, data: value }]),
    insert([{ id: 50, data: [...Array.from({ length: 9 }, () => value), '$many.*.id'] }]),
    insert([{ id: 1, [column]: null }, { id: 60, [column]: value }], {
      on_conflict: { columns: ['id'], do: 'update', set: { [column]: value } }
    }),
    update({ [column]: value }),
    update({ [column]: value, txt: 'z', data: nested }),
    update({ data: { $merge: { a: value } } }),
    update({ data: { $value: nested } }),
    ...['json', 'ints', 'texts', 'doc', 'data'].includes(column)
      ? []
      : filters.flatMap((where): readonly Op[] => [
        { op: 'select', table: 'targets', where, order: [{ id: 'asc' }] },
        { op: 'delete', table: 'targets', where, returning: ['id'] }
      ])
  ]
}

const { run, runChecked } = await useRuns(t, { schema, tables })
const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })
const { post, database: { sql } } = service

t.test('it reads the value of the row that exists', { timeout: 240_000 }, async t => {
  const used = new Set<string>()
  for (const [c, column] of columns.entries()) {
    const single = `$some.0.${column}`
    const lists = [
      [`$none.0.${column}`, single],
      [single, `$other.0.${column}`],
      [`$none.${column}`, `$many.5.${column}`, `$some.${column}`, `$other.${column}`]
    ]
    for (const row of [1, 2, 3]) {
      const before = [source('none', 77), source('other', 2), {
        ...source('many', 0), where: { id: { gt: 1 } }, order: [{ id: 'asc' }]
      }, source('some', row)]
      for (const [j, direct] of readersOf(column, single).entries()) {
        // Most combinations are alike, so the readers of most columns take turns.
        const isThorough = column === 'num' || column === 'data'
        if (!isThorough && (c + j + row) % 3 > 0) continue
        const expected = await runChecked([...before, { id: 'it', ...direct }])
        for (const $first of isThorough && row === 1 ? lists : lists.slice(j % 3, j % 3 + 1)) {
          const reader = readersOf(column, { $first })[j] as Op
          const name = `${column}, row ${row}: ${JSON.stringify(reader)}`
          const result = await run([...before, { id: 'it', ...reader }])
          t.same(result.checked, expected, name)
          expectSame(t, result, name)
          used.add(`${reader['op'] as string} ${result.used[4]}`)
        }
      }
    }
  }
  t.ok(['insert', 'update', 'select', 'delete'].every(op => used.has(`${op} aggregated`)))
})

t.test('modifiers, keys and searches', async t => {
  const before = [source('none', 77), source('some', 1)]
  const where = { id: { eq: 1 } }
  const update = (set: object): Op => ({ op: 'update', table: 'targets', set, where })
  const select = (where: object): Op => ({ op: 'select', table: 'targets', where })
  const kinds: ReadonlyArray<(of: (column: string) => unknown) => Op> = [
    of => update({ n: { $inc: of('n') } }),
    of => update({ num: { $mul: of('num') } }),
    of => update({ day: { $inc: of('n') } }),
    of => update({ data: { $merge: of('data') } }),
    of => update({ texts: { $append: [of('txt')] }, ints: { $append: of('ints') } }),
    of => update({ data: { $remove: of('txt') } }),
    of => select({ data: { has_key: of('txt') } }),
    of => select({ data: { has_keys_any: ['k', of('txt')] } }),
    of => select({ txt: { fts: of('txt') } }),
    of => select({ txt: { plfts: { query: of('txt'), config: 'simple' } } }),
    of => select({ data: { cs: of('data') }, ints: { ov: of('ints') } }),
    of => select({ data: { eq: { $value: { k: [of('n'), of('txt')] } } } }),
    of => select({ 'data->k->0': { eq: of('n') }, 'data->k->>1': { eq: of('txt') } }),
    of => ({
      op: 'insert',
      table: 'targets',
      values: [{ id: 1, n: 5 }],
      on_conflict: {
        columns: ['id'],
        do: 'update',
        set: { n: { $inc: of('n') }, txt: of('txt') },
        where: { n: { lte: of('n') } }
      }
    })
  ]
  for (const [i, kind] of kinds.entries()) {
    const result = await run([...before, {
      id: 'it', ...kind(name => ({ $first: [`$none.${name}`, `$some.${name}`] }))
    }])
    const direct = await runChecked([...before, { id: 'it', ...kind(name => `$some.${name}`) }])
    t.same(result.checked, direct, `kind ${i}`)
    expectSame(t, result, `kind ${i}`)
    const { results, failure } = result.checked
    t.ok(results !== undefined || i === 4, `kind ${i}: ${failure}`)
  }
})

t.test('a value that is the JSON null is stored as such', async t => {
  for (const rows of [1, 20]) {
    const ids = Array.from({ length: rows }, (_, i) => 100 * rows + i)
    const { status } = await post([
      source('none', 77),
      source('null', 2),
      source('empty', 3),
      op.insert(
        'it',
        'targets',
        ids.map((id, i) => ({
          id,
          data: { $first: ['$none.data', i % 2 === 0 ? '$null.data' : '$empty.data'] },
          doc: i % 3 === 0 ? '$null.doc' : null
        }))
      ),
      op.update('change', 'targets', {
        set: { data: { $first: ['$none.data', '$null.data'] } }, where: { id: { eq: 1 } }
      })
    ])
    t.equal(status, 200)
    t.same(
      await sql`select id, data::text, doc::text from targets where id = any (${ids}) order by id`,
      ids.map((id, i) => ({
        id, data: i % 2 === 0 ? 'null' : null, doc: i % 3 === 0 ? 'null' : null
      }))
    )
    t.same(await sql`select data::text from targets where id = 1`, [{ data: 'null' }])
  }
})

t.test('without any row the batch fails, even if no row needs the value', async t => {
  const value = { $first: ['$none.0.n', '$some.1.n', '$none.n'] }
  for (const reader of [
    ...readersOf('n', value),
    { op: 'update', table: 'targets', set: { n: value }, where: { id: { eq: -1 } } },
    { op: 'delete', table: 'targets', where: { id: { eq: -1 }, n: { eq: value } } },
    { op: 'select', table: 'targets', where: { or: [{ id: { eq: 1 } }, { n: { eq: value } }] } }
  ]) {
    const before = [source('none', 77), source('some', 1), source('many', 1)]
    const result = await run([...before, { id: 'it', ...reader }])
    t.same(result.checked, { failure: 'absent at 3' }, JSON.stringify(reader))
    expectSame(t, result, JSON.stringify(reader))
    const skipped = await run([...before, { id: 'it', ...reader, when: { some: 0 } }])
    t.match(skipped.checked.results, { 3: 'null' }, 'a skipped operation needs no row')
    expectSame(t, skipped)
  }
})

t.test('find or create, and continue: repeated batches', async t => {
  const batch = (id: number): readonly Op[] => [
    source('found', id, { columns: ['id', 'txt'] }),
    op.insert('created', 'sources', [{ id, txt: 'new' }], {
      returning: ['id', 'txt'], when: { found: 0 }
    }),
    op.insert(
      'use',
      'targets',
      [{
        id: id + 1000,
        n: { $first: ['$found.0.id', '$created.0.id'] },
        data: { of: { $first: ['$found.txt', '$created.txt'] } }
      }],
      { returning: ['n', 'data'] }
    ),
    op.delete('undo', 'targets', { where: { id: { gt: 999 } }, returning: [] })
  ]
  for (let round = 0; round < 5; round++) {
    for (const id of [1, 500, 600 + round]) {
      const { status, body: { data } } = await post(batch(id))
      t.equal(status, 200)
      t.same(data.use, [{ n: id, data: { of: id === 1 ? 'a' : 'new' } }])
      t.equal(data.created === null, id === 1 || (id === 500 && round > 0))
    }
  }
  t.same(await sql`select count(*)::int as n from sources where txt = 'new'`, [{ n: 6 }])
  const explained = await post(batch(1), { headers: { prefer: 'explain' } })
  t.equal(explained.status, 200)
  t.same(await sql`select count(*)::int as n from sources where txt = 'new'`, [{ n: 6 }])
  const missing = await post([source('found', 77), source('other', 1), {
    ...batch(1)[2], values: [{ id: 1, n: { $first: ['$found.id', '$other.2.id'] } }]
  }])
  t.match(missing, {
    status: 422,
    body: {
      error: {
        code: 'reference_row_missing',
        message: '"found" returned no row 0, and "other" returned no row 2.',
        op: 'use',
        index: 2,
        retryable: false
      }
    }
  })
  const column = await post([
    source('found', 1, { columns: ['n'] }),
    { ...batch(1)[2], values: [{ id: 1, n: { $first: ['$found.0.m'] } }] }
  ])
  t.match(column.body.error, {
    code: 'reference_column_missing', message: '"found" returned no column "m".', op: 'use'
  })
})

t.test('other content is data in `values` and inside JSON, and refused elsewhere', async t => {
  const data = [
    { $first: [] },
    { $first: 5 },
    { $first: ['x'] },
    { $first: '$$some.0.id' },
    { $first: ['$$some.0.id'] },
    { $first: [['$some.0.id']] },
    { $first: ['$some.0.id', 5] },
    { $first: ['$some.0.id'], b: 1 },
    [{ a: { $first: null } }]
  ]
  const stored = JSON.parse(
    JSON.stringify(data).replaceAll('"$some.0.id"', '1').replaceAll('$$', '$')
  ) as readonly unknown[]
  const insert = (values: readonly object[]): Op => ({ op: 'insert', table: 'targets', values })
  const { status } = await post([source('some', 1), {
    id: 'it', ...insert(data.map((value, i) => ({ id: 200 + i, data: value })))
  }])
  t.equal(status, 200)
  const rows = await sql`select data from targets where id between 200 and 299 order by id`
  t.same(rows.map(row => row['data']), stored)
  const words = await post([source('some', 1), {
    id: 'it', ...insert([{ id: 1, n: { $first: ['$some.0.id', 5] } }])
  }])
  t.match(words.body.error, {
    code: 'value_invalid',
    message: 'Row 0 of values, column "n": the type integer takes one value, not an array or an ' +
      'object. In "values", $first takes references only: {"$first": ["$found.0.id"]}.'
  })
  const bad: ReadonlyArray<readonly [first: unknown, code: string, path?: string]> = [
    [[], 'operand_invalid'],
    [5, 'operand_invalid'],
    [['x'], 'operand_invalid', '[0]'],
    [['$some.0.id', 5], 'operand_invalid', '[1]'],
    [['$some.0.id', '$$some.0.id'], 'operand_invalid', '[1]'],
    [['$some.*.id'], 'reference_malformed', '[0]'],
    [['$some.0', '$some'], 'reference_malformed', '[0]'],
    [['$some.0.id', '$some.0.'], 'reference_malformed', '[1]'],
    [['$other.0.id'], 'reference_unknown', '[0]'],
    [Array(11).fill('$some.0.id'), 'operand_invalid']
  ]
  const issuesIn = (operation: Op): readonly string[] =>
    issuesOf([source('some', 1), { id: 'it', ...operation }])
  for (const [$first, code, path = ''] of bad) {
    const value = { $first }
    const name = JSON.stringify(value)
    const member = code === 'operand_invalid' ? 'member_invalid' : code
    const isWord = Array.isArray($first) && $first.length > 0 &&
      $first.every(item => typeof item === 'string' && /^\$\w/.test(item))
    const places: ReadonlyArray<readonly [operation: Op, issue: string]> = [
      [{ op: 'select', table: 'targets', where: { n: { eq: value } } }, `${code} where.n.eq`],
      [{ op: 'update', table: 'targets', all: true, set: { n: value } }, `${member} set.n`],
      ...isWord
        ? [
            [insert([{ id: 1, data: value }]), `${member} values[0].data`],
            [insert([{ id: 1, data: [{ a: value }] }]), `${member} values[0].data[0].a`]
          ] as const
        : []
    ]
    for (const [operation, issue] of places) {
      t.equal(issuesIn(operation)[0], `${issue}.$first${path}`, `${operation['op']}: ${name}`)
    }
  }
  const lists = (count: number) => Array.from({ length: count }, (_, i) => ({
    id: 300 + i, n: { $first: ['$some.0.id', `$some.${i}.id`] }
  }))
  const twice = [...lists(100), ...lists(100).map(row => ({ ...row, id: -1 * row.id }))]
  t.equal((await post([source('some', 1), { id: 'it', ...insert(twice) }])).status, 200)
  const { errors } = findFailure([source('some', 1), { id: 'it', ...insert(lists(101)) }])
    ?.details ?? {}
  t.match(errors, [{
    code: 'member_invalid',
    path: ['values', 100, 'n', '$first'],
    message: 'An operation can have at most 100 different lists of "$first".'
  }])
})
