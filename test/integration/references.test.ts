/**
 * References: the value of a column in a row that an earlier operation returned, resolved by the
 * server. `$first` is the first of several references whose row exists, wherever a reference to one
 * value may stand.
 */
import t from 'tap'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'
import { differsOneByOne } from '../support/environment.ts'
import * as op from '../support/operations.ts'
import { findFailure, issuesOf } from '../support/issues.ts'

const schema = `
  create table a (id int generated always as identity primary key, num numeric, txt text);
  create table b (num numeric, txt text, j jsonb, arr text[]);
  create domain amount as numeric(4, 2) not null check (value < 50);
  create table exact (n numeric, big numeric, ts timestamptz, s text, bits text, list numeric[],
    nothing text);
  create table rounded (n numeric(4, 2), ts timestamptz(0), v varchar(2), c char(3),
    bits bit(3), d amount, list numeric(4, 2)[], folded text collate "C");
  insert into rounded values (1.23, '2024-01-01T00:00:01Z', 'ab', 'ab', '101', 1.23, '{1.23}',
    'ab');
  create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  create table people (id int primary key, name text collate folded);
  insert into people values (1, 'Ann'), (2, 'Bob');
  create type mood as enum ('sad', 'happy');
  create domain sku as text check (value <> '');
  create table sources (id int primary key, n int, big bigint, num numeric, txt text,
    ts timestamptz, day date, flag bool, data jsonb, doc json, mood mood, code sku, ints int[],
    texts text[], every interval);
  create function read_sources() returns setof sources language sql stable
    as 'select * from sources order by id';
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
`
const service = await useService(t, { schema })
const full = { num: '12345678901234567890.1234567890', txt: 'a "text" \\ $' }
const source = op.insert('src', 'a', [full, { txt: 'second', num: 2 }, {}])

t.test('references compare like literals for any length, precision or domain', async t => {
  const values = {
    n: 1.234,
    big: 100000,
    ts: '2024-01-01T00:00:00.9Z',
    s: 'abc',
    bits: '10',
    list: [1.234]
  }
  const texts = { ...values, n: '1.234', big: '100000', list: '{1.234}' }
  const pairs: ReadonlyArray<readonly [column: string, source: keyof typeof texts]> = [
    ['n', 'n'], ['n', 'big'], ['ts', 'ts'], ['v', 's'], ['c', 's'], ['bits', 'bits'], ['d', 'n'],
    ['d', 'big'], ['list', 'list'], ['folded', 's']
  ]
  const insert = op.insert('src', 'exact', [values])
  const select = (id: string, column: string, operator: string, operand: unknown): object =>
    op.select(id, 'rounded', { where: { [column]: { [operator]: operand } } })
  for (const [column, source] of pairs) {
    const operators = ['eq', 'neq', 'lt', 'lte', 'gt', 'gte']
    const { body, text } = await service.post([insert, ...operators.flatMap(operator => [
      select(`ref_${operator}`, column, operator, `$src.${source}`),
      select(`lit_${operator}`, column, operator, texts[source])
    ])])
    for (const operator of operators) {
      const { [`ref_${operator}`]: found = text, [`lit_${operator}`]: expected } = body.data ?? {}
      t.same(found, expected, `${column} ${operator} ${source}`)
    }
  }
  const { body } = await service.post([insert, select('ref', 'd', 'neq', '$src.nothing')])
  t.same(body.data.ref, [], 'NULL matches no row of a NOT NULL domain')
})

t.test('a reference is stored in a column with a nondeterministic collation', async t => {
  const set = { name: '$ann.0.name' }
  const { body } = await service.post([
    { id: 'ann', op: 'select', table: 'people', where: { name: { eq: 'ANN' } } },
    { id: 'new', op: 'insert', table: 'people', values: [{ id: 3, ...set }] },
    { id: 'changed', op: 'update', table: 'people', set, where: { id: { eq: 2 } } }
  ])
  t.same(body.data?.new, [{ id: 3, name: 'Ann' }])
  t.same(body.data?.changed, [{ id: 2, name: 'Ann' }])
})

type Row = Readonly<Record<string, unknown>>

