/**
 * References: the value of a column in a row that an earlier operation returned, resolved by the
 * server.
 */
import t from 'tap'
import { gauge, useService } from '../support/service.ts'

const schema = `
  create table a (id int generated always as identity primary key, big bigint, num numeric,
    txt text, ts timestamptz, b bytea, j jsonb, flag bool, "Weird ""Col" text, "with space" text,
    "1" text, "*" text, "é😀" text, "__proto__" text, "constructor" text, "x.y" text);
  create table b (id int generated always as identity primary key, a_id int, num numeric, txt text,
    j jsonb, doc json, arr text[]);
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
  grant all on a, b, exact, rounded, people to oneflight_user;
`
const service = await useService(t, { schema })
const full = {
  big: '9223372036854775807',
  num: '12345678901234567890.1234567890',
  txt: 'a "text" \\ $',
  ts: '2024-01-01T00:00:00.000001Z',
  b: '\\x00ff',
  j: { k: [1, null] },
  flag: true,
  'Weird "Col': 'w',
  'with space': 's',
  1: 'one',
  '*': 'star',
  'é😀': 'u',
  ['__proto__']: 'p',
  constructor: 'c',
  'x.y': 'dot'
}
const source = {
  id: 'src',
  op: 'insert',
  table: 'a',
  values: [full, { txt: 'second', num: 2 }, {}]
}

t.test('every form of reference is resolved, and similar text stays text', async t => {
  const rows: ReadonlyArray<readonly [sent: string, txt: unknown]> = [
    ['$src.0.txt', full.txt],
    ['$src.txt', full.txt],
    ['$src.1.txt', 'second'],
    ['$src.2.txt', null],
    ['$src.0.big', '9223372036854775807'],
    ['$src.num', '12345678901234567890.1234567890'],
    ['$src.ts', '2024-01-01T00:00:00.000001+00:00'],
    ['$src.b', '\\x00ff'],
    ['$src.flag', 'true'],
    ['$src.0.Weird "Col', 'w'],
    ['$src.with space', 's'],
    ['$src.0.1', 'one'],
    ['$src.0.*', 'star'],
    ['$src.é😀', 'u'],
    ['$src.__proto__', 'p'],
    ['$src.0.constructor', 'c'],
    ['$$src.0.txt', '$src.0.txt'],
    ['$$src', '$src'],
    ['$$$src.txt', '$$src.txt'],
    ['$$nope.', '$nope.'],
    ['$$_', '$_'],
    ...[
      '$5.00', '$2b$10$abc', '$', '$$', '$$ off', '$$5', '$ src.txt', '$src txt', '$src-x.txt',
      '$src,txt', ' $src.txt', 'x$src.txt', '$' + '{src}', '$(src)', '$é', '$src\n', '$$src!',
      '$1.txt', '$.txt', ''
    ].map(text => [text, text] as const)
  ]
  for (const part of [rows.slice(0, 21), rows.slice(21)]) {
    const { body, text } = await service.post([
      source,
      ...part.flatMap(([txt], i) => [
        { id: `i${i}`, op: 'insert', table: 'b', values: [{ txt }] },
        { id: `m${i}`, op: 'insert', table: 'b', values: [{ txt }, {}] },
        {
          id: `u${i}`,
          op: 'update',
          table: 'b',
          set: { txt },
          where: { id: { eq: `$m${i}.1.id` } }
        }
      ])
    ])
    t.equal(body.error, null, text)
    for (const [i, [sent, txt]] of part.entries()) {
      const written = ['i', 'm', 'u'].map(kind => body.data?.[`${kind}${i}`][0].txt as unknown)
      t.same(written, [txt, txt, txt], encodeURI(sent))
    }
  }
})

