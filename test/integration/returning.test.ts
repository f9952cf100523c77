/**
 * The returned rows: `returning` of insert, update and delete; `distinct`, `having`, `*`, `cast`,
 * names, paths and digits of what a select returns. The random batches of the model have the other
 * selects. Each is compared byte for byte with a query in SQL. Columns and aliases can have any
 * name.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { issuesOf } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('calm', 'wild');
  create domain positive as int check (value > 0);
  create table items (id int primary key, kind text, price numeric, qty int, at timestamptz,
    m mood, p positive, tags text[], data jsonb, raw json);
  create function label(items) returns text language sql immutable as 'select $1.kind || $1.qty';
  create function bad(items) returns int language plpgsql as $$
    begin execute 'select 1 where 1'; return 1; end $$;
  insert into items values
    (1, 'a', 1.50, 1, '2026-01-01T00:00Z', 'wild', 1, '{x}', '{"k": 1, "s": "u"}', '{"k": 1}'),
    (2, 'a', 1.5, 2, '2026-01-02T00:00Z', 'calm', 2, '{}', '{"k": 1.0, "s": "v"}', '{"k":1}'),
    (3, 'b', 9007199254740993.25, 1, null, null, null, null, '{"k": "1", "s": "7"}', null),
    (4, null, null, null, null, 'calm', 2, '{x}', null, '{"k": 2}'),
    (5, 'b', 3, 2, '2026-01-01T00:00Z', null, 1, '{y,x}', '{"s": null}', '{"k": 2}');
  create table pairs (a int, b text);
  insert into pairs values (1, 'x'), (1, 'x'), (2, null), (2, null), (null, null), (1, 'y');
  create table s (id int primary key, status text, total numeric(30, 10), n int, data jsonb,
    at timestamptz, big bigint, "count" int, "order" text, tags text[], doc json);
  insert into s values
    (1, 'open', 12345678901234567890.1234567890, 3,
      '{"city": "b", "items": [{"sku": "x", "n": 1.10}, {"sku": "y"}], "k": {"id": 9}}',
      '2024-01-01 00:00:00.000001+00', 9007199254740993, 5, 'z', '{a,b}',
      '{ "a" : 1.0, "l": [ 1,\t2 ] }'),
    (2, 'paid', 1.10, null, '{"city": "a", "items": [], "k": null}', null, null, 6, 'y', '{}',
      null),
    (3, 'open', null, 1, '{"city": "b", "items": [{"sku": null}]}', '2024-01-02', 1, 7, 'x', null,
      '{"a":"text"}'),
    (4, null, -0.5, 1, null, '2023-01-01', -1, 8, null, '{c}', '[7]'),
    (5, 'paid', 2, 2, '["first", {"sku": "in array"}]', '2024-01-03', 2, 9, 'w', '{d}', '5');

  create table a (id int generated always as identity primary key, word text,
    secret int default 7, j jsonb);
  create table b (n int, t text, j jsonb, l int[]);
  create table plain (id int primary key, k int);
  insert into plain select i, i % 2 from generate_series(1, 4) i;
  create table named (count int, max text);
  insert into named values (7, 'm');
  grant all on all tables in schema public to oneflight_user;

  create table p (id int generated always as identity primary key, open text default 'o',
    secret text default 's');
  insert into p (secret) values ('top');
  create table blind (id int, word text);
  insert into blind values (1, 'x');
  create table sealed (id int default 4);
  insert into sealed values (1);
  grant insert, delete, update, select (id, open) on p to oneflight_user;
  grant insert, update, delete on blind to oneflight_user;
  grant insert on sealed to oneflight_user;
`

type Case = readonly [operation: object, query: string]

const id = { id: 'asc' }

/** Members of a select of items, or of another table, with the same select in SQL. */
const cases: readonly Case[] = [
  // an alias that is the name of another column
  [{
    table: 's',
    columns: [{ column: 'status', as: 'total' }, { column: 'big', as: 'status' }],
    where: { status: { eq: 'open' }, total: { is: 'not_null' } }
  }, "select status as total, big as status from s where status = 'open' and total is not null"],
  // paths, named by their last key
  [{
    table: 's',
    columns: ['data->items->0->>sku', 'data->items->0->n', 'data->k->id'],
    order: [id]
  },
  `select data->'items'->0->>'sku' as sku, data->'items'->0->'n' as n, data->'k'->'id' as id
      from s order by s.id`],
  [{ table: 's', columns: ['data->0', { column: 'data->>-1', as: 'last' }], order: [id] },
    'select data->0 as data, data->>-1 as last from s order by id'],
  [{ table: 's', columns: ['id', 'doc', 'doc->a', 'doc->>l'], order: [id] },
    "select id, doc, doc->'a' as a, doc->>'l' as l from s order by id"],
  [{ table: 's', columns: ['id'], order: [id], limit: Number.MAX_SAFE_INTEGER, offset: 1 },
    'select id from s order by id offset 1'],
  [{
    table: 's',
    columns: [
      { fn: 'min', column: 'data->>city' }, { fn: 'max', column: 'order', as: 'order' },
      { fn: 'sum', column: 'count', as: 'sum of count' }
    ]
  }, 'select min(data->>\'city\'), max("order") as "order", sum(count) as "sum of count" from s'],
  [{
    table: 's',
    columns: ['data->city', 'data->>0', { fn: 'max', column: 'id' }],
    group_by: ['data->city', 'data->>0'],
    order: [{ max: 'asc' }]
  },
  `select data->'city' as city, data->>0 as data, max(id) from s group by data->'city', data->>0
      order by 3`],
  [{
    columns: ['data->k', { column: 'raw->k', as: 'r' }],
    distinct: true,
    order: [{ 'data->k': 'asc' }, { 'raw->k': 'asc' }]
  }, "select distinct data->'k' as k, (raw->'k')::jsonb as r from items order by 1, 2"],
  [{
    columns: ['data->k'],
    distinct: true,
    having: { k: { eq: { $value: 1 } } },
    order: [{ 'data->k': 'asc' }]
  }, "select distinct data->'k' as k from items where data->'k' = '1' order by 1"],
  [{
    columns: [{ fn: 'min', column: 'm', distinct: true },
      { fn: 'count', column: 'raw->k', distinct: true, as: 'r' }]
  }, "select min(distinct m), count(distinct (raw->'k')::jsonb) as r from items"],
  [{
    columns: ['id', 'data->k', 'data->>s', { column: 'data', as: 'd' }, 'tags'],
    having: {
      k: { eq: { $value: 1 } },
      s: { in: ['u', 'v'] },
      'd->>s': { like: 'u' },
      d: { cs: { k: 1 }, has_key: 's' },
      tags: { cs: ['x'] }
    }
  }, "select id, data->'k' as k, data->>'s' as s, data as d, tags from items where id = 1"],
  [{
    columns: ['label', 'qty'],
    having: { label: { like: 'a%' } },
    order: [{ price: 'asc' }, { id: 'desc' }]
  }, "select label(items), qty from items where label(items) like 'a%' order by price, id desc"],
  [{ columns: ['raw->k', { fn: 'count' }], group_by: ['raw->k'], having: { k: { eq: 2 } } },
    "select (raw->'k')::jsonb as k, count(*) from items where raw->>'k' = '2' group by 1"],
  [{ columns: ['ctid', '*'], where: { id: { eq: 1 } } }, 'select ctid, * from items where id = 1'],
  [{ columns: [{ column: 'b', as: '*' }], table: 'pairs', order: [{ b: 'asc' }], limit: 2 },
    'select b as "*" from pairs order by b limit 2'],
  [{
    columns: ['id', { column: 'data->>k', cast: 'int', as: 'n' },
      { column: 'data->k', cast: 'text', as: 't' }, { column: 'raw->>k', cast: 'numeric' },
      { column: 'qty', cast: 'bigint', as: 'b' }, { column: 'price', cast: 'float8', as: 'f' }],
    where: { id: { neq: 2 } },
    order: [{ n: 'desc' }, id]
  },
  `select id, (data->>'k')::int as n, (data->'k')::text as t, (raw->>'k')::numeric as k,
    qty::bigint as b, price::float8 as f from items where id <> 2 order by n desc, id`],
  [{
    columns: [{ column: 'data->>k', cast: 'numeric', as: 'n' }, { fn: 'count' }],
    group_by: ['data->>k'],
    having: { n: { eq: 1 }, count: { gt: 1 } }
  }, 'select 1 as n, 2 as count'],
  [{
    columns: ['id', { column: 'raw', cast: 'jsonb', as: 'j' }],
    having: { j: { cs: { k: 2 } }, 'j->k': { eq: 2 } },
    order: [id]
  }, 'select id, raw::jsonb as j from items where raw->>\'k\' = \'2\' order by id'],
  [{
    columns: [{ column: 'price', cast: 'text', as: 't' }, 'price'],
    distinct: true,
    having: { t: { neq: 'x' } },
    order: [{ price: 'desc' }],
    limit: 1
  }, 'select max(price)::text as t, max(price) as price from items']
]