t.test('1000 references to several operations, in rows of one and many shapes', async t => {
  const list = <T>(count: number, create: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => create(i))
  const refer = (i: number): string => `$${i % 2 === 0 ? 'one' : 'two'}.${Math.floor(i / 2)}.txt`
  const want = list(1000, i => `${i % 2 === 0 ? 'one' : '"two"'} ${Math.floor(i / 2)}`)
  const insert = (id: string, table: string, values: readonly object[]): object =>
    ({ id, op: 'insert', table, values })
  const { text, body } = await service.post([
    insert('one', 'a', list(500, i => ({ txt: `one ${i}` }))),
    insert('two', 'a', list(500, i => ({ txt: `"two" ${i}` }))),
    source,
    insert('equal', 'b', list(1000, () => ({ txt: '$src.1.txt', num: '$src.0.num' }))),
    insert('inside', 'b', list(20, () => ({ j: ['$src.1.txt'], arr: ['$src.*.txt'] }))),
    insert('same', 'b', list(1000, i => ({ txt: refer(i) }))),
    insert('mixed', 'b', list(1000, i => ({ txt: refer(i), ...i % 3 === 0 ? { num: i } : {} }))),
    insert('deep', 'b', [{ j: list(1000, i => ({ [`k${i}`]: [refer(i)] })) }])
  ])
  t.equal(text.split(`"num":${full.num},"txt":"second"`).length, 1001, 'every digit')
  const row = { j: ['second'], arr: [[full.txt, 'second', null]] }
  t.match(body.data.inside, list(20, () => row))
  for (const id of ['same', 'mixed']) {
    t.same(body.data[id].map(({ txt }: Row) => txt), want, id)
  }
  t.same(body.data.deep[0].j, want.map((text, i) => ({ [`k${i}`]: [text] })))
})

const readRow = (id: string, row: number, more: object = {}): Row =>
  op.select(id, 'sources', { where: { id: { eq: row } }, ...more })

const { post, database: { sql } } = service

const jsonNull = differsOneByOne('the JSON null of an earlier row is NULL')
t.test('the JSON null, rows and results are stored as such', jsonNull, async t => {
  const kinds = [
    ['$few.0', '{"n": 2}'],
    ['$null.0.data', 'null'],
    ['$null.1.data', null],
    [{ $first: ['$none.data', '$null.0.data'] }, 'null'],
    [{ $first: ['$none.data', '$null.1.data'] }, null],
    ['$null.*.id', '[2, 3]'],
    ['$call.0.txt', '"a"'],
    ['$call.2.txt', null],
    [{ of: '$null.0.data' }, '{"of": null}'],
    [null, null]
  ] as const
  const doc = (id: number): string | null => id % 3 === 0 ? '$null.0.doc' : null
  const row = (id: number, more: object): object =>
    ({ id, data: kinds[id % 100]?.[0], doc: doc(id), ...more })
  // Statements do not name the type interval. A row of many, and each row by itself:
  for (const [i, more] of [{}, { every: '5 minutes' }].entries()) {
    const ids = kinds.flatMap((_, k) => [6000, 6100, 6200].map(id => id + 1000 * i + k))
    const alone = kinds.map((_, k) => 6300 + 1000 * i + k)
    const { text, body } = await post([
      readRow('none', 77),
      op.select('null', 'sources', { where: { id: { gt: 1 } }, order: [{ id: 'asc' }] }),
      readRow('few', 2, { columns: ['n'] }),
      op.call('call', 'read_sources', {}, { columns: ['*', { column: 'id', as: 'number' }] }),
      op.insert('it', 'targets', ids.map(id => row(id, more))),
      ...alone.map(id => op.insert(`alone_${id}`, 'targets', [row(id, more)])),
      op.update('change', 'targets', {
        set: { data: { $first: ['$none.data', '$null.0.data'] } }, where: { id: { eq: 1 } }
      })
    ])
    t.equal(body.error, null, text)
    const all = [...ids, ...alone]
    t.same(
      await sql`select id, data::text, doc::text from targets where id = any (${all}) order by id`,
      all.map(id => ({ id, data: kinds[id % 100]?.[1], doc: doc(id) && 'null' }))
        .toSorted((a, b) => a.id - b.id)
    )
    t.same(await sql`select data::text from targets where id = 1`, [{ data: 'null' }])
  }
})

t.test('an update of many rows removes a key that an earlier operation returned', async t => {
  for (const length of [2, 18]) {
    const rows = Array.from({ length }, (_, i) =>
      ({ id: 7100 + 20 * length + i, data: { a: i, b: i } }))
    const { text, body } = await post([
      readRow('some', 1),
      op.insert('new', 'targets', rows, { returning: [] }),
      op.update('it', 'targets', {
        key: ['id'],
        values: rows.map(({ id }) => ({ id, data: { $remove: '$some.0.txt' } })),
        returning: ['data']
      })
    ])
    t.same(body.data?.it, rows.map(({ data: { b } }) => ({ data: { b } })), text)
  }
})

