/**
 * Tests the SQL of an operation by its effect: the exact rows that the service returns from a
 * database. The text of a statement is not fixed, but text from a request never becomes part of it.
 */
import t from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { parseJson } from '../../src/json/parse.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { compile } from '../../src/sql/compile.ts'
import { readRaised } from '../../src/sql/statement/raised-error.ts'
import type { Statement } from '../../src/sql/statement/statement.ts'
import { ColumnTypes, type FindColumns } from '../../src/sql/values/column-types.ts'
import { useService } from '../support/service.ts'

const MAX_ROWS = 600
const limits = {
  schemas: ['public', 'Other Schema'] as const,
  maxRows: MAX_ROWS,
  maxBytes: 1_000_000,
  maxConditions: 1000,
  maxWork: 100_000
}

interface Case {
  readonly name: string
  /** JSON text of the operations without the brackets around them. */
  readonly batch: string
  /** `data` of the response, as text. */
  readonly data: string
}

const cases: readonly Case[] = [
  {
    name: 'select without conditions',
    batch: '{"id":"s","op":"select","table":"items"}',
    data: '{"s":[{"id":1,"name":"one","n":1.10,"data":null}, \n ' +
      '{"id":2,"name":"two","n":5,"data":{"a": [1]}}]}'
  },
  {
    name: 'select with every operator; operands are text',
    batch: '{"id":"s","op":"select","table":"public.items","where":{"id":{"eq":1,"neq":2,"gt":0,' +
      '"gte":1,"lt":9,"lte":-0},"name":{"like":"o%","ilike":"O%","match":"^o",' +
      '"imatch":"^O"},"n":{"eq":1.10}}}',
    data: '{"s":[]}'
  },
  {
    name: 'insert of rows that name the same columns in any order',
    batch: '{"id":"i","op":"insert","table":"items","values":[{"n":2.50,"name":"x"},{"name":"y",' +
      '"n":9007199254740993}]}',
    data: '{"i":[{"id":3,"name":"x","n":2.50,"data":null}, \n ' +
      '{"id":4,"name":"y","n":9007199254740993,"data":null}]}'
  },
  {
    name: 'insert of defaults only',
    batch: '{"id":"i","op":"insert","table":"items","values":[{},{}]}',
    data: '{"i":[{"id":3,"name":"none","n":null,"data":null}, \n ' +
      '{"id":4,"name":"none","n":null,"data":null}]}'
  },
  {
    name: 'insert of rows that name different columns, returned in their order',
    batch: '{"id":"i","op":"insert","table":"items","values":[{},{"name":"a"},{"name":null},' +
      '{"n":1},{}]}',
    data: '{"i":[{"id":3,"name":"none","n":null,"data":null}, \n ' +
      '{"id":4,"name":"a","n":null,"data":null}, \n ' +
      '{"id":5,"name":null,"n":null,"data":null}, \n ' +
      '{"id":6,"name":"none","n":1,"data":null}, \n ' +
      '{"id":7,"name":"none","n":null,"data":null}]}'
  },
  {
    name: 'update',
    batch: '{"id":"u","op":"update","table":"items","set":{"n":-0.0,"data":{"b":1.0}},' +
      '"where":{"id":{"eq":"2"}}}',
    data: '{"u":[{"id":2,"name":"two","n":0.0,"data":{"b": 1.0}}]}'
  },
  {
    name: 'delete returns the deleted rows, all of them with "all"',
    batch: '{"id":"d","op":"delete","table":"items","where":{"id":{"gt":1}}},{"id":"e",' +
      '"op":"delete","table":"items","all":true}',
    data: '{"d":[{"id":2,"name":"two","n":5,"data":{"a": ' +
      '[1]}}],"e":[{"id":1,"name":"one","n":1.10,"data":null}]}'
  },
  {
    name: 'a reference as operand',
    batch: '{"id":"a","op":"select","table":"items","where":{"id":{"eq":2}}},{"id":"b",' +
      '"op":"select","table":"items","where":{"n":{"lt":"$a.0.n"}}}',
    data: '{"a":[{"id":2,"name":"two","n":5,"data":{"a": ' +
      '[1]}}],"b":[{"id":1,"name":"one","n":1.10,"data":null}]}'
  },
  {
    name: 'references in values',
    batch: '{"id":"a","op":"select","table":"items"},{"id":"b","op":"insert","table":"items",' +
      '"values":[{"name":"$a.1.name","data":["$a.0.n",{"\\"":"$$a"}]}]}',
    data: '{"a":[{"id":1,"name":"one","n":1.10,"data":null}, \n ' +
      '{"id":2,"name":"two","n":5,"data":{"a": ' +
      '[1]}}],"b":[{"id":3,"name":"two","n":null,"data":[1.10, {"\\"": "$a"}]}]}'
  },
  {
    name: 'lists: literals as one array, references as another',
    batch: '{"id":"a","op":"select","table":"items","where":{"id":{"in":[1,2]}}},{"id":"c",' +
      '"op":"select","table":"items","where":{"id":{"eq":2}}},{"id":"b","op":"select",' +
      '"table":"items","where":{"id":{"in":[9,"$a.0.id"],"nin":"$c.*.id","eq":{"any":[1,' +
      '2]},"neq":{"all":["7"]}}}}',
    data: '{"a":[{"id":1,"name":"one","n":1.10,"data":null}, \n ' +
      '{"id":2,"name":"two","n":5,"data":{"a": ' +
      '[1]}}],"c":[{"id":2,"name":"two","n":5,"data":{"a": ' +
      '[1]}}],"b":[{"id":1,"name":"one","n":1.10,"data":null}]}'
  },
  {
    name: 'references to a later row, and many references to one row',
    batch: '{"id":"a","op":"insert","table":"items","values":[{"name":"1"},{"name":"2"},' +
      '{"name":"3"},{"name":"4"},{"name":"5"}],"returning":["name"]},{"id":"b",' +
      '"op":"select","table":"items","columns":["name"],' +
      '"where":{"name":{"like":"$a.4.name"}}},{"id":"c","op":"select","table":"items",' +
      '"columns":["name"],"where":{"or":[{"name":{"like":"$b.0.name"}},' +
      '{"name":{"like":"$b.0.name"}},{"name":{"like":"$b.0.name"}},' +
      '{"name":{"like":"$b.0.name"}},{"name":{"like":"$b.0.name"}}]}}',
    data: '{"a":[{"name":"1"}, \n {"name":"2"}, \n {"name":"3"}, \n {"name":"4"}, \n ' +
      '{"name":"5"}],"b":[{"name":"5"}],"c":[{"name":"5"}]}'
  },
  {
    name: 'between, is, is distinct from',
    batch: '{"id":"s","op":"select","table":"items","where":{"id":{"between":[1,{"$col":"n"}]},' +
      '"name":{"is":"not_null","isdistinct":null},"n":{"is":null}}}',
    data: '{"s":[]}'
  },
  {
    name: 'combinators, not, and a JSON path',
    batch: '{"id":"s","op":"select","table":"items","where":{"or":[{"id":{"eq":1},' +
      '"name":{"not":{"eq":"x"}}},{"not":{"and":[{"data->a->0":{"eq":1}},' +
      '{"data->>b":{"like":"x%"}}]}}]}}',
    data: '{"s":[{"id":1,"name":"one","n":1.10,"data":null}]}'
  },
  {
    name: 'jsonb operators',
    batch: '{"id":"s","op":"select","table":"items","where":{"data":{"cs":{"a":[1]},' +
      '"has_key":"a","has_keys_any":["a","b"],"has_keys_all":["a"]}}}',
    data: '{"s":[{"id":2,"name":"two","n":5,"data":{"a": [1]}}]}'
  },
  {
    name: 'full text',
    batch: '{"id":"s","op":"select","table":"items","where":{"name":{"fts":"two",' +
      '"plfts":{"query":"Two","config":"english"}},"data->a":{"wfts":"x"},' +
      '"data->>b":{"phfts":"x"}}}',
    data: '{"s":[]}'
  },
  {
    name: 'columns, aggregates, groups, order, limit',
    batch: '{"id":"s","op":"select","table":"items","columns":["data->>k",{"column":"name",' +
      '"as":"title"},{"fn":"count"},{"fn":"sum","column":"n","as":"total"}],' +
      '"group_by":["data->>k","name"],"order":[{"total":{"direction":"desc",' +
      '"nulls":"last"}},{"data->>k":"asc"}],"limit":5,"offset":1}',
    data: '{"s":[{"k":null,"title":"one","count":1,"total":1.10}]}'
  },
  {
    name: 'lock',
    batch: '{"id":"s","op":"select","table":"items","lock":{"mode":"no_key_update",' +
      '"wait":"skip_locked"},"order":[{"id":"desc"}],"limit":1}',
    data: '{"s":[{"id":2,"name":"two","n":5,"data":{"a": [1]}}]}'
  },
  {
    name: 'returning of some columns, of none, and expectations',
    batch: '{"id":"i","op":"insert","table":"items","values":[{"name":"a"}],"returning":["id",' +
      '{"column":"name","as":"row"}],"expect":1},{"id":"d","op":"delete","table":"items",' +
      '"all":true,"returning":[],"expect":{"min":2,"max":9}}',
    data: '{"i":[{"id":3,"row":"a"}],"d":[]}'
  },
  {
    name: 'computed values',
    batch: '{"id":"u","op":"update","table":"items","set":{"n":{"$inc":1.5},' +
      '"data":{"$merge":{"b":1}},"name":"z"},"where":{"id":{"eq":2}}},{"id":"v",' +
      '"op":"update","table":"items","set":{"n":{"$mul":2},"name":{"$default":true},' +
      '"data":{"$remove":"b"}},"where":{"id":{"eq":2}}}',
    data: '{"u":[{"id":2,"name":"z","n":6.5,"data":{"a": [1], "b": ' +
      '1}}],"v":[{"id":2,"name":"none","n":13.0,"data":{"a": [1]}}]}'
  },
  {
    name: 'a conflict on a partial index, updated under a condition',
    batch: '{"id":"i","op":"insert","table":"items","values":[{"name":"two","n":9}],' +
      '"on_conflict":{"columns":["name"],"index_where":{"n":{"gt":0},"name":{"in":["two",' +
      '"o\'\\\\"]}},"do":"update","set":{"n":{"$inc":2},"name":{"$excluded":"name"},' +
      '"data":{"x":1}},"where":{"n":{"lt":{"$excluded":"n"}}}}}',
    data: '{"i":[{"id":2,"name":"two","n":7,"data":{"x": 1}}]}'
  },
  {
    name: 'a conflict on a constraint, with do nothing',
    batch: '{"id":"i","op":"insert","table":"items","values":[{"id":1},{"id":7}],' +
      '"on_conflict":{"constraint":"items_pkey","do":"nothing"}}',
    data: '{"i":[{"id":7,"name":"none","n":null,"data":null}]}'
  },
  {
    name: 'a conflict that updates every inserted column',
    batch: '{"id":"i","op":"insert","table":"items","values":[{"id":1,"n":9}],' +
      '"on_conflict":{"columns":["id"],"do":"update"}}',
    data: '{"i":[{"id":1,"name":"one","n":9,"data":null}]}'
  },
  {
    name: 'whole rows and lists in documents',
    batch: '{"id":"a","op":"select","table":"items","columns":["id","n"]},{"id":"b",' +
      '"op":"insert","table":"items","values":[{"data":["$a","$a.1","$a.*.id"]}]}',
    data: '{"a":[{"id":1,"n":1.10}, \n ' +
      '{"id":2,"n":5}],"b":[{"id":3,"name":"none","n":null,"data":[{"n": 1.10, "id": 1}, ' +
      '{"n": 5, "id": 2}, [1, 2]]}]}'
  },
  {
    name: 'names are quoted',
    batch: '{"id":"i","op":"insert","table":"Other Schema.Weird \\"Name\\" ; ' +
      '--","values":[{"a\\"b":1,"select":2,"$1":3}]},{"id":"s","op":"select","table":"Other ' +
      'Schema.Weird \\"Name\\" ; --","where":{"a\\"b":{"eq":1}}}',
    data: '{"i":[{"a\\"b":1,"select":2,"$1":3}],"s":[{"a\\"b":1,"select":2,"$1":3}]}'
  }
]

