/**
 * Tests updates with a row of values for each key: what they change and answer, and
 * what they refuse.
 */
import t, { type Test } from 'tap'
import { assertIssues, issuesOf, type InvalidOperation } from '../support/issues.ts'
import { differsOneByOne } from '../support/environment.ts'
import * as op from '../support/operations.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'

const schema = `
  create table articles (sku text primary key, price numeric(8, 2), qty int, data jsonb,
    tags text[], due date, region text default 'n');
  insert into articles values ('apple', 0.30, 10, '{"a": 1}', '{red}', '2024-02-28', 'n'),
    ('fig', 1, null, '[1]', null, null, 's'), ('pear', 0.50, 5, null, '{}', null, 'n');
  create domain code as varchar(5) check (value <> '');
  create collation no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  create table codes (code code primary key, word text collate no_case unique, n numeric unique,
    v char(4), doc json, id int generated always as identity, double numeric generated always as
    (n * 2) stored);
  insert into codes (code, word, n, v) values ('a', 'One', 1, 'x'), ('b', 'Two', 2.50, null);
  create table parts (k int primary key, v int) partition by range (k);
  create table parts_1 partition of parts for values from (0) to (10);
  create table parts_2 partition of parts for values from (10) to (20);
  insert into parts values (1, 1), (2, 2), (11, 11);
  create view low as select k, v from parts where v < 100 with check option;
  create view summed as select k, v + 0 as v from parts;
  create function set_part() returns trigger language plpgsql as $$ begin
    update parts set v = new.v where k = old.k; return new; end $$;
  create trigger set_part instead of update on summed for each row execute function set_part();
  create table secret (id int primary key, owner text default current_user, note text, n int);
  insert into secret values (1, 'oneflight_user', 'mine', 1), (2, 'somebody', 'other', 2);
  alter table secret enable row level security;
  create policy own on secret using (owner = current_user);
  create table partly (id int primary key, open int, closed int);
  insert into partly values (1, 1, 1), (2, 2, 2);
  create table noted (id int primary key, a int, b int, note text default '');
  insert into noted values (1, 1, 1), (2, 2, 2), (3, 3, 3);
  create function note() returns trigger language plpgsql as $$
    begin new.note = new.note || tg_argv[0]; return new; end $$;
  create trigger note_a before update of a on noted for each row execute function note('a');
  create trigger note_b before update of b on noted for each row execute function note('b');
  create table docs (id int primary key, jb jsonb, js json, word text);
  insert into docs values (1, 'null', 'null', '[x]'), (2, null, null, '{"a"'),
    (3, '1', '1', 'x'), (4, '1', '1', 'x'), (5, '[1]', '1', 'x');
  create table big (id int primary key, sku text unique, n int, b numeric);
  insert into big select i, 's' || i, i, i from generate_series(0, 60000) as i;
  create table medium (id int primary key, n int);
  insert into medium select i, i from generate_series(0, 9999) as i;
  analyze big, medium;
  create table laps (took interval minute to second, word text);
  insert into laps values ('1:02', '1:02');
  create type size as (x int, y text);
  create table sizes (size size, n int);
  create schema elsewhere;
  create type elsewhere.size as (x int);
  alter table sizes add other elsewhere.size;
  insert into sizes values ((1, null), 1), ((null, null), 2), ((1, 'x'), 3);
  grant all on laps, sizes, articles, codes, parts, low, summed, secret, noted, docs, big, medium
    to oneflight_user;
  grant select, update (open) on partly to oneflight_user;
`
type Op = Readonly<Record<string, unknown>>
const articles = op.update('u', 'articles', { key: ['sku'] })
const codes = { ...articles, table: 'codes', key: ['code'] }
const read = (table: string, column: string): Op =>
  op.select('s', table, { order: [{ [column]: 'asc' }] })

