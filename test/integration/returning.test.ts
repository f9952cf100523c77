/**
 * The returned rows: `returning` of insert, update and delete; columns, aggregates, group_by,
 * order, limit and offset of a select. Each is compared byte for byte with a query in SQL. Columns
 * and aliases can have any name.
 */
import t from 'tap'
import { useService, type ServiceUnderTest } from '../support/service.ts'

const schema = `
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
  create view nothing as select * from s where false;
  grant all on s, nothing to oneflight_user;
`

/** [members of the select, the same query in SQL] */
const selects: ReadonlyArray<readonly [members: string, sql: string]> = [
  ['"order":[{"id":"asc"}]', 'select * from s order by id'],
  // columns
  ['"columns":["id"],"order":[{"id":"desc"}]', 'select id from s order by id desc'],
  [
    '"columns":["total","id","at"],"order":[{"id":"asc"}]',
    'select total, id, at from s order by id'
  ],
  [
    '"columns":[{"column":"id"},{"column":"total","as":"sum of ' +
    'it"},{"column":"id","as":"again"}],"order":[{"id":"asc"}]',
    'select id, total as "sum of it", id as again from s order by id'
  ],
  [
    '"columns":["count","order"],"order":[{"count":"asc"}]',
    'select count, "order" from s order by count'
  ],
  // an alias that is the name of another column
  [
    '"columns":[{"column":"id","as":"n"},{"column":"n","as":"id"}],"order":[{"n":"desc"}]',
    'select id as n, n as id from s order by 1 desc'
  ],
  [
    '"columns":[{"column":"status","as":"total"},{"column":"big","as":"status"}],' +
    '"where":{"status":{"eq":"open"},"total":{"is":"not_null"}}',
    "select status as total, big as status from s where status = 'open' and total is not null"
  ],
  // jsonb paths, named by their last key
  [
    '"columns":["data->city",{"column":"data->>city","as":"text"}],"order":[{"id":"asc"}]',
    "select data->'city' as city, data->>'city' as text from s order by id"
  ],
  [
    '"columns":["data->items->0->>sku","data->items->0->n","data->k->id"],"order":[{"id":"asc"}]',
    "select data->'items'->0->>'sku' as sku, data->'items'->0->'n' as n, data->'k'->'id' " +
    'as id from s order by s.id'
  ],
  [
    '"columns":["data->0",{"column":"data->>-1","as":"last"}],"order":[{"id":"asc"}]',
    'select data->0 as data, data->>-1 as last from s order by id'
  ],
  [
    '"columns":["data->1->>sku",{"column":"data->items","as":"items"}],"order":[{"id":"asc"}]',
    "select data->1->>'sku' as sku, data->'items' as items from s order by id"
  ],
  [
    '"columns":["id","doc","doc->a","doc->>l"],"order":[{"id":"asc"}]',
    "select id, doc, doc->'a' as a, doc->>'l' as l from s order by id"
  ],
  [
    '"columns":["doc->>a",{"fn":"count"}],"group_by":["doc->>a"],"order":[{"doc->>a":"asc"}]',
    "select doc->>'a' as a, count(*) from s group by doc->>'a' order by 1"
  ],
  // order
  ['"columns":["id"],"order":[{"n":"asc"},{"id":"desc"}]', 'select id from s order by n, id desc'],
  ['"columns":["id"],"order":[{"n":"desc"},{"id":"asc"}]', 'select id from s order by n desc, id'],
  [
    '"columns":["id"],"order":[{"n":{"nulls":"first"}},{"id":{"direction":"desc"}}]',
    'select id from s order by n nulls first, id desc'
  ],
  [
    '"columns":["id"],"order":[{"n":{"direction":"desc","nulls":"last"}},{"id":"asc"}]',
    'select id from s order by n desc nulls last, id'
  ],
  [
    '"columns":["id"],"order":[{"n":{"direction":"asc","nulls":"last"}},' +
    '{"id":{"direction":"desc","nulls":"first"}}]',
    'select id from s order by n nulls last, id desc'
  ],
  [
    '"columns":["id"],"order":[{"data->>city":"asc"},{"id":"asc"}]',
    "select id from s order by data->>'city', id"
  ],
  [
    '"columns":["id"],"order":[{"data->items":"desc"},{"id":"asc"}]',
    "select id from s order by data->'items' desc, id"
  ],
  [
    '"columns":["id",{"column":"data->>city","as":"where"}],"order":[{"where":"asc"},{"id":"asc"}]',
    'select id, data->>\'city\' as "where" from s order by 2, 1'
  ],
  [
    '"columns":["id","data->>city"],"order":[{"city":"desc"},{"id":"asc"}]',
    "select id, data->>'city' as city from s order by 2 desc, 1"
  ],
  [
    '"order":[{"total":"asc"}],"where":{"n":{"gt":0}}',
    'select * from s where n > 0 order by total'
  ],
  [
    '"columns":["id"],"order":[{"order":"asc"},{"count":"asc"}]',
    'select id from s order by "order", count'
  ],
  // limit and offset
  ['"columns":["id"],"order":[{"id":"asc"}],"limit":2', 'select id from s order by id limit 2'],
  [
    '"columns":["id"],"order":[{"id":"asc"}],"limit":2,"offset":2',
    'select id from s order by id limit 2 offset 2'
  ],
  ['"columns":["id"],"order":[{"id":"asc"}],"offset":4', 'select id from s order by id offset 4'],
  ['"columns":["id"],"order":[{"id":"asc"}],"limit":0', 'select id from s limit 0'],
  ['"columns":["id"],"order":[{"id":"asc"}],"limit":0,"offset":0', 'select id from s limit 0'],
  ['"columns":["id"],"order":[{"id":"asc"}],"limit":2,"offset":100', 'select id from s limit 0'],
  [
    '"columns":["id"],"order":[{"id":"asc"}],"limit":9007199254740991,"offset":1',
    'select id from s order by id offset 1'
  ],
  ['"limit":1,"where":{"id":{"eq":3}}', 'select * from s where id = 3'],
  // aggregates
  ['"columns":[{"fn":"count"}]', 'select count(*) from s'],
  [
    '"columns":[{"fn":"count","column":"status"},{"fn":"count","as":"all"},{"fn":"count",' +
    '"column":"data->k","as":"keys"}]',
    "select count(status) as count, count(*) as all, count(data->'k') as keys from s"
  ],
  [
    '"columns":[{"fn":"sum","column":"total"},{"fn":"avg","column":"total"},{"fn":"min",' +
    '"column":"total"},{"fn":"max","column":"total"}]',
    'select sum(total), avg(total), min(total), max(total) from s'
  ],
  [
    '"columns":[{"fn":"sum","column":"big"},{"fn":"avg","column":"n"},{"fn":"min",' +
    '"column":"at"},{"fn":"max","column":"status"}]',
    'select sum(big), avg(n), min(at), max(status) from s'
  ],
  [
    '"columns":[{"fn":"min","column":"data->>city"},{"fn":"max","column":"order","as":"order"},' +
    '{"fn":"sum","column":"count","as":"sum of count"}]',
    'select min(data->>\'city\'), max("order") as "order", sum(count) as "sum of count" from s'
  ],
  [
    '"columns":[{"fn":"count"},{"fn":"sum","column":"n"},{"fn":"max","column":"at"}],' +
    '"where":{"id":{"lt":0}}',
    'select count(*), sum(n), max(at) from s where id < 0'
  ],
  [
    '"columns":["status",{"fn":"count"}],"group_by":["status"],"where":{"id":{"lt":0}}',
    'select status, count(*) from s where id < 0 group by status'
  ],
  ['"columns":[{"fn":"count"}],"limit":0', 'select count(*) from s limit 0'],
  ['"columns":[{"fn":"count"}],"offset":1', 'select count(*) from s offset 1'],
  ['"columns":[{"fn":"count"}],"order":[{"count":"desc"}]', 'select count(*) from s'],
  // group_by
  [
    '"columns":["status",{"fn":"count"}],"group_by":["status"],"order":[{"status":"asc"}]',
    'select status, count(*) from s group by status order by status'
  ],
  [
    '"columns":["status",{"fn":"count","as":"n"},{"fn":"sum","column":"n","as":"total"}],' +
    '"group_by":["status"],"order":[{"n":"desc"},{"status":"asc"}]',
    'select status, count(*) as n, sum(n) as total from s group by status order by 2 desc, status'
  ],
  [
    '"columns":["status"],"group_by":["status"],"order":[{"status":{"nulls":"first"}}]',
    'select distinct status from s order by status nulls first'
  ],
  [
    '"columns":[{"fn":"count"}],"group_by":["status","n"],"order":[{"n":"asc"},{"status":"asc"}]',
    'select count(*) from s group by status, n order by n, status'
  ],
  [
    '"columns":["data->>city",{"fn":"count"}],"group_by":["data->>city"],' +
    '"order":[{"data->>city":"asc"}]',
    "select data->>'city' as city, count(*) from s group by data->>'city' order by 1"
  ],
  [
    '"columns":[{"column":"data->items->0->>sku","as":"first"},{"fn":"sum","column":"n"}],' +
    '"group_by":["data->items->0->>sku"],"order":[{"first":"asc"}]',
    "select data->'items'->0->>'sku' as first, sum(n) from s group by 1 order by 1"
  ],
  [
    '"columns":["data->city","data->>0",{"fn":"max","column":"id"}],' +
    '"group_by":["data->city","data->>0"],"order":[{"max":"asc"}]',
    "select data->'city' as city, data->>0 as data, max(id) from s group by data->'city', " +
    'data->>0 order by 3'
  ],
  [
    '"columns":["status",{"fn":"count"}],"group_by":["status"],"order":[{"count":"desc"},' +
    '{"status":"asc"}],"limit":1,"offset":1',
    'select status, count(*) from s group by status order by 2 desc, 1 limit 1 offset 1'
  ],
  [
    '"columns":["id","status",{"fn":"count"}],"group_by":["id"],"order":[{"id":"asc"}]',
    'select id, status, count(*) from s group by id order by id'
  ],
  [
    '"columns":[{"column":"status","as":"n"},{"fn":"count"}],"group_by":["status"],' +
    '"order":[{"n":"asc"}]',
    'select status as n, count(*) from s group by status order by 1'
  ]
]

