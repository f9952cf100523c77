/**
 * Tests inserts. An insert from a query stores and returns the same rows as INSERT … SELECT written
 * by hand, and a mistake is refused and stores nothing. Many rows keep every digit and their order,
 * however their columns are mixed.
 */
import t from 'tap'
import { assertIssues, findFailure } from '../support/issues.ts'
import { differsOneByOne } from '../support/environment.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { on } from '../support/shorthand.ts'

/** Its triggers suppress rows whose id is a multiple of 5. */
const schema = `
  create table t (id int primary key, v numeric, j json);

  -- every kind of relation that accepts inserts
  create table plain (id int primary key, a int default -1, b int default -2);
  create table parted (like plain including all) partition by range (id);
  create table low partition of parted for values from (0) to (500);
  create table high partition of parted for values from (500) to (1000);
  create table base (like plain including all);
  create view simple as select b, a, id from base;
  create view nowhere as select 0 as id, 0 as a, 0 as b;
  alter view nowhere alter a set default -1, alter b set default -2;
  create table ruled (like plain including all);
  create rule ruled as on insert to ruled do instead insert into plain values (new.*) returning *;
  create table noted (like plain including all);
  create table notes (like plain);
  create table guarded (like plain including all);
  alter table guarded enable row level security;
  create policy everything on guarded using (true) with check (id >= 0);

  create function suppress() returns trigger language plpgsql as
    $$ begin return case when new.id % 5 > 0 then new end; end $$;
  create trigger suppress before insert on plain for each row execute function suppress();
  create trigger suppress before insert on parted for each row execute function suppress();
  create trigger suppress before insert on base for each row execute function suppress();
  create trigger suppress instead of insert on nowhere for each row execute function suppress();
  create trigger suppress before insert on guarded for each row execute function suppress();

  -- Inserts other rows and rolls half of them back.
  create function note() returns trigger language plpgsql as $$ begin
    begin
      insert into notes select x.* from json_populate_recordset(null::notes,
        json_build_array(to_json(new), to_json(new))) as x;
      if new.id % 2 = 0 then raise 'undo'; end if;
    exception when raise_exception then null; end;
    return case when new.id % 5 > 0 then new end;
  end $$;
  create trigger note before insert on noted for each row execute function note();

  create table numbered (id int generated always as identity, a int);
  create trigger suppress before insert on numbered for each row execute function suppress();
  create table resetting (id int primary key, a int, b int);
  create function reset_all() returns trigger language plpgsql as $$ begin
    if new.id % 3 > 0 then reset all; end if;
    return case when new.id < 1000 then new end; end $$;
  create trigger reset_all before insert on resetting for each row execute function reset_all();
  create table items (id int primary key, a int default 7, b text default 'b', c numeric,
    e jsonb, f text[]);
  create table cart_items (cart_id int, sku text, qty int, price numeric(8, 2), data json,
    primary key (cart_id, sku));
  create table order_items (n int generated always as identity, order_id int, sku text, qty int,
    data json, note jsonb, unique (order_id, sku));
  insert into cart_items values
    (7, 'pear', 2, 0.45, '{"k": {"n": 1.10}, "t": "x", "k2": 1, "k2": 2}'),
    (7, 'apple', 3, 1.15, null), (7, 'fig', 1, null, '[1]'), (8, 'apple', 9, 2.00, '{"t": null}');
  create table hidden (sku text, visible boolean);
  alter table hidden enable row level security;
  create policy own on hidden using (visible);
  insert into hidden values ('apple', true), ('pear', false);
  grant all on all tables in schema public to oneflight_user;
  create table secret (sku text);
`
const from = { table: 'cart_items', where: { cart_id: { eq: 7 } }, order: [{ sku: 'asc' }] }

