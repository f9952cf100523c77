/**
 * Tests that update and delete with `from` change the same rows as UPDATE … FROM and DELETE …
 * USING in SQL, that a row that meets several rows is refused, and that a mistake never widens what
 * is changed.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { assertIssues, type InvalidOperation } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create schema sales;
  create table stock (sku text primary key, qty int, price numeric(8, 2), at timestamptz,
    due date, tags text[], data jsonb, note text, paid money default 1,
    pause interval minute default '1 hour');
  create table order_items (order_id int, sku text, qty int, price numeric(8, 2), tags text[],
    data jsonb, wait interval, days int, raw json default '{"k": {"a": 1}}', many int8 default 2,
    primary key (order_id, sku));
  insert into stock values
    ('apple', 10, 1.00, '2024-01-01T00:00:00Z', '2024-01-01', '{a}', '{"a": 1}', 'x'),
    ('fig', 20, 2.00, '2024-01-01T00:00:00Z', '2024-01-01', null, null, null),
    ('pear', 30, 3.00, null, null, '{}', '{}', 'y');
  insert into order_items values
    (12, 'apple', 2, 0.50, '{b,c}', '{"b": {"n": 1.10}, "k": "apple"}', '1 day', 3),
    (12, 'fig', 1, 1.50, '{d}', '{"a": 2}', '2 hours', 1),
    (13, 'apple', 5, 9.00, null, null, null, null), (14, 'gone', 1, 1, null, null, null, null);
  create view scarce as select sku, qty from stock where qty < 25;
  create table copies (n int, sku text);
  insert into copies values (1, 'apple'), (1, 'apple'), (2, 'fig');
  create table few (sku text, secret text, qty int);
  insert into few values ('apple', 's', 1), ('fig', 's', 1);
  create table own (sku text, visible boolean);
  alter table own enable row level security;
  create policy own on own using (visible);
  insert into own values ('apple', true), ('fig', false);
  create table hidden (sku text);
  grant all on stock, order_items, scarce, copies, own to oneflight_user;
  grant select (sku, qty), update (qty) on few to oneflight_user;
`
const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })
const { sql } = service.database
const on = { sku: 'sku' }
const lines = { table: 'order_items', on, where: { order_id: { eq: 12 } } }
const first = op.select('first', 'order_items', { where: { order_id: { eq: 13 } } })

const changes: ReadonlyArray<readonly [operation: object, statement: string]> = [
  [
    {
      op: 'update',
      table: 'stock',
      from: {
        table: 'order_items', on: { data: 'raw->k' }, where: { order_id: { eq: 13 } }
      },
      set: { qty: 5 }
    },
    `update stock t set qty = 5 from order_items f
      where t.data = (f.raw -> 'k')::jsonb and f.order_id = 13`
  ],
  [
    {
      op: 'update',
      table: 'stock',
      from: lines,
      set: {
        price: { $mul: { $from: 'price' } },
        qty: 5,
        note: '$first.0.sku',
        tags: { $append: { $from: 'tags' } },
        data: { $merge: { $from: 'data' } },
        at: { $inc: { $from: 'wait' } },
        due: { $inc: { $from: 'days' } }
      }
    },
    `update stock t set price = t.price * f.price, qty = 5, note = 'apple',
      tags = coalesce(t.tags, '{}') || f.tags, data = coalesce(t.data, '{}') || f.data,
      at = t.at + f.wait, due = t.due + f.days
      from order_items f where t.sku = f.sku and order_id = 12`
  ],
  [
    {
      op: 'update',
      table: 'stock',
      from: lines,
      set: {
        at: { $dec: { $from: 'price' } },
        due: { $inc: { $from: 'many' } },
        paid: { $inc: { $from: 'price' } },
        pause: { $inc: { $from: 'days' } }
      }
    },
    `update stock t set at = t.at - f.price * interval '1 s', due = t.due + f.many::int,
      paid = t.paid + f.price::money, pause = t.pause + f.days * interval '1 min'
      from order_items f where t.sku = f.sku and order_id = 12`
  ],
  [
    {
      op: 'update',
      table: 'stock',
      from: { ...lines, on: { sku: 'k' }, columns: [{ column: 'data->>k', as: 'k' }] },
      set: { data: { $from: 'data->b' }, note: { $from: 'data->b->>n' } },
      where: { qty: { gt: { $from: 'qty' } }, price: { neq: 7 } }
    },
    `update stock t set data = f.data -> 'b', note = f.data -> 'b' ->> 'n' from order_items f
      where t.sku = f.data ->> 'k' and order_id = 12 and t.qty > f.qty and t.price <> 7`
  ],
  [{ op: 'update', table: 'scarce', from: lines, set: { qty: { $from: 'qty' } } },
    'update scarce t set qty = f.qty from order_items f where t.sku = f.sku and order_id = 12'],
  [{
    op: 'delete',
    table: 'order_items',
    from: { table: 'stock', on },
    where: {
      qty: { between: [1, { $from: 'qty' }] },
      exists: { table: 'copies', on, where: { n: { lt: { $from: 'qty' } } } }
    }
  }, 'delete from order_items t using stock f where t.sku = f.sku and t.qty between 1 and f.qty'],
  [{ op: 'update', table: 'few', from: { table: 'own', on }, set: { qty: 7 }, returning: ['qty'] },
    'update few t set qty = 7 where sku = \'apple\'']
]
const dryRun = { headers: { prefer: 'tx=rollback' } }

t.test('a change joined to another table changes what it changes in SQL', async t => {
  for (const [operation, statement] of changes) {
    const { returning = ['*'] } = operation as { readonly returning?: readonly string[] }
    const connection = await sql.reserve()
    await connection.unsafe("begin; set local timezone = 'UTC'")
    const [row] = await connection.unsafe(`
      with r as (${statement} returning ${returning.map(name => `t.${name}`).join()})
      select coalesce(json_agg(r), '[]') as rows from r`)
    await connection.unsafe('rollback')
    connection.release()
    const { body, text } = await service.post([first, { id: 'c', ...operation }], dryRun)
    const sorted = (list: readonly object[]): readonly string[] =>
      list.map(row => JSON.stringify(row)).sort()
    const expected = row?.['rows'] as readonly object[]
    t.same(sorted(body.data?.c ?? []), sorted(expected), `${statement}: ${text}`)
  }
})

t.test('a row that meets several rows is refused, and nothing happens', async t => {
  const ambiguous: readonly object[] = [
    { table: 'stock', from: { table: 'order_items', on }, set: { qty: { $from: 'qty' } } },
    {
      table: 'stock',
      from: { table: 'order_items', on: { sku: 's' }, columns: [{ column: 'sku', as: 's' }] },
      set: { note: '$first.0.sku' }
    }
  ]
  for (const operation of ambiguous) {
    const { body, status } = await service.post([
      first,
      op.update('before', 'stock', { set: { note: 'changed' }, all: true }),
      { id: 'c', op: 'update', ...operation }
    ])
    t.equal(status, 422)
    t.match(body.error, {
      type: 'execution_error',
      code: 'rows_ambiguous',
      op: 'c',
      message: 'A row meets several rows of "from".'
    })
  }
  t.same(await sql`select from stock where note = 'changed'`, [])
  const skipped = await service.post([first, {
    id: 'c', op: 'update', ...ambiguous[0], when: { first: 7 }
  }])
  t.same(skipped.body.data['c'], null, 'what is skipped is not checked')
  const allowed = await service.post([
    {
      id: 'c',
      op: 'update',
      ...ambiguous[0],
      where: { price: { lt: { $from: 'price' } } },
      returning: ['sku', 'qty'],
      expect: 1
    },
    op.delete('d', 'stock', { from: { table: 'copies', on }, answer: 'count' })
  ], dryRun)
  t.same(allowed.body.data, { c: [{ sku: 'apple', qty: 5 }], d: 2 })
})

t.test('a plan shows no name of a setting', async t => {
  const plan = await service.post([
    op.update('c', 'stock', { from: lines, set: { qty: { $inc: { $from: 'qty' } } } }),
    op.insert('i', 'copies', undefined, {
      from: { table: 'order_items' }, columns: { n: { $col: 'qty' } }
    })
  ], { headers: { Prefer: 'explain' } })
  t.match(plan.text, /order_items/)
  t.notMatch(plan.text, /oneflight\./)
})

t.test('mistakes are refused and change nothing', async t => {
  const update = { op: 'update', table: 'stock', from: lines, set: { qty: 1 } }
  const remove = { op: 'delete', table: 'stock', from: lines }
  const grouped = { table: 'order_items', on, columns: ['sku'], group_by: ['sku'] }
  const alone = { ...update, from: undefined, where: { sku: { eq: 'x' } } }
  const invalid: readonly InvalidOperation[] = [
    [{ ...update, all: true }, 'member_invalid all'],
    [{ ...update, where: {} }, 'where_empty where'],
    [{ ...remove, from: { ...lines, on: {} } }, 'member_invalid from.on'],
    [{ ...remove, from: { table: 'order_items' } }, 'member_missing from.on'],
    [{ ...remove, from: { table: 'sales.x', on } }, 'schema_forbidden from.table'],
    [{ ...update, from: { ...grouped, on: { sku: 'qty' } } }, 'member_invalid from.on.sku'],
    [{ ...update, from: grouped, set: { qty: { $from: 'qty' } } }, 'member_invalid set.qty.$from'],
    [{ ...update, set: { qty: { $from: 1 } } }, 'member_invalid set.qty.$from'],
    [{ ...update, set: { data: { $remove: { $from: 'sku' } } } },
      'member_invalid set.data.$remove'],
    [{ ...alone, set: { qty: { $from: 'qty' } } }, 'member_invalid set.qty.$from'],
    [{ ...remove, from: undefined, where: { qty: { gt: { $from: 'qty' } } } },
      'member_invalid where.qty.gt.$from'],
    [{ op: 'select', table: 'stock', from: lines }, 'member_invalid from']
  ]
  assertIssues(t, invalid)
  const failing: ReadonlyArray<readonly [operation: object, code: string, message: string]> = [
    [{ ...update, set: { qty: { $from: 'qyt' } } }, 'undefined_column', 'order_items" has no'],
    [{ ...update, where: { qyt: { eq: 1 } } }, 'undefined_column', 'stock" has no column'],
    [{ ...remove, from: { ...lines, on: { skuu: 'sku' } } }, 'undefined_column', 'stock" has no'],
    [{ ...remove, from: { table: 'hidden', on } }, 'insufficient_privilege', 'hidden'],
    [{ ...update, set: { qty: { $from: 'sku' } } }, 'datatype_mismatch', 'qty']
  ]
  for (const [operation, code, message] of failing) {
    const { body } = await service.post([first, { id: 'c', ...operation }])
    t.equal(body.error?.code, code, JSON.stringify(operation))
    t.ok(body.error?.message.includes(message), body.error?.message)
  }
  const [rows] = await sql`select count(*)::int as n, sum(qty)::int as qty from stock`
  t.same({ ...rows }, { n: 3, qty: 60 })
})

t.test('without from, a member $from of merged JSON is data', async t => {
  const { body } = await service.post([op.update('c', 'stock', {
    set: { data: { $merge: { $from: 'sku' } } }, where: { sku: { eq: 'pear' } }, returning: ['data']
  })])
  t.same(body.data, { c: [{ data: { $from: 'sku' } }] })
})