t.test('each select equals the query written in SQL', async t => {
  const service = await useService(t, { schema })
  for (const [members, sql] of selects) {
    const { status, text } = await service.post(`[{"id":"o","op":"select","table":"s",${members}}]`)
    t.equal(status, 200, encodeURI(`${members} ${status === 200 ? '' : text}`))
    if (status === 200) t.equal(text, `{"error":null,"data":{"o":${await rendered(service, sql)}}}`)
    // The same select is valid if a later operation refers to it.
    const twice = await service.post(
      `[{"id":"o","op":"select","table":"s",${members}},{"id":"r","op":"select",` +
        '"table":"s","limit":0,"where":{"id":{"in":"$o.*.missing_column"}}}]'
    )
    t.notOk(twice.status >= 500, encodeURI(twice.text))
  }
})

/** Writing operations, and the same statement in SQL without its `returning`. */
const writes: ReadonlyArray<readonly [operation: string, sql: string]> = [
  [
    '"op":"insert","values":[{"id":10,"total":1.10,"data":{"city":"c",' +
    '"items":[{"sku":"q"}]}},{"id":11,"data":null,"total":null},{"id":12,"total":-0,' +
    '"data":[1]}]',
    'insert into twin (id, total, data) values (10, 1.10, $$ ' +
    '{"city":"c","items":[{"sku":"q"}]}$$), (11, null, null), (12, -0, $$[1]$$)'
  ],
  [
    '"op":"insert","values":[{"id":10,"status":"x"},{"id":11},{"status":"y","id":12,"n":1},' +
    '{"id":13,"n":2}]',
    "insert into twin (id, status, n) values (10, 'x', default), (11, default, default), " +
    "(12, 'y', 1), (13, default, 2)"
  ],
  [
    '"op":"insert","values":[{"id":1,"status":"x"},{"id":11}],' +
    '"on_conflict":{"columns":["id"],"do":"nothing"}',
    "insert into twin (id, status) values (1, 'x'), (11, default) on conflict do nothing"
  ],
  [
    '"op":"update","set":{"status":"new","n":{"$inc":1}},"where":{"id":{"eq":1}}',
    "update twin set status = 'new', n = n + 1 where id = 1"
  ],
  [
    '"op":"update","set":{"status":"new"},"where":{"id":{"eq":-1}}',
    "update twin set status = 'new' where id = -1"
  ],
  ['"op":"delete","where":{"id":{"eq":1}}', 'delete from twin where id = 1'],
  ['"op":"delete","where":{"id":{"eq":-1}}', 'delete from twin where id = -1']
]
const returnings: ReadonlyArray<readonly [returning: string, sql: string]> = [
  ['["id"]', 'id'],
  ['["total","id","order"]', 'total, id, "order"'],
  ['[{"column":"id","as":"total"},{"column":"total","as":"id"}]', 'id as total, total as id'],
  [
    '["data->>city",{"column":"data->items->0->sku","as":"a\\"b"},"data->items->0->>sku",' +
    '"data->0","status"]',
    "data->>'city' as city, data->'items'->0->'sku' as \"a\"\"b\", " +
    "data->'items'->0->>'sku' as sku, data->0 as data, status"
  ],
  ['["id","status","total","n","data","at","big","count","order","tags","doc"]', '*']
]

