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
  create function a_label(a) returns text language sql immutable as 'select $1.txt';
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

t.test('many rows can consist of the same references', async t => {
  const rows = Array.from({ length: 20 }, () => ({ num: '$src.0.num', txt: '$src.1.txt' }))
  const returning = ['num', 'txt']
  const { text, body } = await service.post([source, op.insert('r', 'b', rows, { returning })])
  t.equal(body.data?.r.length, 20, text)
  t.equal(text.split(`{"num":${full.num},"txt":"second"}`).length, 21, 'every digit')
  const inside = rows.map(({ txt }) => ({ j: [txt], arr: ['$src.*.txt'] }))
  const many = op.insert('r', 'b', inside, { returning: ['j', 'arr'] })
  const row = { j: ['second'], arr: [[full.txt, 'second', null]] }
  t.same((await service.post([source, many])).body.data?.r, rows.map(() => row), 'also inside')
})

t.test('a list that no operator takes is an error of the reading operation', async t => {
  await service.database.sql`insert into b default values`
  const reading = { id: 'o', op: 'select', table: 'b', where: { 'j->>k': { cs: '$src.*.txt' } } }
  const { body } = await service.post([source, reading])
  t.match(body.error, { code: 'undefined_function', op: 'o', index: 1 })
})

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
  const insert = { id: 'src', op: 'insert', table: 'exact', values: [values] }
  const operators = ['eq', 'neq', 'lt', 'lte', 'gt', 'gte']
  for (const [column, source] of pairs) {
    const select = (id: string, operator: string, operand: string): object =>
      ({ id, op: 'select', table: 'rounded', where: { [column]: { [operator]: operand } } })
    const { body, text } = await service.post([
      insert,
      ...operators.flatMap(operator => [
        select(`ref_${operator}`, operator, `$src.${source}`),
        select(`lit_${operator}`, operator, texts[source] as string)
      ])
    ])
    t.equal(body.error, null, text)
    for (const operator of operators) {
      t.same(
        body.data?.[`ref_${operator}`],
        body.data?.[`lit_${operator}`],
        `${column} ${operator} ${source}`
      )
    }
  }
  const { body } = await service.post([
    insert,
    { id: 'ref', op: 'select', table: 'rounded', where: { d: { neq: '$src.nothing' } } }
  ])
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

t.test('a computed column and a system column compare with a reference', async t => {
  const select = { id: 's', op: 'select', table: 'a', columns: ['id', 'txt'] }
  await service.database.sql`truncate a restart identity`
  const { body } = await service.post([
    source,
    { ...select, where: { a_label: { eq: '$src.1.txt' } } }
  ])
  t.same(body.data.s, [{ id: 2, txt: 'second' }])
  const literal = await service.post([{ ...select, where: { ctid: { eq: '(0,1)' } } }])
  t.match(literal.body.data.s, [{ id: 1 }], 'a system column compares with a literal')
})

t.test('1000 references to several operations, in rows of one and many shapes', async t => {
  const list = <T>(count: number, create: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => create(i))
  const refer = (i: number): string => `$${i % 2 === 0 ? 'one' : 'two'}.${Math.floor(i / 2)}.txt`
  const want = list(1000, i => `${i % 2 === 0 ? 'one' : '"two"'} ${Math.floor(i / 2)}`)
  const insert = (id: string, table: string, values: readonly object[]): object =>
    ({ id, op: 'insert', table, values })
  const { body } = await service.post([
    insert('one', 'a', list(500, i => ({ txt: `one ${i}` }))),
    insert('two', 'a', list(500, i => ({ txt: `"two" ${i}` }))),
    insert('same', 'b', list(1000, i => ({ txt: refer(i) }))),
    insert('mixed', 'b', list(1000, i => ({ txt: refer(i), ...i % 3 === 0 ? { num: i } : {} }))),
    insert('deep', 'b', [{ j: list(1000, i => ({ [`k${i}`]: [refer(i)] })) }])
  ])
  for (const id of ['same', 'mixed']) {
    t.same(body.data[id].map(({ txt }: { txt: string }) => txt), want, id)
  }
  t.same(body.data.deep[0].j, want.map((text, i) => ({ [`k${i}`]: [text] })))
})