/** The rows that the last operation of a batch returns, or its failure. */
const cases: ReadonlyArray<readonly [name: string, batch: Op[] | string, rows: unknown]> = [
  ['a key by reference is read like a literal, without the fields of an interval', [
    op.select('word', 'laps'),
    op.update('u', 'laps', { key: ['took'], values: [{ took: '$word.0.word', word: 'x' }] })
  ], []],
  ['modifiers of types that have no name in the statement', [{
    ...articles,
    returning: ['sku', 'tags', 'due', 'data'],
    values: [
      { sku: 'apple', tags: { $append: ['x', 'y'] }, due: { $inc: 2 }, data: { $remove: 'a' } },
      { sku: 'fig', tags: { $append: [] }, due: { $inc: 3 }, data: { $remove: 'b' } }
    ]
  }], [
    { sku: 'apple', tags: ['red', 'x', 'y'], due: '2024-03-01', data: {} },
    { sku: 'fig', tags: [], due: null, data: [1] }
  ]],
  ['a key with another name, which may change', [{
    ...articles,
    key: [{ column: 'sku', as: 'old' }, 'region'],
    returning: ['sku', 'region'],
    values: [
      { old: 'pear', region: 'n', sku: 'p' },
      { old: 'apple', region: { $value: 'n' }, sku: '$$p' },
      { old: 'fig', region: 'n', sku: 'f' }
    ]
  }], [{ sku: 'p', region: 'n' }, { sku: '$p', region: 'n' }]],
  ['keys that are equal for the database', '[{"id":"u","op":"update","table":"codes","key":["n"],' +
      '"values":[{"n":1.0,"v":"a"},{"n":3,"v":"c"},{"n":1,"v":"b"}]}]', 'key_duplicate'],
  ['equal keys of jsonb', '[{"id":"u","op":"update","table":"articles","key":["data"],"values":[' +
    '{"data":{"a":1.0,"b":[2]},"qty":1},{"data":{"b":[2],"a":1},"qty":2}]}]', 'key_duplicate'],
  ['a string as the key of jsonb', [
    op.update('text', 'articles', { set: { data: '1' }, where: { sku: { eq: 'fig' } } }),
    op.update('number', 'articles', { set: { data: 1 }, where: { sku: { eq: 'pear' } } }),
    { ...articles, key: ['data'], values: [{ data: '1', qty: 4 }], returning: ['sku', 'qty'] }
  ], [{ sku: 'fig', qty: 4 }]],
  ['keys that a collation compares', [{
    ...codes,
    key: ['word'],
    returning: ['word', 'v'],
    values: [{ word: 'TWO', v: 'b' }, { word: 'one', v: 'a' }]
  }], [{ word: 'Two', v: 'b   ' }, { word: 'One', v: 'a   ' }]],
  ['equal keys of different groups', [{
    ...articles,
    key: ['sku', 'qty'],
    values: [{ sku: 'pear', qty: 5, price: 1 }, { sku: 'pear', qty: '5', region: 'x' }]
  }], 'key_duplicate'],
  ['a key that no value of its domain has', [{
    ...codes,
    returning: ['code', 'v'],
    values: [{ code: 'too long', v: 'a' }, { code: '', v: 'b' }, { code: 'b', v: 'c' }]
  }], [{ code: 'b', v: 'c   ' }]],
  ['a column that is always generated', [{ ...codes, key: ['n'], values: [{ n: 1, double: 5 }] }],
    'generated_always'],
  ['a filter that leaves one row of a key', [{
    ...articles,
    key: ['region'],
    where: { or: [{ sku: { eq: 'pear' } }, { qty: { is: null } }] },
    returning: ['sku', 'qty'],
    values: [{ region: 'n', qty: 2 }, { region: 's', qty: { $col: 'qty' } }]
  }], [{ sku: 'pear', qty: 2 }, { sku: 'fig', qty: null }]],
  ['a view with a check option',
    [{ ...articles, table: 'low', key: ['k'], values: [{ k: 11, v: 5 }, { k: 1, v: 600 }] }],
    'with_check_option_violation'],
  ['a view with a trigger', [{
    ...articles, table: 'summed', key: ['k'], values: [{ k: 11, v: 5 }, { k: 1, v: 6 }]
  }], [{ k: 11, v: 5 }, { k: 1, v: 6 }]],
  ['rows that a policy hides', [{
    ...articles,
    table: 'secret',
    key: ['id'],
    values: [{ id: 2, n: 5 }, { id: 1, n: 6 }],
    returning: ['id', 'n']
  }], [{ id: 1, n: 6 }]],
  ['a column with a privilege', [{
    ...articles, table: 'partly', key: ['id'], values: [{ id: 1, open: 5 }, { id: 2, open: 6 }]
  }], [{ id: 1, open: 5, closed: 1 }, { id: 2, open: 6, closed: 2 }]],
  ['triggers of the columns that a row names', [{
    ...articles,
    table: 'noted',
    key: ['id'],
    values: [{ id: 3, a: 1 }, { id: 1, b: 2 }, { id: 2, a: 3, b: 4 }]
  }], [
    { id: 3, a: 1, b: 3, note: 'a' },
    { id: 1, a: 1, b: 2, note: 'b' },
    { id: 2, a: 3, b: 4, note: 'ab' }
  ]],
  ['a type without equality', [{ ...codes, key: ['doc'], values: [{ doc: { a: 1 }, v: 'x' }] }],
    'undefined_function']
]