t.test('returning equals the SQL and does not change what is written', async t => {
  const service = await useService(t, {
    schema: `${schema} create table twin (like s including all); create table origin (like s); ` +
      'insert into origin select * from s; grant all on twin to oneflight_user'
  })
  const reset =
    'truncate s, twin; insert into s select * from origin; insert into twin select * from origin'
  for (const [operation, sql] of writes) {
    for (const [returning, list] of [...returnings, ['[]', 'null'] as const]) {
      await service.database.sql.unsafe(reset)
      const { status, text } = await service.post(
        `[{"id":"o","table":"s",${operation},"returning":${returning}}]`
      )
      const rows = await rendered(
        service,
        'select * from r',
        `with r as (${sql} returning ${list})`
      )
      t.equal(
        text,
        `{"error":null,"data":{"o":${returning === '[]' ? '[]' : rows}}}`,
        encodeURI(`${operation} ${returning} ${status}`)
      )
      t.equal(
        await rendered(service, 'select * from s order by id'),
        await rendered(service, 'select * from twin order by id')
      )
    }
  }
})

const names = [
  'row',
  'r',
  't',
  'x',
  'j',
  's',
  'o',
  'count',
  'a"b',
  "it's",
  '\\',
  '__proto__',
  'constructor',
  'toString',
  'order',
  'select',
  'with space',
  'é😀',
  'x'.repeat(63),
  'é'.repeat(31),
  '1',
  '0',
  '**',
  '?column?',
  'a.b',
  '"',
  '""',
  '$1',
  '$x',
  '$src.0.id',
  '%s',
  ';--',
  '/*',
  'NULL',
  'Id',
  'ID',
  'a,b',
  '{}',
  '\n',
  ' ',
  'ctid2',
  'json_agg',
  'id'
]
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