/** Inserts, each with its columns and the same query in SQL. */
const inserts: ReadonlyArray<readonly [members: object, columns: string, query: string]> = [
  [
    {
      from: { ...from, where: { 'data->>t': { eq: 'x' } } },
      columns: { sku: { $col: 'data->>t' }, data: { $col: 'data->k' }, note: { $col: 'data->k' } }
    },
    'sku, data, note',
    `select data ->> 't', data -> 'k', (data -> 'k')::jsonb
      from cart_items where data ->> 't' = 'x'`
  ],
  [
    {
      from: {
        table: 'public.cart_items',
        columns: [{ column: 'qty', as: 'sku' }, '*', { column: 'price', cast: 'int', as: 'p' }],
        where: { cart_id: { eq: 8 } }
      },
      columns: { qty: { $col: 'sku' }, order_id: { $col: 'p' }, note: { $col: 'data->t' } }
    },
    'qty, order_id, note',
    'select qty, price::int, (data -> \'t\')::jsonb from cart_items where cart_id = 8'
  ],
  [{
    from: { table: 'hidden' },
    columns: { sku: { $col: 'sku' }, note: { $first: ['$one.4.sku', '$one.0.sku'] } }
  }, 'sku, note', 'select sku, to_jsonb(sku) from hidden']
]
const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '16000000' } })
const { sql } = service.database
const empty = (): Promise<unknown> => sql`truncate order_items restart identity`
t.beforeEach(empty)

t.test('an insert from a query stores what INSERT … SELECT stores', async t => {
  for (const [members, columns, query] of inserts) {
    await empty()
    const expected = await sql.begin(async sql => {
      await sql`set local role oneflight_user`
      const rows = await sql.unsafe<Array<{ row: object }>>(
        `insert into order_items as i (${columns}) ${query} returning to_json(i) as row`
      )
      return rows.map(({ row }) => row)
    })
    await empty()
    const { body, text } = await service.post([
      op.select('one', 'hidden'),
      { id: 'i', op: 'insert', table: 'order_items', ...members },
      op.select('s', 'order_items', { order: [{ n: 'asc' }] })
    ])
    t.same(body.data?.['i'], expected, `${query}: ${text}`)
    t.same(body.data?.['s'], expected, `${query} is stored`)
  }
})

t.test('the number of rows is checked if the insert is not skipped', async t => {
  const { post } = await useService(t, { ...on(service.database), env: { MAX_ROWS: '3' } })
  const insert = (more: object): object => op.insert('i', 'order_items', undefined, {
    from: { table: 'cart_items' }, columns: { order_id: 5, sku: { $col: 'sku' } }, ...more
  })
  const many = await post([
    insert({ on_conflict: { columns: ['order_id', 'sku'], do: 'nothing' }, returning: [] })
  ])
  t.equal(many.body.error?.code, 'rows_limit')
  const skipped = await post([
    op.select('none', 'hidden', { where: { sku: { eq: 'fig' } } }), insert({ when: { none: 1 } })
  ])
  t.same(skipped.body.data, { none: [], i: null }, 'MAX_ROWS does not count what is skipped')
  const [stored] = await sql`select count(*)::int as n from order_items`
  t.equal(stored?.['n'], 0)
})