const schema = `
  create table items (id int generated by default as identity primary key, name text default 'none',
    n numeric, data jsonb);
  insert into items (name, n, data) values ('one', 1.10, null), ('two', 5, '{"a":[1]}');
  create unique index on items (name) where n > 0 and name in ('two', 'o''\\');
  create schema "Other Schema";
  create table "Other Schema"."Weird ""Name"" ; --" ("a""b" int, "select" int, "$1" int);
  grant usage on schema "Other Schema" to oneflight_user;
  grant all on items, "Other Schema"."Weird ""Name"" ; --" to oneflight_user;
`
const env = { DB_SCHEMAS: 'public,Other Schema', MAX_ROWS: String(MAX_ROWS) }

t.test('each operation returns the expected rows', async t => {
  for (const { name, batch, data } of cases) {
    t.test(name, async t => {
      const service = await useService(t, { schema, env })
      t.equal((await service.post(`[${batch}]`)).text, `{"error":null,"data":${data}}`)
    })
  }
})

t.test('the text of a statement does not depend on the number of many rows', async t => {
  const types = new ColumnTypes()
  types.remember(JSON.stringify([{
    schema: 'public',
    name: 'items',
    columns: [['n', 1700, -1, 'b', 'pg_catalog', 'numeric', 'N', 0]]
  }]))
  const findings: readonly FindColumns[] = [table => types.lookup(table), () => undefined]
  for (const [i, findColumns] of findings.entries()) {
    const insert = (rows: number): Statement | undefined => {
      const values = Array.from({ length: rows }, (_, n) => ({ n }))
      const batch = [{ id: 'i', op: 'insert', table: 'items', values }] as unknown as Batch
      const session = { role: 'oneflight_user', claims: '{}' }
      return compile(planBatch(batch, limits), { ...limits, session, findColumns })[0]
    }
    t.equal(insert(17)?.text, insert(MAX_ROWS)?.text)
    for (const rows of [1, MAX_ROWS]) {
      t.equal(insert(rows)?.prepare, i === 0, 'only statements of known tables are prepared')
    }
  }
})

