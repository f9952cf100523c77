/**
 * References: the value of a column in a row that an earlier operation returned, resolved by the
 * server.
 */
import t from 'tap'
import { gauge, useService } from '../support/service.ts'

const schema = `
  create table a (id int generated always as identity primary key, big bigint, num numeric,
    txt text, ts timestamptz, b bytea, j jsonb, doc json, arr int[], flag bool,
    "Weird ""Col" text, "with space" text, "1" text, "*" text, "é😀" text, "__proto__" text,
      "constructor" text, "x.y" text);
  create table b (id int generated always as identity primary key, a_id int, num numeric, txt text,
    j jsonb, doc json, arr text[], ts timestamp, day date, short varchar(3));
  create function a_label(a) returns text language sql immutable as 'select $1.txt';
  grant all on a, b to oneflight_user;
`
const full = {
  big: '9223372036854775807',
  num: '12345678901234567890.1234567890',
  txt: 'a "text" \\ $',
  ts: '2024-01-01T00:00:00.000001Z',
  b: '\\x00ff',
  j: { k: [1, null] },
  arr: [1, null, 3],
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
  const service = await useService(t, { schema })
  const data = (text: string): readonly [string, unknown] => [text, text]
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
    data('$5.00'),
    data('$2b$10$abc'),
    data('$'),
    data('$$'),
    data('$$ off'),
    data('$$5'),
    data('$ src.txt'),
    data('$src txt'),
    data('$src-x.txt'),
    data('$src,txt'),
    data(' $src.txt'),
    data('x$src.txt'),
    data('$' + '{src}'),
    data('$(src)'),
    data('$é'),
    data('$src\n'),
    data('$$src!'),
    data('$1.txt'),
    data('$.txt'),
    data('')
  ]
  for (const [sent, txt] of rows) {
    const { status, body, text } = await service.post([
      source,
      { id: 'i', op: 'insert', table: 'b', values: [{ txt: sent }] },
      { id: 'm', op: 'insert', table: 'b', values: [{ txt: sent }, {}] },
      { id: 'u', op: 'update', table: 'b', set: { txt: sent }, where: { id: { eq: '$m.1.id' } } }
    ])
    t.equal(status, 200, encodeURI(`${sent} ${status === 200 ? '' : text}`))
    if (status === 200) {
      t.same([body.data.i[0].txt, body.data.m[0].txt, body.data.u[0].txt], [txt, txt, txt])
    }
  }
})

t.test('malformed and unknown references are rejected before the transaction', async t => {
  const service = await useService(t, { schema })
  const rows: ReadonlyArray<readonly [sent: string, code: string]> = [
    ...[
      '$src.',
      '$src.*',
      '$src.*.',
      '$src.*.txt.x',
      '$src.*.*.txt',
      '$src..txt',
      '$src.0.',
      '$src.0..',
      '$src.0.*.txt',
      '$src.00.txt',
      '$src.01.txt',
      '$src.-1.txt',
      '$src.+1.txt',
      '$src.1e0.txt',
      '$src.0.x.y',
      '$src.txt.0',
      '$src. 0.txt',
      '$src.0x0.txt',
      '$src.٣.txt'
    ].map(sent => [sent, 'reference_malformed'] as const),
    ...[
      '$nope',
      '$nope.id',
      '$SRC.id',
      '$later.id',
      '$me.id',
      '$me.0.id',
      '$later',
      '$__proto__.id',
      '$constructor.id',
      '$toString.0.id',
      '$_.x'
    ].map(sent => [sent, 'reference_unknown'] as const)
  ]
  for (const [sent, code] of rows) {
    const positions: ReadonlyArray<
      readonly [Record<string, unknown>, ReadonlyArray<string | number>]
    > = [
      [{ op: 'insert', table: 'b', values: [{ id: 1 }, { j: { 'a.b': [0, { $x: sent }] } }] }, [
        'values',
        1,
        'j',
        'a.b',
        1,
        '$x'
      ]],
      [{ op: 'update', table: 'b', set: { txt: sent }, where: { id: { eq: 1 } } }, ['set', 'txt']],
      [{ op: 'delete', table: 'b', where: { id: { eq: 1, lt: sent } } }, ['where', 'id', 'lt']],
      [{ op: 'select', table: 'b', where: { txt: { like: sent } } }, ['where', 'txt', 'like']]
    ]
    for (const [operation, path] of positions) {
      const later = { id: 'later', op: 'select', table: 'b' }
      const { status, body } = await service.post([source, { id: 'me', ...operation }, later])
      const issues: ReadonlyArray<Record<string, unknown>> = body.error.errors ?? []
      t.strictSame(
        [status, issues.map(({ op, index, code, path }) => ({ op, index, code, path }))],
        [422, [{ op: 'me', index: 1, code, path }]],
        encodeURI(sent)
      )
    }
  }
  t.same(await service.database.sql`select * from a`, [])
})