const service = await useService(t, { schema })
const { sql } = service.database

function toSelect (members: object): object {
  return op.select('s', 'items', members)
}

t.test('a select returns the rows of the same select in SQL, byte for byte', async t => {
  for (const [members, query] of cases) {
    const rows = await op.renderRows(sql, query)
    const { text } = await service.post([toSelect(members)])
    t.equal(text, `{"error":null,"data":{"s":${rows}}}`, query)
  }
})

t.test('an error inside a function names no column', async t => {
  const select = op.select('s', 'items', { columns: ['bad'] })
  const { body } = await service.post([select])
  t.match(body.error, { message: /argument of WHERE must be type boolean/ })
  t.notMatch(body.error, { message: /^Column/ })
})

t.test('mistakes are refused', async t => {
  const having = { id: { eq: 1 } }
  const invalid: ReadonlyArray<readonly [members: object, issue: string]> = [
    [{ distinct: true, lock: 'update' }, 'member_invalid lock'],
    [{ columns: [{ fn: 'sum', column: 'qty', distinct: 'yes' }] },
      'member_invalid columns[0].distinct'],
    [{ having }, 'member_missing columns'],
    [{ columns: ['id'], having: { kind: { eq: 'a' } } }, 'member_invalid having.kind'],
    [{ columns: ['id'], having: { 'data->k': { eq: 1 } } }, 'member_invalid having["data->k"]'],
    [{ columns: ['id'], having: { id: { eq: { $col: 'qty' } } } }, 'member_invalid having.id.eq'],
    [{ columns: ['id'], having: { exists: { table: 'pairs', on: { a: 'qty' } } } },
      'member_invalid having.exists.on.a'],
    [{ columns: [{ column: 'id', cast: 'integer' }] }, 'member_invalid columns[0].cast'],
    [{ columns: [{ fn: 'count', cast: 'int' }] }, 'member_missing columns[0].column'],
    [{ columns: [`data->${'k'.repeat(64)}`] }, 'member_invalid columns[0]'],
    [{ columns: ['*', 'id', '*'] }, 'member_invalid columns[2]'],
    [{ columns: ['id'], having, lock: 'update' }, 'member_invalid lock']
  ]
  for (const [members, issue] of invalid) {
    t.same(issuesOf([toSelect(members)]), [issue], JSON.stringify(members))
  }
  const failing: ReadonlyArray<readonly [members: object, code: string, message: RegExp]> = [
    [{ columns: ['kind'], distinct: true, order: [{ qty: 'asc' }] },
      'invalid_column_reference', /SELECT DISTINCT/],
    [{ columns: ['kind'], distinct: true, having: { kind: { neq: 'z' } }, order: [{ qty: 'asc' }] },
      'invalid_column_reference', /SELECT DISTINCT/],
    [{ columns: ['raw'], distinct: true }, 'undefined_function', /Column "raw".*type json/],
    [{ columns: [{ fn: 'sum', column: 'kind', distinct: true }] }, 'undefined_function',
      /"sum" does not work with column "kind"/],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { eq: 'many' } } },
      'invalid_text_representation', /Column "n": .*bigint/],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { like: 'many' } } },
      'undefined_function', /"like" does not work with column "n"/],
    [{ columns: [{ column: 'kind', cast: 'int' }] }, 'invalid_text_representation',
      /type integer: "…"/],
    [{ columns: [{ column: 'tags', cast: 'int' }] }, 'cannot_coerce', /integer/],
    [{ columns: [{ fn: 'sum', column: 'data->>k', cast: 'date' }] }, 'undefined_function',
      /"sum" does not work with column "data"/],
    [{ columns: ['*', { column: 'id', as: 'qty' }] }, 'ambiguous_column',
      /"\*" contains a column "qty" already/],
    [{ columns: [{ column: 'data->x', as: 'kind' }, '*'], having: { id: { eq: 1 } } },
      'ambiguous_column', /"kind"/],
    [{ columns: ['*', { fn: 'count' }] }, 'grouping_error', /^Every column of "columns"/],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { eq: { $value: null } } } },
      'value_invalid', /Column "n": only json and jsonb can hold the JSON null/]
  ]
  for (const [members, code, message] of failing) {
    const { body, status } = await service.post([toSelect(members)])
    t.equal(status, code === 'value_invalid' ? 422 : 400, JSON.stringify(members))
    t.match(body.error, { code, message })
  }
})

