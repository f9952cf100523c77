/**
 * Tests that `exists` and `not_exists` match the same rows as the same condition in SQL, in every
 * place of a filter, that `in` with an empty array matches no row, and that a
 * mistake never widens a filter.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { ids } from '../support/database/same-rows.ts'
import { assertIssues, issuesOf } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create schema sales;
  create table customers (id int primary key, name text not null, region text);
  create table orders (id int primary key, customer_id int references customers, region text,
    status text not null, data jsonb);
  create table lines (order_id int references orders, sku text, qty numeric,
    primary key (order_id, sku));
  create table sales.visits (customer_id int, at timestamptz);
  create domain sku as text;
  create table parts (sku sku primary key, tags text[]);
  insert into customers values (1, 'a', 'n'), (2, 'b', 's'), (3, 'c', null), (4, 'd', 'n');
  insert into orders values (1, 1, 'n', 'paid', '{"k": 1}'), (2, 1, 's', 'open', null),
    (3, 2, 's', 'open', '{"k": 2}'), (4, 3, null, 'paid', null);
  insert into lines values (1, 'apple', 2), (1, 'pear', 5), (3, 'apple', 7.50), (4, 'fig', 1);
  insert into parts values ('apple', '{red,round}'), ('fig', '{}');
  create table hidden (customer_id int);
  alter table hidden enable row level security;
  create policy odd on hidden using (customer_id % 2 = 1);
  insert into hidden values (1), (2), (3);
  create table secret (customer_id int);
  grant all on customers, orders, lines, parts, hidden to oneflight_user;
  create domain positive as int check (value > 0);
  create type mood as enum ('calm', 'wild');
  create table items (id int primary key, name text, price numeric, p positive, m mood,
    data jsonb);
  insert into items values (1, 'a', 1.50, 1, 'calm', '{"k": 1}'), (2, null, null, null, null, null);
  grant all on items to oneflight_user;
`

/** Filters of customers, each with its condition. */
const filters: ReadonlyArray<readonly [where: object, condition: string]> = [
  [{ exists: { table: 'orders', on: { customer_id: 'id' } } },
    'exists (select from orders o where o.customer_id = t.id)'],
  [{ not_exists: { table: 'orders', on: { customer_id: 'id' }, where: {} } },
    'not exists (select from orders o where o.customer_id = t.id)'],
  [
    {
      exists: {
        table: 'public.orders',
        on: { customer_id: 'id', region: 'region' },
        where: { status: { eq: 'open' } }
      }
    },
    `exists (select from orders o where o.customer_id = t.id and o.region = t.region
      and o.status = 'open')`
  ],
  [
    {
      name: { neq: 'd' },
      not: {
        exists: {
          table: 'orders',
          on: { customer_id: 'id' },
          where: {
            or: [{ status: { eq: 'paid' } }, { 'data->k': { eq: 2 } }],
            exists: {
              table: 'lines', on: { order_id: 'id' }, where: { qty: { gt: 2 }, sku: { like: 'a%' } }
            }
          }
        }
      }
    },
    `name <> 'd' and not exists (select from orders o where o.customer_id = t.id
      and (o.status = 'paid' or o.data -> 'k' = '2')
      and exists (select from lines l where l.order_id = o.id and l.qty > 2 and l.sku like 'a%'))`
  ],
  [
    {
      or: [
        { exists: { table: 'hidden', on: { customer_id: 'id' } } },
        { not_exists: { table: 'customers', on: { region: 'region' }, where: { id: { gt: 3 } } } }
      ]
    },
    `t.id % 2 = 1 and t.id < 4
      or not exists (select from customers c where c.region = t.region and c.id > 3)`
  ],
  [
    {
      exists: {
        table: 'orders',
        on: { customer_id: 'id' },
        where: { region: { isdistinct: { $col: 'status' } }, 'data->>k': { in: ['1', '9'] } }
      }
    },
    `exists (select from orders o where o.customer_id = t.id and o.region is distinct from o.status
      and o.data ->> 'k' in ('1', '9'))`
  ],
  [{
    exists: { table: 'orders', on: { customer_id: 'id' }, where: { id: { in: '$some.*.id' } } },
    id: { lt: '$some.1.id' }
  }, 'exists (select from orders o where o.customer_id = t.id and o.id in (1, 3)) and t.id < 3'],
  [
    {
      exists: {
        table: 'orders',
        on: { customer_id: 'id' },
        where: {
          exists: {
            table: 'lines',
            on: { order_id: 'id' },
            where: {
              exists: { table: 'parts', on: { sku: 'sku' }, where: { sku: { eq: 'apple' } } }
            }
          }
        }
      }
    },
    `exists (select from orders o join lines l on l.order_id = o.id join parts p on p.sku = l.sku
      where o.customer_id = t.id and p.sku = 'apple')`
  ]
]
const some = op.select('some', 'orders', { where: { id: { in: [1, 3] } }, order: [{ id: 'asc' }] })