const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })

async function assertRows (t: Test, some: typeof cases): Promise<void> {
  for (const [name, batch, rows] of some) {
    const { body, text } = await service.post(batch, { headers: { prefer: 'tx=rollback' } })
    t.same(body.error?.code ?? Object.values(body.data).at(-1), rows, `${name} ${text}`)
  }
}

t.test('an update by key returns the rows of the keys', async t => {
  await assertRows(t, cases)
})

const inTurn = differsOneByOne('keys that only the database finds equal are updated in turn')
t.test('keys that a collation finds equal are refused', inTurn, async t => {
  await assertRows(t, [['many rows, of which two have the same key', [{
    ...codes,
    key: ['word'],
    values: [
      ...Array.from({ length: 20 }, (_, i) => ({ word: `none ${i}`, v: 'a' })),
      { word: 'ONE', v: 'b' },
      { word: 'one', v: 'c' }
    ]
  }], 'key_duplicate']])
})

/** Rows whose groups, with this many operands, are counted. */
const rowsOf = (count: number, row: (i: number) => object): readonly object[] =>
  Array.from({ length: count }, (_, i) => ({ sku: `s${i}`, ...row(i) }))

const refused: readonly InvalidOperation[] = ([
  [{ values: undefined }, 'member_missing values'],
  [{ key: [] }, 'member_invalid key'],
  [{ values: [] }, 'values_empty values'],
  [{ values: [{ qty: 1 }, { sku: 'a' }, { sku: null, qty: 1 }, { sku: { $value: null }, qty: 1 }] },
    'member_missing values[0].sku', 'set_empty values[1]', 'member_invalid values[2].sku',
    'member_invalid values[3].sku.$value'],
  [{ values: [{ sku: { $inc: 1 }, qty: 1 }, { sku: { $nope: 1 }, qty: 1 }] },
    'member_invalid values[0].sku.$inc', 'member_invalid values[1].sku.$nope'],
  [{ values: [{ sku: 'a', qty: { $add: 1 } }, { sku: 'b', qty: { $excluded: 'qty' } }] },
    'member_invalid values[0].qty.$add', 'member_invalid values[1].qty.$excluded'],
  [{ values: [{ sku: { $from: 'n' }, qty: 1 }] }, 'member_invalid values[0].sku.$from'],
  [{ values: [{ sku: 'c', qty: { $inc: 'x' } }, { sku: 'd', qty: { $first: [] } }] },
    'member_invalid values[0].qty.$inc', 'member_invalid values[1].qty.$first'],
  [{ values: [{ sku: 'a', qty: 1 }, { sku: 'b', qty: 1 }, { qty: 1, sku: { $value: 'a' } }] },
    'key_duplicate values[2]'],
  [{ key: ['sku', 'sku'] }, 'member_invalid key[1]'],
  [{ key: ['sku', { column: 'qty', as: 'sku' }] }, 'member_invalid key[1]'],
  [{ set: { qty: 1 } }, 'member_invalid set'],
  [{ all: true }, 'member_invalid all'],
  [{ from: { table: 'codes', on: { sku: 'code' } } }, 'member_invalid from'],
  [{ where: {} }, 'where_empty where'],
  [{ values: [{ sku: 'a', qty: { $from: 'n' }, price: { $inc: { $from: 'n' } } }] },
    'member_invalid values[0].price.$inc.$from', 'member_invalid values[0].qty.$from'],
  [{ values: rowsOf(501, () => ({ qty: 1 })) }, 'rows_limit values'],
  [{ values: rowsOf(201, i => ({ [`c${i}`]: 1 })) }, 'rows_limit values'],
  [{
    values: rowsOf(100, i => ({ [`c${i}`]: 1 })),
    returning: Array.from({ length: 51 }, (_, i) => `r${i}`)
  }, 'rows_limit values']
] as readonly InvalidOperation[]).map(([members, ...issues]) =>
  [{ ...articles, values: [{ sku: 'a', qty: 1 }], ...members }, ...issues])