t.test('only errors that the service raises are read as such', async t => {
  t.equal(
    readRaised({
      code: '22P02',
      message: 'invalid input syntax for type integer: "oneflight-x:rows:5"'
    }),
    undefined
  )
  t.equal(readRaised({ code: 'P0001', message: 'x' }), undefined)
  t.equal(readRaised({ code: '42883', message: 'x', position: '1' }), undefined)
})

t.test('hostile names of tables and columns work', async t => {
  const names = [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    'r',
    't',
    'j',
    'n',
    'x',
    'g0',
    'row',
    'rows',
    'element',
    'position',
    'piece',
    'source',
    'key',
    'cut',
    'found',
    'placed',
    'ordinality',
    'rawJSON',
    'select',
    'default',
    'user',
    'json',
    'text',
    'json_populate_record',
    'a"b',
    '"',
    '""',
    "a'b",
    'a.b',
    '.',
    ' ',
    ' a ',
    'UPPER',
    'ä€😀',
    '😀'.repeat(15),
    'x'.repeat(63),
    '$1',
    '%s',
    '\\',
    'a\nb',
    '--',
    '/*',
    '*/',
    ';',
    ')',
    '{',
    '0',
    '42',
    'U&"\\0061"'
  ]
  const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
  const tables = names.filter(name => !name.includes('.')).map((name, i) => ({
    name,
    sql: `create table ${quoted(name)} (id int primary key, ${quoted(name)} int); insert into ${
      quoted(name)
    } values (1, ${i}); grant all on ${quoted(name)} to oneflight_user;`
  }))
  const service = await useService(t, {
    schema: `create table many (id int primary key, ${
      names.map(name => `${quoted(name)} int`).join()
    }); grant all on many to oneflight_user; ${tables.map(({ sql }) => sql).join('')}`
  })
  const object = (entries: ReadonlyArray<readonly [string, unknown]>): string =>
    `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`

  const { text } = await service.post(`[
    {"id":"a","op":"insert","table":"many","values":[${
    object([['id', 1], ...names.map((name, i) => [name, i] as const)])
  }]},
    {"id":"b","op":"insert","table":"many","values":[{"id":2},${
    object([
      ['id', 3],
      ...names.map((name, i) => [name, name.includes('.') ? i : `$a.0.${name}`] as const)
    ])
  }]},
    {"id":"c","op":"update","table":"many","set":${
    object(names.map((name, i) => [name, i]))
  },"where":{"id":{"eq":2}}},
    {"id":"d","op":"select","table":"many","where":${
    object(names.map((name, i) => [name, { eq: i, gte: name.includes('.') ? i : `$a.0.${name}` }]))
  }}
  ]`)
  const row = (id: number): string =>
    object([['id', id], ...names.map((name, i) => [name, i] as const)])
  const nulls = object([['id', 2], ...names.map(name => [name, null] as const)])
  t.equal(
    text,
    `{"error":null,"data":{"a":[${row(1)}],"b":[${nulls}, \n ${row(3)}],"c":[${row(2)}],"d":[${
      row(1)
    }, \n ${row(3)}, \n ${row(2)}]}}`
  )

  for (const [i, { name }] of tables.entries()) {
    const { text, status } = await service.post(`[
      {"id":"s","op":"select","table":${JSON.stringify(name)},"where":{"id":{"eq":1}}},
      {"id":"i","op":"insert","table":${JSON.stringify(name)},"values":[{"id":2,${
      JSON.stringify(name)
    }:${JSON.stringify(`$s.0.${name}`)}}]},
      {"id":"d","op":"delete","table":${JSON.stringify(name)},"where":{${
      JSON.stringify(name)
    }:{"eq":${JSON.stringify(`$i.0.${name}`)}}}}
    ]`)
    t.equal(status, 200, encodeURI(`${name} ${status === 200 ? '' : text}`))
    t.same(JSON.parse(text).data.d.length, 2, `${i}`)
  }
})