t.test('a row or column that was not returned fails the batch, even if unused', async t => {
  const service = await useService(t, {
    schema: `${schema} insert into b (txt) values ('kept'); create view two as select * from a ` +
      'limit 2; grant all on two to oneflight_user'
  })
  const select = { id: 'src', op: 'select', table: 'a' }
  const rows: ReadonlyArray<readonly [first: Record<string, unknown>, sent: string, code: string]> =
    [
      [source, '$src.3.txt', 'reference_row_missing'],
      [source, '$src.2147483647.txt', 'reference_row_missing'],
      [source, '$src.2147483648.txt', 'reference_row_missing'],
      [source, '$src.99999999999999999999999999.txt', 'reference_row_missing'],
      [select, '$src.txt', 'reference_row_missing'],
      [select, '$src.nope', 'reference_row_missing'],
      [source, '$src.nope', 'reference_column_missing'],
      [source, '$src.0.TXT', 'reference_column_missing'],
      [source, '$src.ctid', 'reference_column_missing'],
      [source, '$src.a_label', 'reference_column_missing'],
      [source, `$src.${'x'.repeat(200)}`, 'reference_column_missing'],
      [source, "$src.' || 1 --", 'reference_column_missing'],
      [source, '$src.2.nope', 'reference_column_missing'],
      [{ id: 'src', op: 'delete', table: 'a', all: true }, '$src.id', 'reference_row_missing'],
      [
        { id: 'src', op: 'update', table: 'a', set: { txt: 'x' }, where: { id: { eq: -1 } } },
        '$src.id',
        'reference_row_missing'
      ]
    ]
  for (const [first, sent, code] of rows) {
    const readers: ReadonlyArray<Record<string, unknown>> = [
      { op: 'insert', table: 'b', values: [{ txt: sent }] },
      { op: 'select', table: 'b', where: { id: { eq: -1 }, txt: { eq: sent } } },
      { op: 'update', table: 'b', set: { txt: sent }, where: { id: { eq: -1 } } },
      { op: 'delete', table: 'b', where: { txt: { eq: sent }, id: { eq: -1 } } }
    ]
    for (const reader of readers) {
      const { status, body } = await service.post([
        { id: 'before', op: 'insert', table: 'b', values: [{}] },
        first,
        { id: 'between', op: 'select', table: 'b' },
        { id: 'reader', ...reader }
      ])
      t.match({ status, error: body.error }, {
        status: 422,
        error: {
          type: 'execution_error',
          code,
          committed: false,
          op: 'reader',
          index: 3,
          message: /^"src" returned /
        }
      }, encodeURI(sent.slice(0, 60)))
    }
  }
  t.same((await service.database.sql`select txt from b`).map(({ txt }) => txt as string), ['kept'])
})

t.test('references as operands have the type of the compared column', async t => {
  const service = await useService(t, { schema })
  const { status, body, text } = await service.post([
    source,
    {
      id: 'b',
      op: 'insert',
      table: 'b',
      values: [{
        a_id: '$src.id',
        num: '$src.num',
        txt: '$src.txt',
        j: '$src.txt',
        ts: '$src.ts',
        day: '$src.ts',
        arr: '$src.arr',
        doc: ['$src.j', { n: '$src.num', t: '$src.txt', z: '$src.2.txt' }]
      }]
    },
    {
      id: 'num',
      op: 'select',
      table: 'b',
      where: { num: { eq: '$src.num', gte: '$src.1.num' }, a_id: { lt: '$src.1.id' } }
    },
    {
      id: 'txt',
      op: 'select',
      table: 'b',
      where: { txt: { eq: '$src.txt', neq: '$src.1.txt' }, num: { neq: '$src.1.num' } }
    },
    { id: 'json', op: 'select', table: 'b', where: { j: { eq: '$src.txt' } } },
    {
      id: 'type',
      op: 'select',
      table: 'a',
      where: {
        big: { eq: '$src.big' },
        ts: { lte: '$src.ts' },
        b: { eq: '$src.b' },
        j: { eq: '$src.j' },
        arr: { eq: '$src.arr' },
        flag: { eq: '$src.flag' },
        'Weird "Col': { eq: '$src.0.Weird "Col' }
      }
    },
    { id: 'none', op: 'select', table: 'b', where: { txt: { eq: '$src.2.txt' } } },
    { id: 'not', op: 'select', table: 'b', where: { txt: { neq: '$src.2.txt' } } }
  ])
  t.equal(status, 200, text)
  t.equal(body.data.b[0].j, full.txt, 'text into jsonb is a JSON string')
  t.match(text, '"num":12345678901234567890.1234567890')
  t.match(
    text,
    '"doc":[{"k": [1, null]},{"n":12345678901234567890.1234567890,"t":"a \\"text\\" \\\\ ' +
      '$","z":null}]'
  )
  t.match(body.data.b[0], {
    ts: '2024-01-01T00:00:00.000001',
    day: '2024-01-01',
    arr: ['1', null, '3']
  })
  for (const id of ['num', 'txt', 'json', 'type']) t.equal(body.data[id].length, 1, id)
  t.same(
    [body.data.none, body.data.not],
    [[], []],
    'a reference to NULL is NULL, which no row equals or differs from'
  )
})