t.test('mistakes are refused, all at once', async t => {
  assertIssues(t, refused, { MAX_ROWS: '500' })
  t.same(issuesOf([op.select('s', 'articles', { key: ['sku'] })]), ['member_invalid key'])
  const first = { sku: { $first: ['$s.0.sku', '$s.1.sku'] }, qty: 1 }
  t.same(issuesOf([op.select('s', 'articles'), { ...articles, values: [first] }]), [])
  const ignored = op.update('u', 'articles', { values: 5, set: { qty: 1 }, all: true })
  t.same(issuesOf([ignored]), [], '"values" without "key" is ignored')
})

const operatorMessage = differsOneByOne('PostgreSQL describes an unknown operator')
t.test('failures name the row and say what to do', operatorMessage, async t => {
  const source = read('articles', 'sku')
  const failures: ReadonlyArray<readonly [ops: readonly Op[], code: string, message: string]> = [
    [[source, {
      ...articles,
      values: [{ sku: 'x', qty: 1 }, { sku: '$s.0.sku', qty: 1 }, { sku: 'apple', qty: 2 }]
    }], 'key_duplicate', 'Row 2 of "values" has the same key as an earlier row.'],
    [
      [{ ...articles, key: ['region'], values: [{ region: 'n', qty: 1 }] }],
      'rows_ambiguous',
      'Several rows have the same key of "values". Add columns to "key", or conditions to "where".'
    ],
    [[source, {
      ...articles,
      key: ['sku', 'qty'],
      values: [{ sku: 'a', qty: 1, price: 1 }, { sku: 'b', qty: '$s.1.qty', price: 2 }]
    }], 'value_invalid', 'Row 1 of values, column "qty": a key must not be null.'],
    [
      [{
        ...articles, values: [{ sku: 'fig', due: { $mul: 2 } }, { sku: 'pear', due: { $mul: 3 } }]
      }],
      'undefined_function',
      '"$mul" does not work with column "due": operator does not exist: date * date'
    ],
    [
      [{
        ...articles,
        values: [{ sku: 'apple', data: { $append: [1] } }, { sku: 'fig', data: { $append: [] } }]
      }],
      'value_invalid',
      'Column "data": $append needs an array in the row. To replace the value, set the value ' +
        'itself.'
    ],
    [[{ ...articles, key: ['nope'], values: [{ nope: 1, qty: 1 }] }], 'undefined_column',
      'Table "articles" has no column "nope".'],
    [[{ ...articles, values: [{ sku: 'fig', nope: 1 }] }], 'undefined_column',
      'Table "articles" has no column "nope".']
  ]
  for (const [ops, code, message] of failures) {
    const { body } = await service.post(
      [op.update('first', 'noted', { set: { a: 9 }, all: true }), ...ops]
    )
    t.match(body.error, { code, message, op: 'u' }, message.replaceAll('$', ''))
    if (code === 'key_duplicate') t.same(body.error.path, ['values', 2])
  }
  const rows = await service.database.sql`select a from noted order by id`
  t.same(rows.map(({ a }) => a as number), [1, 2, 3], 'nothing was changed')
})