t.test('columns can have any name', async t => {
  const service = await useService(t, {
    schema: `create table names (${
      names.map(name => `${quote(name)} int`).join()
    }); grant all on names to oneflight_user`
  })
  const object = `{${names.map((name, i) => `${JSON.stringify(name)}:${i}`).join()}}`
  const list = JSON.stringify(names)
  const everything = await service.post(
    `[{"id":"o","op":"insert","table":"names","values":[${object}],"returning":${list}},
    {"id":"p","op":"select","table":"names","columns":${list}},
    {"id":"q","op":"update","table":"names","set":${object},"all":true,"returning":${list}}]`
  )
  t.equal(everything.status, 200, encodeURI(everything.text))
  const rows = await rendered(service, `select ${names.map(quote).join()} from names`)
  t.equal(everything.text, `{"error":null,"data":{"o":${rows},"p":${rows},"q":${rows}}}`)
  for (const [i, name] of names.entries()) {
    const column = JSON.stringify(name)
    const { status, text } = await service.post(`[
      {"id":"u","op":"update","table":"names","set":{${column}:{"$inc":0}},
        "where":{${column}:{"eq":${i}}},"returning":[${column}]},
      {"id":"s","op":"select","table":"names","columns":[${column}],"order":[{${column}:"desc"}]},
      {"id":"g","op":"select","table":"names",
        "columns":[${column},{"fn":"max","column":${column},"as":"the max"}],
        "group_by":[${column}],"order":[{"the max":"asc"}]}]`)
    t.equal(
      text,
      `{"error":null,"data":{"u":[{${column}:${i}}],"s":[{${column}:${i}}],` +
        `"g":[{${column}:${i},"the max":${i}}]}}`,
      encodeURI(`${name} ${status}`)
    )
  }
})

t.test('aliases can have any name, also in order and references', async t => {
  const service = await useService(t, {
    schema: 'create table v (id int, o int); insert into v values (1, 10), (2, 20), (3, null); ' +
      'create table w (n int); grant all on v, w to oneflight_user'
  })
  for (const name of [...names, 'tableoid', 'ctid', 'xmin', 'a->b', 'a->>b', 'v', 'w']) {
    const as = JSON.stringify(name)
    const { status, text } = await service.post(`[
      {"id":"a","op":"select","table":"v","columns":["o",{"column":"id","as":${
      as === '"o"' ? '"O"' : as
    }}]},
      {"id":"s","op":"select","table":"v","columns":[{"column":"o","as":${as}}]${
      name.includes('->') ? '' : `,"order":[{${as}:{"direction":"desc","nulls":"last"}}]`
    }},
      {"id":"c","op":"select","table":"v","columns":[{"fn":"max","column":"o","as":${as}}]},
      {"id":"w","op":"insert","table":"w","values":[{"n":${
      name.includes('.') ? 20 : JSON.stringify(`$s.0.${name}`)
    }}],"returning":[{"column":"n","as":${as}}]},
      {"id":"d","op":"delete","table":"w","where":{"n":{"gt":0}},
        "returning":[{"column":"n","as":${as}}]}]`)
    t.equal(status, 200, encodeURI(`${name} ${status === 200 ? '' : text}`))
    if (status === 200 && !name.includes('->')) {
      t.match(
        text,
        new RegExp(
          `"s":\\[\\{${RegExp.escape(as)}:20\\},?\\s*\\{${RegExp.escape(as)}:10\\},?\\s*\\{${
            RegExp.escape(as)
          }:null\\}\\],"c":\\[\\{${RegExp.escape(as)}:20\\}\\],"w":\\[\\{${
            RegExp.escape(as)
          }:20\\}\\],"d":\\[\\{${RegExp.escape(as)}:20\\}\\]`
        )
      )
    }
  }
})