t.test('no text of a request becomes SQL', async t => {
  const service = await useService(t, { schema, env })
  const attacks = [
    "'; drop table items; --",
    '"; drop table items; --',
    '1; drop table items',
    '1) or (1=1',
    "' or '1'='1",
    '$$; drop table items; $$',
    "\\'; drop table items; --",
    'items"; drop table items; --',
    '*/ drop table items /*',
    "E'\\x27'",
    '{"; drop table items"}',
    '$1',
    '%27'
  ]
  for (const attack of attacks) {
    const operations: readonly object[] = [
      { op: 'select', table: attack },
      { op: 'select', table: `public.${attack}` },
      { op: 'select', table: 'items', where: { [attack]: { eq: 1 } } },
      { op: 'select', table: 'items', where: { name: { eq: attack } } },
      { op: 'select', table: 'items', where: { id: { eq: attack } } },
      { op: 'delete', table: 'items', where: { name: { [attack]: 1 } } },
      { op: 'delete', table: 'items', where: { name: { like: attack } } },
      { op: 'insert', table: 'items', values: [{ [attack]: 1 }] },
      { op: 'insert', table: 'items', values: [{ id: attack }, {}] },
      { op: 'update', table: 'items', set: { [attack]: 1 }, where: { id: { eq: 1 } } },
      {
        op: 'update',
        table: 'items',
        set: { data: { [attack]: [attack] } },
        where: { id: { eq: -1 } }
      },
      { op: 'insert', table: 'items', values: [{ name: `$s.0.${attack}` }] },
      { op: attack, table: 'items' }
    ]
    for (const operation of operations) {
      const { status, body } = await service.post([{ id: 's', op: 'select', table: 'items' }, {
        id: 'o',
        ...operation
      }])
      t.ok(
        status < 500 && (status !== 200 || ['[]', '[{}]'].includes(JSON.stringify(body.data.o))),
        encodeURI(`${attack} ${JSON.stringify(operation)} ${status}`)
      )
    }
    t.ok(
      [400, 422].includes(
        (await service.post([{ id: attack, op: 'select', table: 'items' }])).status
      )
    )
  }
  const { body } = await service.post([{ id: 's', op: 'select', table: 'items' }])
  t.equal(body.data.s.length, 2)
})