t.test('mistakes are refused and store nothing', async t => {
  const columns = { sku: { $col: 'sku' } }
  const grouped = { table: 'cart_items', columns: ['sku'], group_by: ['sku'] }
  const into = { op: 'insert', table: 'order_items' }
  const invalid: ReadonlyArray<readonly [members: object, issue: string]> = [
    [{ from }, 'member_missing columns'],
    [{ from, columns, where: { sku: { eq: 'x' } } }, 'member_invalid where'],
    [{ from, columns, set: { sku: 'x' } }, 'member_invalid set'],
    [{ from, columns, set: {}, on_conflict: { columns: ['sku'], do: 'nothing' } },
      'member_invalid set'],
    [{ from: { table: 'sales.x' }, columns }, 'schema_forbidden from.table'],
    [{ from: { ...from, group_by: ['sku'] }, columns }, 'member_missing from.columns'],
    [{ from: { ...from, having: { n: { gt: 1 } } }, columns }, 'member_missing from.columns'],
    [{ from: grouped, columns: { qty: { $col: 'qty' } } }, 'member_invalid columns.qty.$col'],
    [{ from, columns: { sku: { $from: 'sku' } } }, 'member_invalid columns.sku.$from']
  ]
  assertIssues(t, invalid.map(([members, issue]) => [{ ...into, ...members }, issue]))
  t.match(findFailure([{ id: 'i', ...into, columns }])?.details.errors, [
    { code: 'member_invalid', path: ['columns'], message: '"columns" requires "from"' },
    { code: 'member_missing', path: ['values'] }
  ])
  const failing: ReadonlyArray<readonly [members: object, code: string, message: string]> = [
    [{ from, columns: { skuu: { $col: 'sku' } } }, 'undefined_column', '"order_items" has no'],
    [{ from: { table: 'secret' }, columns }, 'insufficient_privilege', 'secret'],
    [{ from, columns: { qty: { $col: 'sku' } } }, 'datatype_mismatch', 'qty']
  ]
  for (const [members, code, message] of failing) {
    const { body } = await service.post([{ id: 'i', ...into, ...members }])
    t.equal(body.error?.code, code, JSON.stringify(members))
    t.ok(body.error?.message.includes(message), body.error?.message)
  }
  const [stored] = await sql`select count(*)::int as n from order_items`
  t.equal(stored?.['n'], 0)
})

/** JSON text of as many rows as one batch may insert. `more` returns the members after `id`. */
const rowsOf = (more: (i: number) => string): string =>
  `[${Array.from({ length: 10_000 }, (_, i) => `{"id":${i}${more(i)}}`).join()}]`

t.test('many rows take every type, and each value that does not fit is listed once', async t => {
  await sql.unsafe(`create type wide as (${
    Array.from({ length: 201 }, (_, i) => `a${i} int`).join()
  });
    create table wides (id int, wide wide, n numeric(4, 1), wait interval);
    grant all on wides to oneflight_user`)
  const wide = `(${','.repeat(199)}2,1)`
  const positions = [...Array.from({ length: 17 }).keys()]
  const many = (more: object): object =>
    op.insert('w', 'wides', positions.map(id => ({ id, wide, n: 1.5, ...more })))
  t.match((await service.post([many({})])).body.data?.w, [{ id: 0, wide: { a200: 1 }, n: 1.5 }])
  for (const more of [{}, { wait: '1 day' }]) {
    const { errors = [] } = (await service.post([many({ n: 1.25, ...more })])).body.error
    t.same(errors.map(({ path }: { path: unknown[] }) => path[1]), positions)
  }
})

t.test('a few rows of many columns are stored', async t => {
  const row = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`c${i}`, i]))
  const columns = Object.keys(row).map(name => `${name} int`).join()
  await sql.unsafe(`create table broad (${columns}); grant all on broad to oneflight_user`)
  const { body, text } = await service.post([op.insert('b', 'broad', [row, row])])
  t.same(body.data?.b, [row, row], text)
})

t.test('the maximum number of rows is stored with every digit', async t => {
  const rows = rowsOf(i => `,"v":${i}.10,"j":{"0":[1e400,"ä€😀","$x"],"b":${i}}`)
  const values = rows.replaceAll('$x', () => '$$x')
  const inserted = await service.post(`[{"id":"a","op":"insert","table":"t","values":${values}}]`)
  t.equal(inserted.status, 200)
  const [stored] = await sql<[{ rows: string, n: number }]>`
    select json_agg(t order by id)::text as rows, count(*)::int as n from t`
  t.equal(stored.n, 10_000)
  t.equal(stored.rows.replaceAll(/,\s+/g, ','), rows)
  t.equal(inserted.text, `{"error":null,"data":{"a":${stored.rows}}}`)
})