t.test('keys in a path can have any name, with standard_conforming_strings on and off', async t => {
  const keys = [
    ...names.filter(name => !['a.b', '1', '0'].includes(name)),
    "\\'",
    "\\' || (select 1) --",
    "'",
    'x\\',
    '\\n'
  ]
  const data = `{${
    keys.map((name, i) => `${JSON.stringify(name)}:{"v":${i},${JSON.stringify(name)}:"${i}"}`)
      .join()
  }}`
  for (const standard of ['on', 'off']) {
    const service = await useService(t, {
      schema: 'create table d (data jsonb); create view setting as select ' +
        'current_setting($$standard_conforming_strings$$) as s; grant all on d, setting to ' +
        'oneflight_user'
    })
    const { sql, name } = service.database
    await sql.unsafe(
      `alter database ${name} set standard_conforming_strings = ${standard}; alter ` +
        `database ${name} set escape_string_warning = off`
    )
    // The settings apply only to new connections.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
      and usename = 'oneflight_login'`
    const { status, text } = await service.post(
      `[{"id":"set","op":"select","table":"setting"},
      {"id":"i","op":"insert","table":"d","values":[{"data":${data}}],"returning":[]},
      ${
        keys.map((name, i) =>
          `{"id":"s${i}","op":"select","table":"d","columns":[{"column":${
            JSON.stringify(`data->${name}->v`)
          },"as":"v"},${JSON.stringify(`data->${name}->>${name}`)}]},
        {"id":"g${i}","op":"select","table":"d","columns":[{"column":${
            JSON.stringify(`data->${name}->v`)
          },"as":"v"},{"fn":"count"}],"group_by":[${
            JSON.stringify(`data->${name}->v`)
          }],"order":[{${JSON.stringify(`data->${name}->v`)}:"asc"}]}`
        ).join()
      }]`
    )
    const rows = keys.map((name, i) =>
      `"s${i}":[{"v":${i},${JSON.stringify(name)}:"${i}"}],"g${i}":[{"v":${i},"count":1}]`
    )
    t.equal(
      text,
      `{"error":null,"data":{"set":[{"s":"${standard}"}],"i":[],${rows.join()}}}`,
      String(status)
    )
  }
})

t.test('references can read only returned columns', async t => {
  const service = await useService(t, {
    schema: 'create table a (id int generated always as identity primary key, word text, secret ' +
      'int default 7, j jsonb); create table b (n int, t text, j jsonb, l int[]); grant ' +
      'all on a, b to oneflight_user'
  })
  const insert = {
    id: 'i',
    op: 'insert',
    table: 'a',
    values: [{ word: 'one', j: { k: 5 } }, { word: 'two' }]
  }
  const select = { id: 'i', op: 'select', table: 'a' }
  const before = { id: 'before', op: 'insert', table: 'a', values: [{ word: 'zero', secret: 9 }] }
  type Row = readonly [
    source: Record<string, unknown>,
    values: Record<string, unknown>,
    expected: unknown
  ]
  const good: readonly Row[] = [
    [{ ...insert, returning: ['id'] }, { n: '$i.1.id' }, { n: 3 }],
    [
      { ...insert, returning: [{ column: 'secret', as: 'word' }] },
      { n: '$i.0.word', t: '$i.word' },
      { n: 7, t: '7' }
    ],
    [
      { ...insert, returning: ['j->k', { column: 'word', as: 'w' }] },
      { n: '$i.0.k', t: '$i.1.w' },
      { n: 5, t: 'two' }
    ],
    [{ ...insert, returning: [{ column: 'word', as: 'w' }, 'j->k'] }, { j: '$i.0' }, {
      j: { w: 'one', k: 5 }
    }],
    [{ ...insert, returning: [{ column: 'word', as: 'w' }] }, { j: { one: '$i', two: '$i.1' } }, {
      j: { one: { w: 'one' }, two: { w: 'two' } }
    }],
    [{ ...insert, returning: ['secret'] }, { l: '$i.*.secret' }, { l: [7, 7] }],
    [
      {
        ...insert,
        values: [{ word: 'one' }, {}, { secret: 8 }],
        returning: ['secret', { column: 'word', as: 'w' }]
      },
      { l: '$i.*.secret', t: '$i.0.w', j: '$i.2' },
      { l: [7, 7, 8], t: 'one', j: { secret: 8, w: null } }
    ],
    [{ ...select, columns: ['id'] }, { n: '$i.id' }, { n: 1 }],
    [{ ...select, columns: [{ column: 'word', as: 'id' }, { column: 'id', as: 'word' }] }, {
      t: '$i.id',
      n: '$i.word'
    }, { t: 'zero', n: 1 }],
    [{ ...select, columns: [{ fn: 'count' }, { fn: 'sum', column: 'secret', as: 's' }] }, {
      n: '$i.count',
      l: ['$i.s', '$i.0.count'],
      j: '$i'
    }, { n: 1, l: [9, 1], j: { count: 1, s: 9 } }],
    [{ ...select, columns: [{ fn: 'max', column: 'secret' }], where: { id: { eq: -1 } } }, {
      n: '$i.max',
      t: 'x'
    }, { n: null, t: 'x' }],
    [
      {
        id: 'i',
        op: 'update',
        table: 'a',
        set: { secret: { $inc: 1 } },
        all: true,
        returning: ['secret']
      },
      { n: '$i.secret' },
      { n: 10 }
    ],
    [
      {
        id: 'i',
        op: 'delete',
        table: 'a',
        all: true,
        returning: [{ column: 'secret', as: 'was' }]
      },
      { n: '$i.was' },
      { n: 9 }
    ]
  ]
  for (const [source, values, expected] of good) {
    await service.database.sql`truncate a, b restart identity`
    const { body, text } = await service.post([before, source, {
      id: 'r',
      op: 'insert',
      table: 'b',
      values: [values],
      returning: Object.keys(values)
    }])
    t.strictSame(body.data?.r, [expected], encodeURI(`${JSON.stringify(source)} ${text}`))
  }
  const bad: ReadonlyArray<
    readonly [source: Record<string, unknown>, reference: string, code: string]
  > = [
    [{ ...insert, returning: ['id'] }, '$i.0.word', 'reference_column_missing'],
    [{ ...insert, returning: ['id'] }, '$i.*.word', 'reference_column_missing'],
    [
      { ...insert, returning: [{ column: 'id', as: 'word' }] },
      '$i.0.id',
      'reference_column_missing'
    ],
    [{ ...insert, returning: ['id'] }, '$i.2.id', 'reference_row_missing'],
    [
      { ...insert, values: [{ word: 'x' }, {}], returning: ['id'] },
      '$i.1.word',
      'reference_column_missing'
    ],
    [{ ...insert, returning: ['j->k'] }, '$i.0.j', 'reference_column_missing'],
    [{ ...select, columns: ['id'] }, '$i.word', 'reference_column_missing'],
    [{ ...select, columns: [{ fn: 'count' }] }, '$i.id', 'reference_column_missing'],
    [{ ...select, limit: 0 }, '$i.id', 'reference_row_missing'],
    [{ ...select, limit: 1 }, '$i.1.id', 'reference_row_missing'],
    [{ ...select, offset: 1 }, '$i.id', 'reference_row_missing'],
    [
      { id: 'i', op: 'update', table: 'a', set: { secret: 1 }, all: true, returning: ['word'] },
      '$i.secret',
      'reference_column_missing'
    ],
    [
      { id: 'i', op: 'delete', table: 'a', all: true, returning: ['word'] },
      '$i.secret',
      'reference_column_missing'
    ]
  ]
  for (const [source, reference, code] of bad) {
    const operand = reference.replace('.*', '.0')
    const readers = [
      { op: 'insert', table: 'b', values: [{ j: reference }] },
      { op: 'select', table: 'b', where: { n: { eq: -1 }, j: { eq: operand } } }
    ]
    for (const reader of readers) {
      await service.database.sql`truncate a, b restart identity`
      const { status, body, text } = await service.post([before, source, { id: 'r', ...reader }])
      t.match({ status, error: body.error }, {
        status: 422,
        error: { type: 'execution_error', code, op: 'r', index: 2, committed: false }
      }, encodeURI(`${JSON.stringify(source)} ${reference} ${text}`))
    }
  }
  // If an operation returns no columns, no reference to it is valid, not even to an empty list.
  for (const operand of [['$i.0.id'], '$i.*.id']) {
    const reader = { id: 'r', op: 'select', table: 'b', where: { n: { in: operand } } }
    const batch = [before, { ...insert, returning: [] }, reader]
    const { status, body, text } = await service.post(batch)
    t.match({ status, error: body.error }, {
      status: 422,
      error: { code: 'reference_column_missing', op: 'r', index: 2 }
    }, text)
  }
  t.same(await service.database.sql`select * from b`, [])
})

t.test('columns that are not returned need no privilege to read', async t => {
  const service = await useService(t, {
    schema: `create table p (id int generated always as identity primary key, open text default 'o',
        secret text default 's'); insert into p (secret) values ('top');
      create table blind (id int, word text); insert into blind values (1, 'x');
      create table sealed (id int default 4); insert into sealed values (1);
      grant insert, delete, update, select (id, open) on p to oneflight_user; grant insert, update,
        delete on blind to oneflight_user; grant insert on sealed to oneflight_user`
  })
  const rows: ReadonlyArray<
    readonly [operation: Record<string, unknown>, status: number, data?: unknown]
  > = [
    [
      {
        op: 'insert',
        table: 'blind',
        values: [{ id: 2 }, { id: 3, word: 'y' }, {}],
        returning: []
      },
      200,
      []
    ],
    [{ op: 'insert', table: 'blind', values: [{ id: 2 }] }, 403],
    [{ op: 'insert', table: 'blind', values: [{ id: 2 }], returning: ['id'] }, 403],
    [{ op: 'insert', table: 'blind', values: [{ id: 2 }], returning: [], expect: 1 }, 200, []],
    [{ op: 'insert', table: 'sealed', values: [{}, {}], returning: [] }, 200, []],
    [{ op: 'update', table: 'blind', set: { word: 'new' }, all: true, returning: [] }, 200, []],
    [{
      op: 'update',
      table: 'blind',
      set: { word: 'new' },
      where: { id: { eq: 1 } },
      returning: []
    }, 403],
    [{ op: 'update', table: 'blind', set: { word: 'new' }, all: true }, 403],
    [{ op: 'delete', table: 'blind', all: true, returning: [] }, 200, []],
    [{ op: 'delete', table: 'blind', all: true, returning: ['word'] }, 403],
    [{ op: 'insert', table: 'p', values: [{ secret: 'x' }], returning: ['id', 'open'] }, 200, [{
      id: 2,
      open: 'o'
    }]],
    [{ op: 'insert', table: 'p', values: [{ secret: 'x' }], returning: ['secret'] }, 403],
    [{ op: 'insert', table: 'p', values: [{ secret: 'x' }] }, 403],
    [
      {
        op: 'update',
        table: 'p',
        set: { secret: 'y' },
        where: { id: { eq: 1 } },
        returning: ['id']
      },
      200,
      [{ id: 1 }]
    ],
    [{
      op: 'update',
      table: 'p',
      set: { open: 'y' },
      where: { secret: { eq: 'y' } },
      returning: ['id']
    }, 403],
    [
      {
        op: 'select',
        table: 'p',
        columns: ['id', { column: 'open', as: 'secret' }],
        where: { id: { eq: 1 } }
      },
      200,
      [{ id: 1, secret: 'o' }]
    ],
    [{ op: 'select', table: 'p', columns: [{ fn: 'count' }], where: { id: { eq: 1 } } }, 200, [{
      count: 1
    }]],
    [{ op: 'select', table: 'p', columns: [{ fn: 'max', column: 'secret' }] }, 403],
    [{ op: 'select', table: 'p', columns: ['id'], order: [{ secret: 'asc' }] }, 403],
    [
      {
        op: 'select',
        table: 'p',
        columns: [{ column: 'id', as: 'secret' }],
        order: [{ secret: 'asc' }],
        limit: 1
      },
      200,
      [{ secret: 1 }]
    ],
    [{ op: 'select', table: 'p' }, 403],
    [{ op: 'delete', table: 'p', where: { id: { eq: 1 } }, returning: ['open'] }, 200, [{
      open: 'o'
    }]]
  ]
  for (const [operation, status, data] of rows) {
    const answer = await service.post([{ id: 'o', ...operation }])
    t.equal(answer.status, status, encodeURI(`${JSON.stringify(operation)} ${answer.text}`))
    if (status === 200) t.same(answer.body.data.o, data)
    else t.match(answer.body.error, { code: 'insufficient_privilege', op: 'o' })
  }
})

t.test('a missing column is an error, even if a type, table or function has its name', async t => {
  const service = await useService(t, {
    schema: `${schema} create function label(s) returns text language sql immutable as 'select ` +
      "$1.status'"
  })
  const rows: ReadonlyArray<
    readonly [operation: Record<string, unknown>, status: number, code: string]
  > = [
    // PostgreSQL would read column "text" or "name" of a row as a cast of the whole row.
    ...[
      'nope',
      'name',
      'text',
      'varchar',
      'ID',
      's',
      't',
      'x',
      'r',
      'j',
      'status ',
      '**',
      's.id',
      'count(*)',
      '"id"'
    ].flatMap(name =>
      [
        [{ op: 'select', columns: [name] }, 400, 'undefined_column'],
        [{ op: 'select', columns: [{ column: name, as: 'id' }] }, 400, 'undefined_column'],
        [{ op: 'select', order: [{ [name]: 'asc' }] }, 400, 'undefined_column'],
        [{ op: 'select', columns: [{ fn: 'count' }], group_by: [name] }, 400, 'undefined_column'],
        [{ op: 'select', columns: [{ fn: 'max', column: name }] }, 400, 'undefined_column'],
        [{ op: 'insert', values: [{ id: 50 }], returning: [name] }, 400, 'undefined_column'],
        [{ op: 'update', set: { n: 1 }, all: true, returning: [name] }, 400, 'undefined_column'],
        [{ op: 'delete', all: true, returning: [name] }, 400, 'undefined_column']
      ] as const
    ),
    [{ op: 'select', columns: ['status->x'] }, 400, 'undefined_function'],
    [{ op: 'select', columns: ['n->0'] }, 400, 'undefined_function'],
    [{ op: 'select', order: [{ doc: 'asc' }] }, 400, 'undefined_function'],
    [{ op: 'select', columns: ['status', { fn: 'count' }] }, 400, 'grouping_error'],
    [{ op: 'select', columns: ['status', 'n'], group_by: ['status'] }, 400, 'grouping_error'],
    [
      { op: 'select', columns: ['status'], group_by: ['status'], order: [{ n: 'asc' }] },
      400,
      'grouping_error'
    ],
    [{ op: 'select', columns: [{ fn: 'sum', column: 'status' }] }, 400, 'undefined_function'],
    [{ op: 'select', columns: [{ fn: 'max', column: 'data' }] }, 400, 'undefined_function'],
    [{ op: 'select', columns: [{ fn: 'sum', column: 'data->n' }] }, 400, 'undefined_function']
  ]
  for (const [operation, status, code] of rows) {
    const answer = await service.post([{ id: 'o', table: 's', ...operation }])
    t.match({ status: answer.status, error: answer.body.error }, {
      status,
      error: { type: 'execution_error', code, op: 'o', committed: false }
    }, encodeURI(`${JSON.stringify(operation)} ${answer.text.slice(0, 300)}`))
  }
})