t.test('a function of the row is a computed column, a type is not', async t => {
  const service = await useService(t, {
    schema: `${schema} create function label(items) returns text language sql stable as 'select ` +
      "$1.id || $1.name'",
    env
  })
  t.match(
    (await service.post([{
      id: 's',
      op: 'select',
      table: 'items',
      where: { label: { eq: '2two' } }
    }])).body.data,
    { s: [{ id: 2 }] }
  )
  const columns = [
    'text',
    'json',
    'int4',
    'varchar',
    'record',
    'public',
    'items',
    't',
    'count',
    'json_agg',
    'pg_sleep',
    'current_user'
  ]
  for (const column of columns) {
    const { status, body } = await service.post([{
      id: 's',
      op: 'select',
      table: 'items',
      where: { [column]: { like: '%' } }
    }])
    t.ok(status === 400 || status === 404, `${column}: ${body.error?.code}`)
  }
})

t.test('every kind of table and view can be read and written', async t => {
  const service = await useService(t, {
    schema: `
      create table parts (id int, day date not null) partition by range (day);
      create table parts_1 partition of parts for values from ('2024-01-01') to ('2025-01-01');
      create table parts_2 (day date not null, gone int, id int);
      alter table parts_2 drop column gone;
      alter table parts attach partition parts_2 for values from ('2025-01-01') to ('2026-01-01');
      create table base (id int, name text default 'base');
      create table child (extra int) inherits (base);
      insert into child values (9, 'child', 1);
      create view simple as select id, upper(name) as name, id as other from base;
      create view updatable as select id, name as "Label" from only base;
      alter view updatable alter column "Label" set default 'view';
      create view triggered as select 1 as id, 'x'::text as name;
      create function on_view() returns trigger language plpgsql as $$ begin
        if tg_op = 'DELETE' then return old; end if;
        new.name := coalesce(new.name, 'null') || ' by trigger';
        return new;
      end $$;
      create trigger on_view instead of insert or update or delete on triggered
        for each row execute function on_view();
      create table none ();
      create unlogged table fast (id int, double int generated always as (id * 2) stored,
        always int generated always as identity);
      create table changed (id int, name text);
      create function change() returns trigger language plpgsql as $$ begin
        if new.name = 'suppressed' then return null; end if;
        new.name := upper(new.name);
        return new;
      end $$;
      create trigger change before insert or update on changed
        for each row execute function change();
      create table ruled (id int);
      create rule nothing as on delete to ruled do instead nothing;
      create table dropped (a int, b int, c int);
      alter table dropped drop column b;
      create sequence counter;
      grant all on all tables in schema public to oneflight_user;
      grant all on all sequences in schema public to oneflight_user;
      create table partly (id int, secret text);
      grant select (id), insert (id) on partly to oneflight_user;
    `,
    env
  })
  const rows: ReadonlyArray<
    readonly [
      name: string,
      operations: ReadonlyArray<Record<string, unknown>>,
      data: ReadonlyArray<unknown> | string
    ]
  > = [
    ['partitions', [
      {
        op: 'insert',
        table: 'parts',
        values: [{ day: '2025-05-05', id: 2 }, { id: 1, day: '2024-05-05' }]
      },
      { op: 'update', table: 'parts', set: { day: '2024-06-06' }, where: { id: { eq: 2 } } },
      { op: 'select', table: 'parts_1', where: { id: { eq: 2 } } },
      { op: 'delete', table: 'parts', all: true }
    ], [
      [{ id: 2, day: '2025-05-05' }, { id: 1, day: '2024-05-05' }],
      [{ id: 2, day: '2024-06-06' }],
      [{ id: 2, day: '2024-06-06' }],
      [{ id: 1, day: '2024-05-05' }, { id: 2, day: '2024-06-06' }]
    ]],
    ['a row that fits no partition', [{
      op: 'insert',
      table: 'parts',
      values: [{ id: 1, day: '2030-01-01' }]
    }], 'check_violation'],
    ['inheritance', [{ op: 'insert', table: 'base', values: [{ id: 1 }] }, {
      op: 'update',
      table: 'base',
      set: { name: 'x' },
      where: { id: { gte: 1 } }
    }, { op: 'delete', table: 'base', where: { id: { eq: 1 } } }], [[{ id: 1, name: 'base' }], [{
      id: 1,
      name: 'x'
    }, { id: 9, name: 'x' }], [{ id: 1, name: 'x' }]]],
    ['a view', [{ op: 'select', table: 'simple' }], [[{ id: 9, name: 'X', other: 9 }]]],
    ['a view that cannot be written', [{
      op: 'update',
      table: 'simple',
      set: { name: 'x' },
      all: true
    }], 'feature_not_supported'],
    ['an updatable view', [{
      op: 'insert',
      table: 'updatable',
      values: [{ id: 5 }, { id: 6, Label: 'l' }, {}]
    }, {
      op: 'update',
      table: 'updatable',
      set: { Label: '$op0.1.Label' },
      where: { id: { eq: '$op0.0.id' } }
    }, { op: 'delete', table: 'updatable', all: true }], [
      [{ id: 5, Label: 'view' }, { id: 6, Label: 'l' }, { id: null, Label: 'view' }],
      [{ id: 5, Label: 'l' }],
      [{ id: 6, Label: 'l' }, { id: null, Label: 'view' }, { id: 5, Label: 'l' }]
    ]],
    ['a view with triggers', [
      { op: 'insert', table: 'triggered', values: [{ id: 5 }, { name: 'n' }] },
      { op: 'update', table: 'triggered', set: { name: 'u' }, all: true },
      { op: 'delete', table: 'triggered', where: { id: { eq: 1 } } }
    ], [[{ id: 5, name: 'null by trigger' }, { id: null, name: 'n by trigger' }], [{
      id: 1,
      name: 'u by trigger'
    }], [{ id: 1, name: 'x' }]]],
    ['a table without columns', [{ op: 'insert', table: 'none', values: [{}, {}] }, {
      op: 'select',
      table: 'none'
    }, { op: 'delete', table: 'none', all: true }], [[{}, {}], [{}, {}], [{}, {}]]],
    ['generated columns', [{ op: 'insert', table: 'fast', values: [{ id: 4 }, {}, { id: 5 }] }, {
      op: 'update',
      table: 'fast',
      set: { id: 7 },
      where: { double: { eq: '$op0.2.double' } }
    }], [[{ id: 4, double: 8, always: 1 }, { id: null, double: null, always: 2 }, {
      id: 5,
      double: 10,
      always: 3
    }], [{ id: 7, double: 14, always: 3 }]]],
    [
      'a generated column given a value',
      [{ op: 'insert', table: 'fast', values: [{ double: 1 }] }],
      'generated_always'
    ],
    [
      'an identity given a value',
      [{ op: 'insert', table: 'fast', values: [{ always: 1 }] }],
      'generated_always'
    ],
    ['an identity given a value beside a default', [{
      op: 'insert',
      table: 'fast',
      values: [{}, { always: 1 }]
    }], 'generated_always'],
    [
      'a generated column updated',
      [{ op: 'update', table: 'fast', set: { double: 1 }, all: true }],
      'generated_always'
    ],
    ['triggers that change and suppress', [
      {
        op: 'insert',
        table: 'changed',
        values: [{ id: 1, name: 'a' }, { id: 2, name: 'suppressed' }, { id: 3, name: 'b' }, {
          id: 4
        }]
      },
      { op: 'update', table: 'changed', set: { name: 'suppressed' }, all: true },
      { op: 'update', table: 'changed', set: { name: '$op0.1.name' }, where: { id: { eq: 1 } } }
    ], [[{ id: 1, name: 'A' }, { id: 3, name: 'B' }, { id: 4, name: null }], [], [{
      id: 1,
      name: 'B'
    }]]],
    [
      'a row that a trigger suppressed',
      [{ op: 'insert', table: 'changed', values: [{ name: 'suppressed' }] }, {
        op: 'select',
        table: 'changed',
        where: { id: { eq: '$op0.id' } }
      }],
      'reference_row_missing'
    ],
    ['a rule', [{ op: 'delete', table: 'ruled', all: true }], 'feature_not_supported'],
    ['a table with a dropped column', [
      { op: 'insert', table: 'dropped', values: [{ c: 3 }, { a: 1, c: 2 }] },
      {
        op: 'update',
        table: 'dropped',
        set: { a: '$op0.0.c' },
        where: { a: { eq: '$op0.1.a' } }
      }
    ], [
      [{ a: null, c: 3 }, { a: 1, c: 2 }],
      [{ a: 3, c: 2 }]
    ]],
    [
      'a dropped column that is named',
      [{ op: 'insert', table: 'dropped', values: [{ b: 3 }] }],
      'undefined_column'
    ],
    ['a sequence', [{ op: 'select', table: 'counter' }], 'undefined_object'],
    ['a sequence written', [{ op: 'insert', table: 'counter', values: [{}] }], 'undefined_object'],
    [
      'column privileges',
      [{ op: 'insert', table: 'partly', values: [{ id: 1 }] }],
      'insufficient_privilege'
    ],
    ['an update and a delete of no row', [{
      op: 'update',
      table: 'base',
      set: { name: 'x' },
      where: { id: { eq: -1 } }
    }, { op: 'delete', table: 'base', where: { id: { eq: -1 } } }], [[], []]],
    [
      'a system column set',
      [{ op: 'update', table: 'base', set: { ctid: '(0,1)' }, all: true }],
      'feature_not_supported'
    ]
  ]
  for (const [name, operations, data] of rows) {
    const { body } = await service.post(
      [...operations].map((operation, i) => ({ id: `op${i}`, ...operation }))
    )
    if (typeof data === 'string') t.equal(body.error?.code, data, name)
    else {
      t.same(body, {
        error: null,
        data: Object.fromEntries(data.map((rows, i) => [`op${i}`, rows]))
      }, name)
    }
  }
})