t.test('a value that does not fit the column is an error of the reading operation', async t => {
  const rows: ReadonlyArray<readonly [operation: object, code: string]> = [
    [{ op: 'insert', table: 'b', values: [{ a_id: '$src.txt' }] }, 'invalid_text_representation'],
    [
      { op: 'select', table: 'b', where: { a_id: { eq: '$src.big' } } },
      'numeric_value_out_of_range'
    ],
    [{ op: 'select', table: 'b', where: { nope: { eq: '$src.big' } } }, 'undefined_column'],
    [{ op: 'select', table: 'b', where: { doc: { eq: '$src.j' } } }, 'undefined_function']
  ]
  await service.database.sql`insert into b default values`
  for (const [operation, code] of rows) {
    const { body } = await service.post([source, { id: 'o', ...operation }])
    t.match(body.error, { code, op: 'o', index: 1 }, code)
  }
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
    ['n', 'n'],
    ['n', 'big'],
    ['ts', 'ts'],
    ['v', 's'],
    ['c', 's'],
    ['bits', 'bits'],
    ['d', 'n'],
    ['d', 'big'],
    ['list', 'list'],
    ['folded', 's']
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
  const system = ['ctid', 'xmin', 'cmin', 'xmax', 'cmax', 'tableoid']
  const look = { ...select, id: 'l', columns: ['id', ...system], where: { id: { eq: 3 } } }
  for (const column of system) {
    const { body: { data } } = await service.post([
      look,
      { ...select, where: { id: { eq: '$l.0.id' }, [column]: { eq: `$l.0.${column}` } } }
    ])
    t.match(data.s, [{ id: 3 }], column)
  }
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

t.test('a body full of references', async t => {
  const { status, text, body } = await service.post([
    { id: 's', op: 'insert', table: 'b', values: [{ j: 1 }] },
    {
      id: 'o',
      op: 'insert',
      table: 'b',
      values: [{ j: Array.from({ length: 40_000 }, () => '$s.j') }]
    }
  ])
  t.equal(status, 200, text.slice(0, 300))
  t.equal(body.data.o?.[0].j.length, 40_000)
})

t.test('a chain of 100 operations, and ids such as "x", "X" and "__proto__"', async t => {
  await service.database.sql`truncate b restart identity`
  const chain = Array.from(
    { length: 99 },
    (_, i) => ({
      id: `c${i + 1}`,
      op: 'insert',
      table: 'b',
      values: [{ a_id: `$c${i}.id`, num: i === 0 ? 1.5 : `$c${i}.num` }]
    })
  )
  const { body } = await service.post([
    { id: 'c0', op: 'insert', table: 'b', values: [{}] },
    ...chain
  ])
  t.match(body.data.c99, [{ id: 100, a_id: 99, num: 1.5 }])
  const ids = ['x', 'X', '__proto__', 'constructor', 'toString', '_']
  const { text } = await service.post([
    ...ids.map(id => ({ id, op: 'insert', table: 'b', values: [{ txt: id }] })),
    { id: 'all', op: 'insert', table: 'b', values: [{ arr: ids.map(id => `$${id}.txt`) }] }
  ])
  t.match(text, '"arr":["x","X","__proto__","constructor","toString","_"]')
  t.match(text, '"__proto__":[{')
})

t.test('a row that is missing where it is read runs the batch once more, not for DDL', async t => {
  const service = await useService(t, {
    schema: `${schema}
      create function swallow() returns trigger language plpgsql as 'begin return null; end';
      create trigger swallow before insert on a for each row execute function swallow()`
  })
  const { status, body } = await service.post([
    { id: 'a', op: 'insert', table: 'a', values: [{ txt: 'x' }] },
    { id: 'b', op: 'select', table: 'b', where: { a_id: { eq: '$a.0.id' } } }
  ])
  t.same([status, body.error.code], [422, 'reference_row_missing'])
  t.equal(await gauge(service, 'service_txn_retry_count{reason="values"}'), 1)
  t.notOk(await gauge(service, 'service_txn_retry_count{reason="stale_plan"}'))
})