const service = await useService(t, { schema })

t.test('exists matches the rows of the same condition in SQL', async t => {
  for (const [where, condition] of filters) {
    const expected = ids(
      await service.database.sql.unsafe<Array<{ id: number }>>(
        `select id from customers as t where ${condition}`
      )
    )
    const name = encodeURI(condition)
    t.ok(expected.length > 0 && expected.length < 4, `${name} matches some rows but not all`)
    const { body, text } = await service.post([
      some,
      op.select('s', 'customers', { where }),
      op.update('u', 'customers', { set: { name: { $col: 'name' } }, where })
    ])
    t.equal(body.error, null, text)
    t.same(ids(body.data['s']), expected, name)
    t.same(ids(body.data['u']), expected, `${name}, update`)
  }
})

t.test('a filter of an upsert can look into another table', async t => {
  const upsert = (status: string): object => op.insert(
    'i', 'customers',
    [{ id: 1, name: 'new' }, { id: 4, name: 'new' }],
    {
      on_conflict: {
        columns: ['id'],
        do: 'update',
        set: { name: { $excluded: 'name' } },
        where: {
          exists: { table: 'orders', on: { customer_id: 'id' }, where: { status: { eq: status } } }
        }
      },
      returning: ['id', 'name']
    }
  )
  for (const [status, rows] of [['paid', [{ id: 1, name: 'new' }]], ['lost', []]] as const) {
    const { body } = await service.post([upsert(status)], { headers: { prefer: 'tx=rollback' } })
    t.same(body.data, { i: rows })
  }
})

t.test('policies and privileges of the other table apply', async t => {
  const select = (table: string): object =>
    op.select('s', 'customers', { where: { exists: { table, on: { customer_id: 'id' } } } })
  const { body } = await service.post([select('hidden')])
  t.same(ids(body.data['s']), [1, 3], 'rows that the policy hides do not count')
  const refused = await service.post([select('secret')])
  t.equal(refused.status, 403)
  t.equal(refused.body.error?.code, 'insufficient_privilege')
})

t.test('mistakes are refused and change nothing', async t => {
  const on = { customer_id: 'id' }
  const table = 'orders'
  const deep = (levels: number): object =>
    levels === 0 ? {} : { exists: { table, on: { id: 'id' }, where: deep(levels - 1) } }
  const invalid: ReadonlyArray<readonly [exists: unknown, issue: string]> = [
    [{ table }, 'member_missing where.exists.on'],
    [{ on }, 'member_missing where.exists.table'],
    [{ table, on: {} }, 'operand_invalid where.exists.on'],
    [{ table, on: { customer_id: 5 } }, 'operand_invalid where.exists.on.customer_id'],
    [{ table, on: { '': 'id' } }, 'member_invalid where.exists.on[""]'],
    [{ table, on: { id: 'x'.repeat(64) } }, 'operand_invalid where.exists.on.id'],
    [{ table, on, wher: {} }, 'member_unknown where.exists.wher'],
    [{ table, on, where: { id: {} } }, 'where_empty where.exists.where.id'],
    [{ table, on, where: { and: [] } }, 'where_empty where.exists.where.and'],
    [{ table, on, where: { id: { equals: 1 } } }, 'operator_unknown where.exists.where.id.equals'],
    [{ table: 'sales.visits', on }, 'schema_forbidden where.exists.table'],
    [{ table: 'a.b.c', on }, 'table_invalid where.exists.table'],
    [[], 'operand_invalid where.exists'],
    ['orders', 'operand_invalid where.exists'],
    [
      { table, on: { id: 'id' }, where: deep(10) },
      `depth_exceeded where.exists${'.where.exists'.repeat(10)}`
    ]
  ]
  assertIssues(t, invalid.map(([exists, issue]) =>
    [{ op: 'delete', table: 'lines', where: { exists } }, issue]
  ))
  const failing: ReadonlyArray<readonly [exists: object, message: string]> = [
    [{ table, on: { id: 'ordr_id' } }, 'Table "lines" has no column "ordr_id".'],
    [{ table, on: { id: 'order_id' }, where: { nope: { eq: 1 } } },
      'Table "orders" has no column "nope".']
  ]
  for (const [exists, message] of failing) {
    const { body } = await service.post([op.delete('d', 'lines', { where: { exists } })])
    t.match(body.error, { code: 'undefined_column', message })
  }
  t.equal((await service.database.sql`select from lines`).length, 4)
})