t.test('row level security applies to every operation', async t => {
  const service = await useService(t, {
    schema: `
      create table notes (id int generated always as identity,
        owner text default current_setting('request.jwt.claims')::json ->> 'role', body text);
      alter table notes enable row level security;
      create policy own on notes using (owner = current_user) with check (owner = current_user);
      insert into notes (owner, body) values ('oneflight_other', 'theirs');
      grant all on notes to oneflight_user, oneflight_other;
    `
  })
  const { body } = await service.post([
    {
      id: 'i',
      op: 'insert',
      table: 'notes',
      values: [{ body: 'mine' }, { body: 'also', owner: 'oneflight_user' }]
    },
    { id: 'u', op: 'update', table: 'notes', set: { body: 'x' }, all: true },
    { id: 'd', op: 'delete', table: 'notes', where: { owner: { neq: 'oneflight_user' } } },
    { id: 's', op: 'select', table: 'notes' }
  ])
  t.same([body.data.i.length, body.data.u.length, body.data.d.length, body.data.s.length], [
    2,
    2,
    0,
    2
  ])
  const refused = await service.post([{
    id: 'i',
    op: 'insert',
    table: 'notes',
    values: [{}, { owner: 'oneflight_other' }]
  }])
  t.match({ status: refused.status, error: refused.body.error }, {
    status: 403,
    error: { code: 'insufficient_privilege', op: 'i' }
  })
})