t.test('a value that does not fit the column is an error of the reading operation', async t => {
  const service = await useService(t, { schema: `${schema} insert into b default values` })
  const rows: ReadonlyArray<readonly [Record<string, unknown>, string]> = [
    [{ op: 'insert', table: 'b', values: [{ a_id: '$src.txt' }] }, 'invalid_text_representation'],
    [
      { op: 'select', table: 'b', where: { a_id: { eq: '$src.big' } } },
      'numeric_value_out_of_range'
    ],
    [{ op: 'select', table: 'b', where: { nope: { eq: '$src.big' } } }, 'undefined_column'],
    [{ op: 'select', table: 'b', where: { doc: { eq: '$src.j' } } }, 'undefined_function']
  ]
  for (const [operation, code] of rows) {
    const { body } = await service.post([source, { id: 'o', ...operation }])
    t.match(body.error, { code, op: 'o', index: 1 }, code)
  }
})

t.test('references compare like literals for any length, precision or domain', async t => {
  const service = await useService(t, {
    schema: `
      create domain amount as numeric(4, 2) not null check (value < 50);
      create table exact (n numeric, big numeric, ts timestamptz, s text, bits text, list numeric[],
        nothing text);
      create table rounded (n numeric(4, 2), ts timestamptz(0), v varchar(2), c char(3),
        bits bit(3), d amount, list numeric(4, 2)[], folded text collate "C");
      insert into rounded values (1.23, '2024-01-01T00:00:01Z', 'ab', 'ab', '101', 1.23, '{1.23}',
        'ab');
      grant all on exact, rounded to oneflight_user;
    `
  })
  const values = {
    n: 1.234,
    big: 100000,
    ts: '2024-01-01T00:00:00.9Z',
    s: 'abc',
    bits: '10',
    list: [1.234]
  }
  const texts: Readonly<Record<string, string>> = {
    ...values,
    n: '1.234',
    big: '100000',
    list: '{1.234}'
  }
  const pairs: ReadonlyArray<readonly [column: string, source: string]> = [
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
  for (const [column, source] of pairs) {
    for (const operator of ['eq', 'neq', 'lt', 'lte', 'gt', 'gte']) {
      const { body, text } = await service.post([
        { id: 'src', op: 'insert', table: 'exact', values: [values] },
        {
          id: 'ref',
          op: 'select',
          table: 'rounded',
          where: { [column]: { [operator]: `$src.${source}` } }
        },
        {
          id: 'lit',
          op: 'select',
          table: 'rounded',
          where: { [column]: { [operator]: texts[source] } }
        }
      ])
      t.equal(
        body.data?.ref.length,
        body.data?.lit.length,
        `${column} ${operator} ${source} ${body.error === null ? '' : text}`
      )
    }
  }
  const { body } = await service.post([
    { id: 'src', op: 'insert', table: 'exact', values: [values] },
    { id: 'ref', op: 'select', table: 'rounded', where: { d: { neq: '$src.nothing' } } }
  ])
  t.same(body.data.ref, [], 'NULL matches no row of a NOT NULL domain')
})

t.test('a reference is stored in a column with a nondeterministic collation', async t => {
  const service = await useService(t, {
    schema: `
      create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create table people (id int primary key, name text collate folded);
      insert into people values (1, 'Ann'), (2, 'Bob');
      grant all on people to oneflight_user;
    `
  })
  const { body } = await service.post([
    { id: 'ann', op: 'select', table: 'people', where: { name: { eq: 'ANN' } } },
    { id: 'new', op: 'insert', table: 'people', values: [{ id: 3, name: '$ann.0.name' }] },
    {
      id: 'changed',
      op: 'update',
      table: 'people',
      set: { name: '$ann.0.name' },
      where: { id: { eq: 2 } }
    }
  ])
  t.same(body.data?.new, [{ id: 3, name: 'Ann' }])
  t.same(body.data?.changed, [{ id: 2, name: 'Ann' }])
})

t.test('a computed column and a system column compare with a reference', async t => {
  const service = await useService(t, { schema })
  const { body } = await service.post([source, {
    id: 's',
    op: 'select',
    table: 'a',
    where: { a_label: { eq: '$src.1.txt' } }
  }])
  t.match(body.data.s, [{ id: 2, txt: 'second' }])
  const system = ['ctid', 'xmin', 'cmin', 'xmax', 'cmax', 'tableoid']
  const look = {
    id: 'l',
    op: 'select',
    table: 'a',
    columns: ['id', ...system],
    order: [{ id: 'desc' }],
    limit: 1
  }
  for (const column of system) {
    const { body: { data } } = await service.post([look, {
      id: 's',
      op: 'select',
      table: 'a',
      where: { id: { eq: '$l.0.id' }, [column]: { eq: `$l.0.${column}` } }
    }])
    t.strictSame(data.s.map(({ id }: { id: number }) => id), [data.l[0].id], column)
  }
  const literal = await service.post([
    { id: 'n', op: 'insert', table: 'a', values: [{}] },
    { id: 's', op: 'select', table: 'a', where: { ctid: { eq: '(0,1)' } } }
  ])
  t.equal(literal.body.data.s.length, 1, 'a system column compares with a literal')
})

t.test('1000 references to several operations, in rows of one and many shapes', async t => {
  const service = await useService(t, { schema })
  const count = 1000
  const sources = [{
    id: 'one',
    op: 'insert',
    table: 'a',
    values: Array.from({ length: 500 }, (_, i) => ({ txt: `one ${i}` }))
  }, {
    id: 'two',
    op: 'insert',
    table: 'a',
    values: Array.from({ length: 500 }, (_, i) => ({ txt: `"two" ${i}` }))
  }]
  const refer = (i: number): string => `$${i % 2 === 0 ? 'one' : 'two'}.${Math.floor(i / 2)}.txt`
  const want = Array.from(
    { length: count },
    (_, i) => `${i % 2 === 0 ? 'one' : '"two"'} ${Math.floor(i / 2)}`
  )
  const { body } = await service.post([
    ...sources,
    { id: 'same', op: 'insert', table: 'b', values: want.map((_, i) => ({ txt: refer(i) })) },
    {
      id: 'mixed',
      op: 'insert',
      table: 'b',
      values: want.map((_, i) => i % 3 === 0 ? { txt: refer(i), num: i } : { txt: refer(i) })
    },
    {
      id: 'deep',
      op: 'insert',
      table: 'b',
      values: [{ j: want.map((_, i) => ({ [`k${i}`]: [refer(i)] })) }]
    }
  ])
  for (const id of ['same', 'mixed']) {
    t.same(body.data[id].map(({ txt }: { txt: string }) => txt), want, id)
  }
  t.same(body.data.deep[0].j, want.map((text, i) => ({ [`k${i}`]: [text] })))
})

t.test('a body full of references', async t => {
  const service = await useService(t, { schema })
  const { status, body } = await service.post([source, {
    id: 'o',
    op: 'insert',
    table: 'b',
    values: [{ j: Array.from({ length: 100_000 }, () => '$src.*') }]
  }])
  t.match({ status, message: body.error.message }, {
    status: 422,
    message: /^The batch has more than \d+ issues; these are listed\.$/
  }, 'malformed references')
  const good = await service.post([{ id: 's', op: 'insert', table: 'b', values: [{ j: 1 }] }, {
    id: 'o',
    op: 'insert',
    table: 'b',
    values: [{ j: Array.from({ length: 40_000 }, () => '$s.j') }]
  }])
  t.equal(good.status, 200, good.text.slice(0, 300))
  t.equal(good.body.data.o?.[0].j.length, 40_000)
})

t.test('a chain of 100 operations, and ids such as "x", "X" and "__proto__"', async t => {
  const service = await useService(t, { schema })
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