t.test('conditions of other tables count to the limit of conditions', async t => {
  const condition = (where: object): object =>
    ({ exists: { table: 'orders', on: { customer_id: 'id' }, where } })
  const check = (where: object): string[] =>
    issuesOf([op.select('s', 'customers', { where })], { conditions: '3' })
  const two = { id: { gt: 0, lt: 9 } }
  t.same(check(condition(two)), [])
  t.same(check(condition({ ...two, ...condition({}) })), ['member_invalid where'])
})

t.test('an empty list inside not_exists does not match every row', async t => {
  const where = (word: string): object => ({
    [word]: { table: 'orders', on: { customer_id: 'id' }, where: { id: { in: '$none.*.id' } } }
  })
  const none = op.select('none', 'orders', { where: { id: { eq: 0 } } })
  const found = await service.post([none, op.select('s', 'customers', { where: where('exists') })])
  t.same(found.body.data['s'], [])
  const refused = await service.post(
    [none, op.delete('d', 'customers', { where: where('not_exists') })]
  )
  t.equal(refused.status, 422)
  t.equal(refused.body.error?.code, 'reference_row_missing')
})

const table = 'items'
const on = { id: 'id' }

t.test('an empty list matches no row', async t => {
  for (const column of ['id', 'name', 'price', 'p', 'm', 'data', 'data->k', 'data->>k']) {
    const none = { [column]: { in: [] } }
    const other = { or: [none, { id: { in: [2] } }] }
    const select = (id: string, where: object): object =>
      ({ id, op: 'select', table, where, columns: ['id'] })
    const batch = [
      select('none', none),
      select('other', other),
      select('twice', { not: { [column]: { not: { in: [] } } } }),
      select('inner', { exists: { table, on, where: none } }),
      { id: 'd', op: 'delete', table, where: none },
      { id: 'u', op: 'update', table, set: { name: 'x' }, where: other, returning: ['id'] }
    ]
    const expected = [[], [{ id: 2 }], [], [], [], [{ id: 2 }]]
    const { body, text } = await service.post(batch, { headers: { prefer: 'tx=rollback' } })
    t.same(Object.values(body.data ?? {}), expected, `${column}: ${text}`)
  }
})

t.test('an empty list that would match every row is refused', async t => {
  const refused: ReadonlyArray<readonly [where: object, path: string]> = [
    [{ id: { nin: [] } }, 'id.nin'],
    [{ id: { not: { nin: [] } } }, 'id.not.nin'],
    [{ id: { not: { in: [] } } }, 'id.not.in'],
    [{ not: { id: { in: [] } } }, 'not.id.in'],
    [{ not: { not: { id: { not: { in: [] } } } } }, 'not.not.id.not.in'],
    [{ not_exists: { table, on, where: { id: { in: [] } } } }, 'not_exists.where.id.in'],
    [{ not: { exists: { table, on, where: { id: { in: [] } } } } }, 'not.exists.where.id.in']
  ]
  assertIssues(t, refused.map(([where, path]) =>
    [{ op: 'delete', table, where }, `operand_invalid where.${path}`]
  ))
  const where = { not_exists: { table, on, where: { not: { id: { in: [] } } } } }
  const { body } = await service.post([{ id: 's', op: 'select', table, where }])
  t.same(body.data, { s: [] }, 'an even number of not')
})