t.test('references cannot read columns that are not returned', async t => {
  const insert = op.insert('i', 'a', [{ word: 'one', j: { k: 5 } }, { word: 'two' }])
  const before = op.insert('before', 'a', [{ word: 'zero', secret: 9 }])
  const ids = { ...insert, returning: ['id'] }
  const bad: ReadonlyArray<readonly [source: object, reference: string]> = [
    [ids, '$i.0.word'],
    [{ ...insert, returning: [{ column: 'id', as: 'word' }] }, '$i.0.id'],
    [op.update('i', 'a', { set: { secret: 1 }, all: true, returning: ['word'] }), '$i.secret']
  ]
  for (const [source, reference] of bad) {
    const readers = [
      op.insert('r', 'b', [{ j: reference }]),
      op.select('r', 'b', { where: { n: { eq: -1 }, j: { eq: reference } } })
    ]
    for (const reader of readers) {
      await sql`truncate a, b restart identity`
      const { status, body, text } = await service.post([before, source, reader])
      t.match({ status, ...body.error }, {
        status: 422,
        type: 'execution_error',
        code: 'reference_column_missing',
        op: 'r',
        index: 2,
        committed: false
      }, encodeURI(`${JSON.stringify(source)} ${reference} ${text}`))
    }
  }
  // If an operation returns no columns, no reference to it is valid, not even to an empty list.
  for (const operand of [['$i.0.id'], '$i.*.id']) {
    const reader = op.select('r', 'b', { where: { n: { in: operand } } })
    const { status, body } = await service.post([before, { ...insert, returning: [] }, reader])
    const error = { status: 422, code: 'reference_column_missing', op: 'r', index: 2 }
    t.match({ status, ...body.error }, error)
  }
  t.same(await sql`select * from b`, [])
})