t.test('ids such as "x", "X" and "__proto__" are different', async t => {
  const ids = ['x', 'X', '__proto__', 'constructor', 'toString', '_']
  const { text } = await service.post([
    ...ids.map(id => ({ id, op: 'insert', table: 'b', values: [{ txt: id }] })),
    { id: 'all', op: 'insert', table: 'b', values: [{ arr: ids.map(id => `$${id}.txt`) }] }
  ])
  t.match(text, '"arr":["x","X","__proto__","constructor","toString","_"]')
  t.match(text, '"__proto__":[{')
})

type Op = Readonly<Record<string, unknown>>
const readRow = (id: string, row: number, more: object = {}): Op =>
  op.select(id, 'sources', { where: { id: { eq: row } }, ...more })

const { post, database: { sql } } = service

const jsonNull = differsOneByOne('the JSON null of an earlier row is NULL')
t.test('a value that is the JSON null is stored as such', jsonNull, async t => {
  for (const rows of [1, 20, 21]) {
    // Statements do not name the type interval.
    const more = rows === 21 ? { every: '5 minutes' } : {}
    const ids = Array.from({ length: rows }, (_, i) => 100 * rows + i)
    const { status } = await post([
      readRow('none', 77),
      readRow('null', 2),
      readRow('empty', 3),
      op.insert(
        'it',
        'targets',
        ids.map((id, i) => ({
          id,
          data: { $first: ['$none.data', i % 2 === 0 ? '$null.data' : '$empty.data'] },
          doc: i % 3 === 0 ? '$null.doc' : null,
          ...more
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

t.test('a column of many rows has the JSON null, rows and results', jsonNull, async t => {
  const kinds = [
    ['$few.0', '{"n": 2}'],
    ['$null.0.data', 'null'],
    ['$null.1.data', null],
    ['$null.*.id', '[2, 3]'],
    ['$call.0.txt', '"a"'],
    ['$call.2.txt', null],
    [{ of: '$null.0.data' }, '{"of": null}'],
    [null, null]
  ] as const
  const ids = kinds.flatMap((_, i) => [6000 + i, 6100 + i, 6200 + i])
  const { text, body } = await post([
    op.select('null', 'sources', { where: { id: { gt: 1 } }, order: [{ id: 'asc' }] }),
    readRow('few', 2, { columns: ['n'] }),
    op.call('call', 'read_sources', {}, { columns: ['*', { column: 'id', as: 'number' }] }),
    op.insert('it', 'targets', ids.map(id => ({ id, data: kinds[id % 100]?.[0] }))),
    op.select('read', 'targets', {
      columns: ['id', { column: 'data', cast: 'text', as: 'data' }], where: { id: { in: ids } }
    })
  ])
  t.same(body.error, null, text)
  for (const { id, data } of body.data?.read ?? []) t.equal(data, kinds[id % 100]?.[1], `${id}`)
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
  const use = (value: object): Op => op.insert('use', 'targets', [{ id: 1, n: value }])
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
  const insert = (values: readonly object[]): Op => ({ op: 'insert', table: 'targets', values })
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
    issuesOf([readRow('some', 1), { id: 'it', ...operation }])
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
  t.equal((await post([readRow('some', 1), { id: 'it', ...insert(twice) }])).status, 200)
  const { errors } = findFailure([readRow('some', 1), { id: 'it', ...insert(lists(101)) }])
    ?.details ?? {}
  t.match(errors, [{
    code: 'member_invalid',
    path: ['values', 100, 'n', '$first'],
    message: 'An operation can have at most 100 different lists of "$first".'
  }])
})