t.test('a table can have 1600 columns', async t => {
  const wide = Array.from({ length: 1600 }, (_, i) => `c${i}`)
  const service = await useService(t, {
    schema: `create table wide (${
      wide.map(name => `${name} int`).join()
    }); grant all on wide to oneflight_user`
  })
  const row = `{${wide.map((name, i) => `"${name}":${i}`).join()}}`
  const renamed = wide.map(column => ({ column, as: `${column}_` }))
  const { status, text } = await service.post([
    {
      id: 'i',
      op: 'insert',
      table: 'wide',
      values: [Object.fromEntries(wide.map((name, i) => [name, i]))],
      returning: wide
    },
    { id: 's', op: 'select', table: 'wide', columns: wide },
    { id: 'a', op: 'select', table: 'wide', columns: renamed, order: [{ c1599_: 'desc' }] },
    {
      id: 'g',
      op: 'select',
      table: 'wide',
      columns: wide.map(column => ({ fn: 'max', column, as: column }))
    },
    {
      id: 'r',
      op: 'select',
      table: 'wide',
      columns: ['c1599'],
      where: { c1599: { eq: '$s.0.c1599' }, c0: { eq: '$a.0.c0_' } }
    },
    { id: 'd', op: 'delete', table: 'wide', all: true, returning: wide }
  ])
  t.equal(status, 200, text.slice(0, 300))
  t.ok(
    text ===
      `{"error":null,"data":{"i":[${row}],"s":[${row}],"a":[${
        row.replaceAll(/(c\d+)/g, '$1_')
      }],"g":[${row}],"r":[{"c1599":1599}],"d":[${row}]}}`
  )
})