t.test('references are refused also if no partition can have the row', async t => {
  const source = op.select('s', 'docs', { where: { id: { in: [2, 5] } }, order: [{ id: 'asc' }] })
  for (const [members, path] of [
    [{ key: ['k'], values: [{ k: '$s.0.jb', v: 1 }] }, ['values', 0, 'k']],
    [{ set: { v: '$s.1.jb' }, where: { k: { eq: 100 } } }, ['set', 'v']]
  ] as const) {
    const { body } = await service.post([source, op.update('u', 'parts', members)])
    t.match(body.error, { code: 'value_invalid', op: 'u', path })
    const skipped = await service.post([source, op.update('u', 'parts', {
      ...members, when: { s: 0 }
    })])
    t.equal(skipped.body.data?.['u'], null, skipped.text)
  }
})

t.test('a batch of a known shape is checked like the first one', async t => {
  const post = (first: unknown, second: unknown): ReturnType<ServiceUnderTest['post']> =>
    service.post([{
      ...articles,
      returning: ['sku', 'qty'],
      values: [{ sku: first, qty: 1 }, { sku: second, qty: { $inc: 2 } }]
    }])
  for (const i of [1, 2, 3, 4, 5]) {
    const { body } = await post('apple', 'pear')
    t.same(body.data?.['u'], [{ sku: 'apple', qty: 1 }, { sku: 'pear', qty: 5 + 2 * i }])
  }
  for (const second of ['pear', { $value: 'pear' }]) {
    t.match((await post('pear', second)).body.error.errors, [{ code: 'key_duplicate' }])
  }
})

t.test('many rows that are alike have values and errors of their own', async t => {
  const post = (n: (i: number) => unknown, id = (i: number): unknown => 19 - i) => service.post([
    op.update('u', 'medium', {
      key: [{ column: 'id', as: 'at' }],
      values: Array.from({ length: 20 }, (_, i) => ({ n: { $inc: n(i) }, at: id(i) })),
      returning: ['id', 'n']
    })
  ], { headers: { Prefer: 'tx=rollback' } })
  for (const factor of [1, 2]) {
    const { body, text } = await post(i => factor * i)
    t.same(body.data?.['u'], Array.from({ length: 20 }, (_, i) =>
      ({ id: 19 - i, n: 19 - i + factor * i })), text)
  }
  const failures = [
    [await post(i => i === 18 ? 5_000_000_000 : i), 'numeric_value_out_of_range', ['n', '$inc']],
    [await post(i => i, i => i === 18 ? 'x' : i), 'invalid_text_representation', ['at']],
    [await post(i => i, i => i === 18 ? null : i), 'validation_failed', ['at']],
    [await post(i => i, i => i === 18 ? 3 : i), 'validation_failed', []],
    [await post(i => i === 18 ? true : i), 'validation_failed', ['n', '$inc']]
  ] as const
  for (const [{ body: { error } }, code, path] of failures) {
    t.match(error, { code }, code)
    t.same(error?.path ?? error?.errors?.[0]?.path, ['values', 18, ...path])
  }
  const all = await post(() => ({ $now: true }))
  t.equal(all.body.error?.errors?.length, 20, 'an issue of all rows')
})

t.test('many rows have a column whose type has no name here', async t => {
  const values = Array.from({ length: 20 }, (_, i) => ({ n: 20 - i, other: null }))
  const { body, text } = await service.post([
    op.update('u', 'sizes', { key: ['n'], values, returning: ['n', 'other'] })
  ])
  t.same(body.data?.['u'], [3, 2, 1].map(n => ({ n, other: null })), text)
})