t.test('rows with different columns keep their order', async t => {
  const service = await useService(t, {
    schema: 'create table wide (id int generated always as identity, a int default -1, b int ' +
      'default -1, c int default -1, d int default -1); grant all on wide to oneflight_user'
  })
  const shapes = [['a'], ['a', 'b'], ['c', 'a', 'd'], ['a', 'd'], ['b', 'c', 'a']]
  const rows = (count: number): Array<Record<string, number>> =>
    Array.from(
      { length: count },
      (_, i) => Object.fromEntries((shapes[i * 7 % 5] as string[]).map(name => [name, i]))
    )
  for (const count of [200, 2000]) {
    const sent = rows(count)
    const { body } = await service.post([{ id: 'i', op: 'insert', table: 'wide', values: sent }, {
      id: 'd',
      op: 'delete',
      table: 'wide',
      all: true
    }])
    const got: Array<Record<string, number>> = body.data.i
    t.same(
      got.map(({ id, ...row }) => row),
      sent.map(row => ({ a: -1, b: -1, c: -1, d: -1, ...row })),
      `${count} rows`
    )
    if (count === 200) {
      t.ok(
        got.every(({ id }, i) => i === 0 || (id ?? 0) > (got[i - 1]?.['id'] ?? 0)),
        'inserted in that order, too'
      )
    }
  }
  const many = Array.from({ length: 201 }, (_, i) => ({ [`c${i}`]: 1 }))
  const { status, body } = await service.post([{
    id: 'i',
    op: 'insert',
    table: 'wide',
    values: many
  }])
  const errors = [{ code: 'rows_limit', path: ['values'] }]
  t.match({ status, errors: body.error.errors }, { status: 422, errors })
})