t.test('MAX_ROWS limits the returned rows, not the rows that are read', async t => {
  const service = await useService(t, {
    schema: 'create table m (id int); insert into m select generate_series(1, 9); grant all on m ' +
      'to oneflight_user',
    env: { MAX_ROWS: '4' }
  })
  const rows: ReadonlyArray<
    readonly [select: Record<string, unknown>, rows: number | 'rows_limit']
  > = [
    [{ limit: 4 }, 4],
    [{ limit: 4, order: [{ id: 'desc' }], offset: 2 }, 4],
    [{ offset: 6 }, 3],
    [{ columns: [{ fn: 'count' }] }, 1],
    [{ limit: 5 }, 'rows_limit'],
    [{ limit: 10000000 }, 'rows_limit'],
    [{ offset: 4 }, 'rows_limit'],
    [{ columns: ['id'], group_by: ['id'] }, 'rows_limit'],
    [{ columns: ['id'], group_by: ['id'], limit: 2 }, 2],
    [{ limit: 10, offset: 7 }, 2]
  ]
  for (const [select, expected] of rows) {
    const { status, body } = await service.post([{ id: 'o', op: 'select', table: 'm', ...select }])
    if (expected === 'rows_limit') {
      t.match({ status, error: body.error }, {
        status: 422,
        error: { code: 'rows_limit', op: 'o' }
      }, JSON.stringify(select))
    } else t.equal(body.data?.o.length, expected, JSON.stringify(select))
  }
})