/** JSON that references give, which the type of a column must be able to hold. */
const jsonNull = differsOneByOne('the JSON null of an earlier row is NULL')
t.test('references give JSON as it is', jsonNull, async t => {
  const source = op.select('s', 'docs', { order: [{ id: 'asc' }] })
  const update = op.update('u', 'docs', { key: ['id'] })
  const values = [3, 4].map((id, i) =>
    ({ id, jb: `$s.${i}.jb`, js: `$s.${i}.js`, word: `$s.${i}.word` })
  )
  const more = [{ id: 5, jb: { $append: '$s.0.jb' } }]
  const { status, text } = await service.post([source, { ...update, values: [...values, ...more] }])
  t.equal(status, 200, text)
  const rows = await service.database.sql`select * from docs where id > 2 order by id`
  t.same(rows.map(({ jb, js, word }) => [jb, js, word] as unknown[]), [
    [null, null, '[x]'], [null, null, '{"a"'], [[1, null], 1, 'x']
  ])
  const kept = await service.database.sql`select id from docs where jb = 'null' order by id`
  t.same(kept.map(({ id }) => id as number), [1, 3], 'the JSON null and NULL are different')
  const many = Array.from({ length: 20 }, (_, i) =>
    ({ id: i + 3, jb: i === 0 ? '$s.0.jb' : ['$$x', '$s.1.id'] })
  )
  t.equal((await service.post([source, { ...update, values: many }])).status, 200)
  const [row] = await service.database.sql`
    select string_agg(jb::text, ' ' order by id) as jb from docs where id > 2`
  t.equal(row?.['jb'], 'null ["$x", 2] ["$x", 2]')
  const nulls = [{ id: 3, jb: { $value: null } }, { id: 4, jb: null }]
  t.match(await service.post([{ ...update, values: nulls, returning: ['jb'] }]), { status: 200 })
  const stored = await service.database.sql`
    select jb::text from docs where id in (3, 4) order by id`
  t.same(stored.map(({ jb }) => jb as unknown), ['null', null])
})

t.test('a composite is a key, or an operand', async t => {
  const { body, text } = await service.post([
    op.select('s', 'sizes', { order: [{ n: 'asc' }] }),
    op.update('u', 'sizes', {
      key: ['size'],
      values: [{ size: '$s.0.size', n: 5 }, { size: '$s.1.size', n: 6 }],
      returning: ['n']
    })
  ])
  t.same(body.data?.['u'], [{ n: 5 }, { n: 6 }], text)
  const found = await service.post([{ eq: '(1,x)' }, { in: ['(1,x)'] }, { eq: { any: ['(1,x)'] } }]
    .map((size, i) => op.select(`s${i}`, 'sizes', { where: { size }, columns: ['n'] })))
  t.same(found.body.data, { s0: [{ n: 3 }], s1: [{ n: 3 }], s2: [{ n: 3 }] }, found.text)
  const unnamed = await service.post([op.select('s', 'sizes', { where: { other: { eq: '(1)' } } })])
  t.equal(unnamed.body.error?.code, 'feature_not_supported', 'its type has no name here')
})

t.test('many rows are found by their index', async t => {
  const update = op.update('u', 'big', { key: ['sku'], returning: ['id', 'n'] })
  const explained = await service.post([{ ...update, values: rowsOf(40, n => ({ n })) }], {
    headers: { Prefer: 'explain' }
  })
  t.match(explained.text, /"Index Scan"/)
  t.notMatch(explained.text, /"Seq Scan"/)
  t.notMatch(explained.text, /oneflight/)
  // 100 rows, as PostgreSQL expects of JSON, would be joined to the whole table.
  const few = Array.from({ length: 20 }, (_, id) => ({ id, n: id }))
  const joined = await service.post([op.update('u', 'medium', { key: ['id'], values: few })], {
    headers: { Prefer: 'explain' }
  })
  t.match(joined.text, /"Index Scan"/)
  t.notMatch(joined.text, /"Seq Scan"/)
  const values = rowsOf(10_000, i => ({ n: -i })).toReversed()
  const all = await service.post([{ ...update, values }])
  t.equal(all.status, 200, all.text.slice(0, 300))
  t.same(all.body.data.u.slice(0, 2), [{ id: 9999, n: -9999 }, { id: 9998, n: -9998 }])
  t.equal(all.body.data.u.length, 10_000)
  const mixed = rowsOf(10_000, i => ({
    ...i % 3 === 0 ? { n: i } : { b: { $mul: i } }, ...i % 7 === 0 ? { id: { $inc: 100_000 } } : {}
  }))
  const groups = await service.post([{ ...update, values: mixed, answer: 'count' }])
  t.equal(groups.text.includes('"u":10000'), true, groups.text.slice(0, 300))
})