t.test('columns that are not returned need no privilege to read', async t => {
  const blind = (values: object[], more: object = {}): object =>
    op.insert('o', 'blind', values, more)
  const p = (more: object): object => op.insert('o', 'p', [{ secret: 'x' }], more)
  const where = { id: { eq: 1 } }
  /** [operation, its rows; none if it is forbidden] */
  const rows: ReadonlyArray<readonly [operation: object, data?: readonly object[]]> = [
    [blind([{ id: 2 }, { id: 3, word: 'y' }, {}], { returning: [] }), []],
    [blind([{ id: 2 }])],
    [blind([{ id: 2 }], { returning: ['id'] })],
    [blind([{ id: 2 }], { returning: [], expect: 1 }), []],
    [op.insert('o', 'sealed', [{}, {}], { returning: [] }), []],
    [op.update('o', 'blind', { set: { word: 'new' }, all: true, returning: [] }), []],
    [op.update('o', 'blind', { set: { word: 'new' }, where, returning: [] })],
    [op.update('o', 'blind', { set: { word: 'new' }, all: true })],
    [op.delete('o', 'blind', { all: true, returning: [] }), []],
    [op.delete('o', 'blind', { all: true, returning: ['word'] })],
    [p({ returning: ['id', 'open'] }), [{ id: 2, open: 'o' }]],
    [p({ returning: ['secret'] })],
    [p({})],
    [op.update('o', 'p', { set: { secret: 'y' }, where, returning: ['id'] }), [{ id: 1 }]],
    [op.update('o', 'p', { set: { open: 'y' }, where: { secret: { eq: 'y' } }, returning: [] })],
    [op.select('o', 'p', { columns: ['id', { column: 'open', as: 'secret' }], where }),
      [{ id: 1, secret: 'o' }]],
    [op.select('o', 'p', { columns: [{ fn: 'count' }], where }), [{ count: 1 }]],
    [op.select('o', 'p', { columns: [{ fn: 'max', column: 'secret' }] })],
    [op.select('o', 'p', { columns: ['id'], order: [{ secret: 'asc' }] })],
    [op.select('o', 'p', {
      columns: [{ column: 'id', as: 'secret' }], order: [{ secret: 'asc' }], limit: 1
    }), [{ secret: 1 }]],
    [op.select('o', 'p')],
    [op.delete('o', 'p', { where, returning: ['open'] }), [{ open: 'o' }]]
  ]
  for (const [operation, data] of rows) {
    const { status, body, text } = await service.post([operation])
    const name = encodeURI(`${JSON.stringify(operation)} ${text}`)
    const error = { status: 403, code: 'insufficient_privilege', op: 'o' }
    if (data !== undefined) t.same(body, { error: null, data: { o: data } }, name)
    else t.match({ status, ...body.error }, error, name)
  }
})