t.test('rows with mixed columns keep their order in every kind of relation', async t => {
  const values = Array.from({ length: 1000 }, (_, i) => {
    const id = i * 7 % 1000
    return i % 2 === 0 ? { id, a: i } : { b: i, id }
  })
  const expected = values.filter(({ id }) => id % 5 > 0).map(row => ({ a: -1, b: -2, ...row }))
  for (const table of ['plain', 'parted', 'simple', 'nowhere', 'ruled', 'noted', 'guarded']) {
    await sql`truncate plain`
    const insert = op.insert('i', table, values)
    const allColumns = await service.post([insert], { headers: { prefer: 'tx=rollback' } })
    t.same(allColumns.body.data?.i, expected, table)
    const returning = ['a', { column: 'id', as: 'x' }]
    const someColumns = await service.post([{ ...insert, returning }])
    t.same(someColumns.body.data?.i, expected.map(({ id, a }) => ({ a, x: id })), table)
  }
})

const rowOrder = differsOneByOne('all rows are stored in their order')
t.test('rows without columns are inserted among others', rowOrder, async t => {
  const values = Array.from({ length: 300 }, (_, i) => i % 2 === 0 ? {} : { a: i })
  const { body } = await service.post([op.insert('i', 'numbered', values)])
  // The rows without columns are inserted first and have the numbers from 1 to 150.
  const numbered = values.map((row, i) => ({
    id: i % 2 === 0 ? i / 2 + 1 : 150 + (i + 1) / 2, a: null, ...row
  }))
  t.same(body.data?.i, numbered.filter(({ id }) => id % 5 > 0))
})

const noSettings = differsOneByOne('there are no settings to reset')
t.test('a trigger that resets settings does not mix up mixed rows', noSettings, async t => {
  const rows = (count: number): object[] =>
    Array.from({ length: count }, (_, id) => id % 2 === 0 ? { id, a: id } : { id, b: id })
  const insert = (values: object[]): object => op.insert('i', 'resetting', values)
  const post = (...operations: object[]): ReturnType<typeof service.post> =>
    service.post(operations, { headers: { prefer: 'tx=rollback' } })
  const all = rows(300)
  t.same((await post(insert(all))).body.data?.i, all.map(row => ({ a: null, b: null, ...row })))
  // The trigger suppresses rows of one group and resets the settings for rows of the other.
  const apart = all.map((_, i) => i % 2 === 0 ? { id: 6 * i, a: i } : { id: 3 * i + 1, b: i })
  const kept = apart.filter(({ id }) => id < 1000)
  const returning = ['id']
  const response = await post({ ...insert(apart), returning })
  t.same(response.body.data?.i, kept.map(({ id }) => ({ id })))
  const { status, body } = await post(insert(rows(1002)))
  const error = { code: 'session_changed', op: 'i', committed: false, retryable: false }
  t.match({ status, error: body.error }, { status: 400, error })
  t.match(body.error?.message, /^A trigger reset the settings of the session/)
  t.same((await post({ ...insert(rows(1002)), returning: [] })).body.data?.i, [])
})

/** Rows that name five different sets of columns. The number of a row decides which. */
const shapes: ReadonlyArray<(id: number) => object> = [
  id => ({ id, a: id }), id => ({ b: `text ${id}`, id }), id => ({ id, a: id, c: 1.5 }),
  id => ({ id, e: { x: id } }), id => ({ id, b: null, f: ['x', 'y'] })
]
const mixes: Readonly<Record<string, (i: number) => number>> = {
  'in alternation': i => i % 5,
  'at random': i => (i * 7919 % 104729) % 5,
  'in as many runs as groups are allowed': i => Math.floor(i / 50) % 5,
  'in a few more runs': i => Math.floor(i / 49) % 5
}

t.test('the maximum number of rows of a few shapes is inserted however they are mixed', async t => {
  const defaults = { a: 7, b: 'b', c: null, e: null, f: null }
  for (const [mix, shapeOf] of Object.entries(mixes)) {
    const values = Array.from({ length: 10_000 }, (_, id) => shapes[shapeOf(id)]?.(id))
    const insert = op.insert('i', 'items', values)
    const { body } = await service.post([insert], { headers: { prefer: 'tx=rollback' } })
    t.strictSame(body.data?.i, values.map(row => ({ ...defaults, ...row })), mix)
  }
})