t.test('MAX_ROWS limits the rows of requests and responses', async t => {
  const service = await useService(t, {
    schema: 'create table few (id int); insert into few select generate_series(1, 3); create ' +
      'table more (id int); insert into more select generate_series(1, 4); grant all on ' +
      'few, more to oneflight_user',
    env: { MAX_ROWS: '3' }
  })
  const rows = (count: number): object[] => Array.from({ length: count }, (_, id) => ({ id }))
  t.equal(
    (await service.post([{ id: 's', op: 'select', table: 'few' }, {
      id: 'i',
      op: 'insert',
      table: 'few',
      values: rows(3)
    }])).status,
    200
  )
  const { status, body } = await service.post([{
    id: 'i',
    op: 'insert',
    table: 'few',
    values: rows(4)
  }])
  t.match({ status, error: body.error }, {
    status: 422,
    error: { type: 'validation_error', errors: [{ code: 'rows_limit', path: ['values'] }] }
  })
  const operations = [
    { op: 'select' },
    { op: 'delete', all: true },
    { op: 'update', set: { id: 0 }, all: true }
  ]
  for (const operation of operations) {
    const { status, body } = await service.post([
      { id: 'few', op: 'insert', table: 'few', values: rows(1) },
      { id: 'o', table: 'more', ...operation }
    ])
    t.match({ status, error: body.error }, {
      status: 422,
      error: { type: 'execution_error', code: 'rows_limit', committed: false, op: 'o', index: 1 }
    })
  }
  t.same(await service.database.sql`select count(*)::int as n from more`, [{ n: 4 }])
  t.same(await service.database.sql`select count(*)::int as n from few`, [{ n: 6 }])
})

t.test('an operation with too many parameters for the protocol is rejected', async t => {
  const names = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch']
  const tests = Object.fromEntries(names.map(name => [name, 1]))
  const where = { or: Array.from({ length: 6600 }, () => ({ c: tests })) }
  const batch = [
    { id: 'fine', op: 'select', table: 'items' },
    { id: 'large', op: 'select', table: 'items', where }
  ]
  const plan = planBatch(parseJson(Buffer.from(JSON.stringify(batch))) as unknown as Batch, {
    ...limits,
    maxConditions: 100_000,
    maxWork: 1_000_000
  })
  t.throws(
    () => compile(plan, { ...limits, session: { role: 'oneflight_user', claims: '{}' } }),
    {
      type: 'execution_error',
      code: 'program_limit_exceeded',
      status: 400,
      details: { op: 'large', index: 1, sqlstate: '54000', retryable: false }
    }
  )
})