t.test('a missing column is an error, even if a type, table or function has its name', async t => {
  // PostgreSQL would read column "text" or "name" of a row as a cast of the whole row.
  const missing = [
    'nope', 'name', 'text', 'int4', 'record', 'current_user', 'ID', 's', 't', 'r', 'status ', '**',
    's.id', 'count(*)', '"id"'
  ]
  const rows: ReadonlyArray<readonly [operation: object, code: string]> = [
    ...missing.flatMap(name => [
      { columns: [name] },
      { columns: [{ column: name, as: 'id' }] },
      { where: { [name]: { like: '%' } } },
      { where: { id: { eq: { $col: name } } } },
      { order: [{ [name]: 'asc' }] },
      { columns: [{ fn: 'count' }], group_by: [name] },
      { columns: [{ fn: 'max', column: name }] },
      { op: 'insert', values: [{ id: 50 }], returning: [name] },
      { op: 'update', set: { n: 1 }, all: true, returning: [name] },
      { op: 'delete', all: true, returning: [name] }
    ].map(operation => [operation, 'undefined_column'] as const)),
    [{ columns: ['status->x'] }, 'undefined_function'],
    [{ order: [{ doc: 'asc' }] }, 'undefined_function'],
    [{ columns: [{ fn: 'sum', column: 'status' }] }, 'undefined_function'],
    [{ columns: [{ fn: 'max', column: 'data' }] }, 'undefined_function'],
    [{ columns: ['status', { fn: 'count' }] }, 'grouping_error'],
    [{ table: 'plain', columns: ['count'] }, 'undefined_column'],
    [{ table: 'plain', columns: ['jsonb_agg->0'] }, 'undefined_column'],
    [{ table: 'plain', columns: ['k', 'array_agg'], group_by: ['k'] }, 'undefined_column'],
    [{ table: 'plain', order: [{ count: 'asc' }] }, 'undefined_column'],
    [{ table: 'plain', op: 'delete', all: true, returning: ['count'] }, 'undefined_column']
  ]
  for (const [operation, code] of rows) {
    const batch = [op.select('o', 's', operation)]
    const { status, body } = await service.post(batch)
    const error = { status: 400, type: 'execution_error', code, op: 'o', committed: false }
    t.match({ status, ...body.error }, error, encodeURI(JSON.stringify(operation)))
  }
  const columns = { columns: ['count', 'max'], order: [{ max: 'asc' }] }
  const { body } = await service.post([op.select('s', 'named', columns)])
  t.same(body.data.s, [{ count: 7, max: 'm' }], 'columns that have the names of aggregates')
})