t.test('the error of `$first` names every operation, or the column', async t => {
  const use = (value: object): Row => op.insert('use', 'targets', [{ id: 1, n: value }])
  const missing = await post([
    readRow('found', 77), readRow('other', 1), use({ $first: ['$found.id', '$other.2.id'] })
  ])
  t.match(missing, failed(422, 'reference_row_missing', {
    message: '"found" returned no row 0, and "other" returned no row 2.',
    op: 'use',
    index: 2,
    path: ['values', 0, 'n', '$first'],
    retryable: false
  }))
  const column = await post([
    readRow('found', 1, { columns: ['n'] }),
    use({ $first: ['$found.0.m'] })
  ])
  t.match(column.body.error, {
    code: 'reference_column_missing',
    message: '"found" returned no column "m".',
    op: 'use',
    path: ['values', 0, 'n', '$first']
  })
})

t.test('other content is data in `values` and inside JSON, and refused elsewhere', async t => {
  const data = [
    { $first: [] }, { $first: 5 }, { $first: ['x'] }, { $first: '$$some.0.id' },
    { $first: ['$$some.0.id'] }, { $first: [['$some.0.id']] }, { $first: ['$some.0.id', 5] },
    { $first: ['$some.0.id'], b: 1 }, [{ a: { $first: null } }]
  ]
  const stored = JSON.parse(
    JSON.stringify(data).replaceAll('"$some.0.id"', '1').replaceAll('$$', '$')
  ) as readonly unknown[]
  const insert = (values: readonly object[]): Row => ({ op: 'insert', table: 'targets', values })
  const { status } = await post([readRow('some', 1), {
    id: 'it', ...insert(data.map((value, i) => ({ id: 200 + i, data: value })))
  }])
  t.equal(status, 200)
  const rows = await sql`select data from targets where id between 200 and 299 order by id`
  t.same(rows.map(row => row['data']), stored)
  const words = await post([readRow('some', 1), {
    id: 'it', ...insert([{ id: 1, n: { $first: ['$some.0.id', 5] } }])
  }])
  t.match(words.body.error, {
    code: 'value_invalid',
    message: 'Row 0 of values, column "n": the type integer takes one value, not an array or an ' +
      'object. In "values", $first takes references only: {"$first": ["$found.0.id"]}.'
  })
  const bad: ReadonlyArray<readonly [first: unknown, code: string, path?: string]> = [
    [[], 'operand_invalid'],
    [['$some.0.id', 5], 'operand_invalid', '[1]'],
    [['$some.0.id', '$$some.0.id'], 'operand_invalid', '[1]'],
    [['$some.*.id'], 'reference_malformed', '[0]'],
    [['$some.0', '$some'], 'reference_malformed', '[0]'],
    [Array(11).fill('$some.0.id'), 'operand_invalid']
  ]
  const issuesIn = (operation: Row): readonly string[] =>
    issuesOf([readRow('some', 1), { id: 'it', ...operation }])
  for (const [$first, code, path = ''] of bad) {
    const value = { $first }
    const name = JSON.stringify(value)
    const member = code === 'operand_invalid' ? 'member_invalid' : code
    const places: ReadonlyArray<readonly [operation: Row, issue: string]> = [
      [{ op: 'select', table: 'targets', where: { n: { eq: value } } }, `${code} where.n.eq`],
      [{ op: 'update', table: 'targets', all: true, set: { n: value } }, `${member} set.n`]
    ]
    for (const [operation, issue] of places) {
      t.equal(issuesIn(operation)[0], `${issue}.$first${path}`, `${operation['op']}: ${name}`)
    }
  }
  const eleven = { $first: Array(11).fill('$some.0.id') }
  t.same(issuesIn(insert([{ id: 1, data: [eleven] }])), ['member_invalid values[0].data[0].$first'])
  const lists = (count: number) => Array.from({ length: count }, (_, i) => ({
    id: 300 + i, n: { $first: ['$some.0.id', `$some.${i}.id`] }
  }))
  const twice = [...lists(100), ...lists(100).map(row => ({ ...row, id: -1 * row.id }))]
  t.equal((await post([readRow('some', 1), { id: 'it', ...insert(twice) }])).status, 200)
  const { errors } = findFailure([readRow('some', 1), { id: 'it', ...insert(lists(101)) }])
    ?.details ?? {}
  t.match(errors, [{
    code: 'member_invalid',
    path: ['values', 100, 'n', '$first'],
    message: 'An operation can have at most 100 different lists of "$first".'
  }])
})