t.test('returned rows contain generated columns and the changes of triggers', async t => {
  const service = await useService(t, {
    schema: `create table g (id int, twice int generated always as (id * 2) stored, word text);
      create function shout() returns trigger language plpgsql as $$
        begin new.word := upper(new.word); return new; end $$;
      create trigger shout before insert or update on g for each row execute function shout();
      create view gv as select id as key, twice, word from g; grant all on g, gv to oneflight_user`
  })
  const { body, text } = await service.post([
    {
      id: 'i',
      op: 'insert',
      table: 'gv',
      values: [{ key: 1, word: 'a' }],
      returning: ['word', 'twice', { column: 'key', as: 'id' }]
    },
    {
      id: 'u',
      op: 'update',
      table: 'g',
      set: { id: 5, word: 'b' },
      where: { id: { eq: '$i.0.id' } },
      returning: ['twice', 'word']
    },
    { id: 'd', op: 'delete', table: 'gv', where: { key: { eq: 5 } }, returning: ['twice'] }
  ])
  t.same(body.data, {
    i: [{ word: 'A', twice: 2, id: 1 }],
    u: [{ twice: 10, word: 'B' }],
    d: [{ twice: 10 }]
  }, text)
})

/** The rows of a query as JSON text. `before` is a `with` clause for it. */
async function rendered (
  { database: { sql } }: ServiceUnderTest,
  query: string,
  before = ''
): Promise<string> {
  return sql.begin(async sql => {
    await sql.unsafe(
      "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local intervalstyle = " +
        "'postgres'"
    )
    const [row] = await sql.unsafe<Array<{ j: string }>>(
      `${before} select coalesce(json_agg(q), '[]')::text as j from (${query}) q`
    )
    return row?.j ?? ''
  })
}

t.test('the name of an aggregate is not accepted as a column', async t => {
  const service = await useService(t, {
    schema: 'create table plain (id int primary key, k int); insert into plain select i, i % 2 ' +
      'from generate_series(1, 4) i; create table named (count int, max text); insert into ' +
      "named values (7, 'm'); grant all on plain, named to oneflight_user"
  })
  const rows: ReadonlyArray<readonly [operation: object, code: string]> = [
    [{ columns: ['json_agg'] }, 'grouping_error'],
    [{ columns: ['count'] }, 'grouping_error'],
    [{ columns: ['k', 'array_agg'], group_by: ['k'] }, 'grouping_error'],
    [
      { columns: ['k', { fn: 'count' }], group_by: ['k'], order: [{ array_agg: 'asc' }] },
      'grouping_error'
    ],
    [{ order: [{ count: 'asc' }] }, 'grouping_error'],
    [{ where: { count: { eq: 4 } } }, 'grouping_error'],
    [{ columns: [{ fn: 'sum', column: 'count' }] }, 'grouping_error']
  ]
  for (const [operation, code] of rows) {
    const { status, body } = await service.post([{
      id: 's',
      op: 'select',
      table: 'plain',
      ...operation
    }])
    t.match(
      { status, error: body.error },
      { status: 400, error: { code, op: 's' } },
      JSON.stringify(operation)
    )
  }
  t.match(
    (await service.post([{
      id: 'd',
      op: 'delete',
      table: 'plain',
      all: true,
      returning: ['count']
    }])).body.error,
    { code: 'grouping_error' }
  )
  t.same(
    (await service.post([{
      id: 's',
      op: 'select',
      table: 'named',
      columns: ['count', 'max'],
      order: [{ max: 'asc' }]
    }])).body.data.s,
    [{ count: 7, max: 'm' }]
  )
})

t.test('JSON paths have names and can be ordered by', async t => {
  const long = 'k'.repeat(64)
  const service = await useService(t, {
    schema: 'create table docs (id int, j json, b jsonb); insert into docs values (1, ' +
      '\'{"a":2}\', \'{"a":"x"}\'), (2, \'{"a":1}\', \'{"a":"y"}\'); grant all on docs to ' +
      'oneflight_user'
  })
  const select = { id: 's', op: 'select', table: 'docs' }
  // PostgreSQL truncates names to 63 bytes, so two of them could become equal.
  t.match(
    (await service.post([{ ...select, columns: [`b->${long}`, `b->${long}x`] }])).body.error.errors,
    [{ code: 'member_invalid', path: ['columns', 0] }, {
      code: 'member_invalid',
      path: ['columns', 1]
    }]
  )
  t.same(
    (await service.post([{
      ...select,
      columns: ['id', { column: `b->${long}`, as: 'k' }],
      order: [{ id: 'asc' }]
    }])).body.data.s,
    [{ id: 1, k: null }, { id: 2, k: null }]
  )
  t.same(
    (await service.post([{
      ...select,
      columns: ['j->a', { column: 'b->>a', as: 'letter' }],
      order: [{ a: 'asc' }]
    }])).body.data.s,
    [{ a: 1, letter: 'y' }, { a: 2, letter: 'x' }],
    'json is ordered as jsonb'
  )
  t.same(
    (await service.post([{ ...select, columns: ['id'], order: [{ 'b->>a': 'desc' }] }])).body.data
      .s,
    [{ id: 2 }, { id: 1 }]
  )
})