t.test('a table can have 1600 columns', async t => {
  const wide = Array.from({ length: 1600 }, (_, i) => `c${i}`)
  const service = await useService(t, {
    schema: `create table wide (${wide.map(name => `${name} int`).join()})`
  })
  const row = `{${wide.map((name, i) => `"${name}":${i}`).join()}}`
  const renamed = wide.map(column => ({ column, as: `${column}_` }))
  const dataOf = async (...batch: readonly object[]): Promise<string> => {
    const { text } = await service.post(batch)
    return text.replace(/^\{"error":null,"data":(.*)\}$/, '$1')
  }
  const select = op.select('s', 'wide', { columns: wide })
  const values = [Object.fromEntries(wide.map((name, i) => [name, i]))]
  const stored = await dataOf(op.insert('i', 'wide', values, { returning: wide }), select)
  t.ok(stored === `{"i":[${row}],"s":[${row}]}`)
  const read = await dataOf(
    op.select('a', 'wide', { columns: renamed, order: [{ c1599_: 'desc' }] }),
    op.select('r', 'wide', {
      columns: ['c1599'], where: { c1599: { eq: '$a.0.c1599_' }, c0: { eq: '$a.0.c0_' } }
    })
  )
  const ofRenamed = row.replaceAll(/(c\d+)/g, '$1_')
  t.ok(read === `{"a":[${ofRenamed}],"r":[{"c1599":1599}]}`)
  const columns = wide.map(column => ({ fn: 'max', column, as: column }))
  t.ok(await dataOf(op.select('g', 'wide', { columns })) === `{"g":[${row}]}`)
  const last = await dataOf(op.delete('d', 'wide', { all: true, returning: wide }))
  t.ok(last === `{"d":[${row}]}`)
})

t.test('MAX_ROWS limits the rows of requests and responses, not those that are read', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema: 'create table m (id int); insert into m select generate_series(1, 9)',
    env: { MAX_ROWS: '4' }
  })
  const rows: ReadonlyArray<readonly [operation: object, rows: number | 'rows_limit']> = [
    [{ limit: 4 }, 4],
    [{ limit: 4, order: [{ id: 'desc' }], offset: 2 }, 4],
    [{ columns: [{ fn: 'count' }] }, 1],
    [{ limit: 5 }, 'rows_limit'],
    [{ offset: 4 }, 'rows_limit'],
    [{ columns: ['id'], group_by: ['id'] }, 'rows_limit'],
    [{ columns: ['id'], group_by: ['id'], limit: 2 }, 2],
    [{ op: 'delete', all: true }, 'rows_limit'],
    [{ op: 'update', set: { id: 0 }, all: true }, 'rows_limit']
  ]
  const values = (count: number): object[] => Array.from({ length: count }, (_, id) => ({ id }))
  for (const [operation, expected] of rows) {
    const { status, body } = await post([
      op.insert('i', 'm', values(1)),
      op.delete('d', 'm', { where: { id: { eq: 0 } } }),
      op.select('o', 'm', operation)
    ])
    const name = JSON.stringify(operation)
    if (expected !== 'rows_limit') t.equal(body.data?.o.length, expected, name)
    else {
      const error = { type: 'execution_error', code: 'rows_limit', committed: false, index: 2 }
      t.match({ status, ...body.error }, { status: 422, op: 'o', ...error }, name)
    }
  }
  const few = { where: { id: { lt: 5 } } }
  t.equal((await post([op.select('s', 'm', few), op.insert('i', 'm', values(4))])).status, 200)
  const { status, body } = await post([op.insert('i', 'm', values(5))])
  const error = { type: 'validation_error', errors: [{ code: 'rows_limit', path: ['values'] }] }
  t.match({ status, ...body.error }, { status: 422, ...error })
  t.same(await sql`select count(*)::int as n from m`, [{ n: 13 }])
})
