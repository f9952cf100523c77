/**
 * Tests nested reads (`with`): the same rows as hand-written SQL, their limits, that policies and
 * privileges apply, also to `exists`, and that mistakes are refused.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { assertIssues } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create table customers (id int primary key, name text, region text);
  create table orders (id int primary key, customer_id int, region text, status text not null,
    data jsonb);
  create table lines (order_id int, sku text, qty numeric, primary key (order_id, sku));
  create domain sku as text;
  create table parts (sku sku primary key, tags text[], n0 int default 5, n1 int, row text);
  create function halves(lines) returns setof numeric language sql stable as
    'select $1.qty / n from generate_series(1, 2) as n';
  create function reversed(parts) returns text language sql stable as 'select reverse($1.sku)';
  insert into customers values (1, 'a', 'n'), (2, 'b', 's'), (3, 'c', null), (4, 'd', 'n');
  insert into orders values (1, 1, 'n', 'paid', '{"k": 1.10}'), (2, 1, 's', 'open', 'null'),
    (3, 2, 's', 'open', '{"k": 2}'), (4, 3, null, 'paid', null), (5, null, null, 'open', null);
  insert into lines values (1, 'apple', 2), (1, 'pear', 5.00), (3, 'apple', 7.50), (4, 'fig', 1);
  insert into parts values ('apple', '{red,round}'), ('fig', '{}');
  create table hidden (customer_id int, note text);
  alter table hidden enable row level security;
  create policy odd on hidden using (customer_id % 2 = 1);
  insert into hidden values (1, 'x'), (2, 'y');
  create table some_columns (customer_id int, open text, closed text);
  insert into some_columns values (1, 'seen', 'unseen');
  create table closed (customer_id int);
  grant all on customers, orders, lines, parts, hidden to oneflight_user;
  grant select (customer_id, open) on some_columns to oneflight_user;
`
/** Selects of a table, each with the rows that it returns, as SQL. */
const selects: ReadonlyArray<readonly [select: object, query: string]> = [
  [
    {
      table: 'customers',
      order: [{ id: 'asc' }],
      with: { orders: { table: 'orders', on: { customer_id: 'id' }, order: [{ id: 'desc' }] } }
    },
    `select c.*, (select coalesce(json_agg(o order by o.id desc), '[]') from orders o
      where o.customer_id = c.id) as orders from customers c order by c.id`
  ],
  [
    {
      table: 'orders',
      columns: ['id', { column: 'data->k', as: 'k' }],
      where: { status: { eq: 'paid' } },
      order: [{ region: 'desc' }],
      limit: 1,
      offset: 1,
      with: {
        customer: { table: 'customers', on: { id: 'customer_id' }, one: true, columns: ['name'] },
        lines: { table: 'lines', on: { order_id: 'id' }, where: { qty: { gt: 2 } } }
      }
    },
    `select o.id, o.data -> 'k' as k, (select json_build_object('name', c.name) from customers c
        where c.id = o.customer_id) as customer, (select coalesce(json_agg(l), '[]')
        from lines l where l.order_id = o.id and l.qty > 2) as lines
      from orders o where status = 'paid' order by region desc limit 1 offset 1`
  ],
  [
    {
      table: 'customers',
      columns: [{ column: 'name', as: 'n0' }, { column: 'region', as: 'n1' }],
      order: [{ id: 'asc' }],
      with: {
        same: {
          table: 'customers',
          on: { region: 'region' },
          columns: ['id'],
          order: [{ id: 'asc' }],
          with: {
            orders: {
              table: 'orders',
              on: { customer_id: 'id', region: 'region' },
              columns: ['id'],
              with: {
                lines: {
                  table: 'lines',
                  on: { order_id: 'id' },
                  order: [{ sku: 'asc' }],
                  limit: 1,
                  with: { part: { table: 'parts', on: { sku: 'sku' }, one: true } }
                }
              }
            }
          }
        }
      }
    },
    `select c.name as n0, c.region as n1, (select coalesce(json_agg(s order by s.id), '[]')
      from (select d.id, (select coalesce(json_agg(q), '[]') from (select o.id,
        (select coalesce(json_agg(m), '[]') from (select l.*, (select to_json(p) from parts p
          where p.sku = l.sku) as part from lines l where l.order_id = o.id order by l.sku limit 1)
          as m) as lines from orders o where o.customer_id = d.id and o.region = d.region) as q)
        as orders from customers d where d.region = c.region) as s) as same
      from customers c order by c.id`
  ],
  [
    {
      table: 'parts',
      order: [{ sku: 'asc' }],
      with: {
        lines: {
          table: 'lines',
          on: { sku: 'sku' },
          columns: ['*', { column: 'qty', as: 'n' }],
          order: [{ qty: 'desc' }],
          offset: 1
        }
      }
    },
    `select p.*, (select coalesce(json_agg(l), '[]') from (select *, qty as n from lines
      where lines.sku = p.sku order by qty desc offset 1) as l) as lines from parts p order by sku`
  ],
  [
    {
      table: 'parts',
      columns: ['sku'],
      order: [{ sku: 'asc' }],
      with: {
        lines: {
          table: 'lines',
          on: { sku: 'sku' },
          columns: ['halves'],
          order: [{ halves: 'desc' }]
        }
      }
    },
    `select sku, (select coalesce(json_agg(h order by h.halves desc), '[]') from
      (select halves(l) from lines l where l.sku = p.sku) as h) as lines from parts p order by sku`
  ],
  [
    {
      table: 'parts',
      order: [{ reversed: 'desc' }],
      with: { lines: { table: 'lines', on: { sku: 'sku' }, order: [{ qty: 'asc' }] } }
    },
    `select p.*, (select coalesce(json_agg(l order by qty), '[]') from lines l
      where l.sku = p.sku) as lines from parts p order by reverse(sku) desc`
  ]
]

const service = await useService(t, { schema })

t.test('nested rows are those of hand-written SQL', async t => {
  for (const [select, query] of selects) {
    const rows = await op.renderRows(service.database.sql, query)
    const { body, text } = await service.post([{ id: 's', op: 'select', ...select }])
    t.same(body.data?.['s'], JSON.parse(rows), encodeURI(`${query}: ${text}`))
  }
})

const jsonNull = differsOneByOne('the JSON null of an earlier row is NULL')
t.test('digits, the JSON null and nested members as references are kept', jsonNull, async t => {
  const { body, text } = await service.post([
    op.select('s', 'customers', {
      where: { id: { eq: 1 } },
      with: { orders: { table: 'orders', on: { customer_id: 'id' }, order: [{ id: 'asc' }] } }
    }),
    op.update('u', 'orders', {
      set: { data: '$s.0.orders', status: '$s.0.name' }, where: { id: { eq: 5 } }
    }),
    op.select('n', 'orders', {
      columns: ['data'],
      where: { id: { eq: 2 } },
      with: { lines: { table: 'lines', on: { order_id: 'id' } } }
    }),
    op.update('v', 'orders', { set: { data: '$n.0.data' }, where: { id: { eq: 4 } } })
  ])
  t.equal(body.error, null, text)
  t.match(text, /"k":\s*1\.10/)
  const [row] = await service.database.sql`select data::text as data, status from orders
    where id = 5`
  t.match(row, { data: /"k": 1\.10/, status: 'a' })
  const [json] = await service.database.sql`select data::text as data from orders where id = 4`
  t.equal(json?.['data'], 'null')
})

t.test('policies and privileges of each table apply', async t => {
  const select = (table: string, members: object = {}): readonly object[] => [
    op.select('s', 'customers', {
      columns: ['id'],
      where: { id: { lt: 3 } },
      order: [{ id: 'asc' }],
      with: { more: { table, on: { customer_id: 'id' }, ...members } }
    })
  ]
  const hidden = await service.post(select('hidden', { columns: ['note'] }))
  t.same(hidden.body.data?.['s'], [{ id: 1, more: [{ note: 'x' }] }, { id: 2, more: [] }])
  const some = await service.post(select('some_columns', { columns: ['open'], one: true }))
  t.same(some.body.data?.['s'], [{ id: 1, more: { open: 'seen' } }, { id: 2, more: null }])
  const refused = await service.post(select('some_columns'))
  t.match(refused.body.error, { code: 'insufficient_privilege' })
  const exists = (on: object, table = 'hidden'): ReturnType<typeof service.post> => {
    const where = { exists: { table, on } }
    return service.post([op.select('s', 'customers', { columns: ['id'], where })])
  }
  const on = { customer_id: 'id' }
  t.same((await exists(on)).body.data?.['s'], [{ id: 1 }], 'rows that the policy hides')
  t.match((await exists(on, 'closed')).body.error, { code: 'insufficient_privilege' })
  t.match((await exists({ customer_id: 'idd' })).body.error, {
    code: 'undefined_column', message: 'Table "customers" has no column "idd".'
  })
})

const countedLater = differsOneByOne('they are counted after they are read')
t.test('the rows of all levels count to MAX_ROWS', countedLater, async t => {
  const service = await useService(t, {
    schema: `
      create table numbers (n int primary key, one int default 1);
      insert into numbers select generate_series(1, 400);
      create view endless as with recursive r (n) as (select 1 union all select n + 1 from r)
        select n, 1 as one from r;
    `,
    env: { MAX_ROWS: '500' }
  })
  const all = { table: 'numbers', on: { one: 'one' } }
  const post = (where: object, nested: object): ReturnType<typeof service.post> =>
    service.post([op.select('s', 'numbers', { where, with: { nested } })])
  const accepted = await post({ n: { eq: 1 } }, all)
  t.match(accepted.body.data?.['s'], [{ nested: { length: 400 } }])
  t.equal((await post({ n: { lte: 250 } }, { ...all, limit: 1 })).status, 200)
  t.match((await post({ n: { lte: 251 } }, { ...all, limit: 1 })).body.error, {
    code: 'rows_limit', op: 's'
  })
  t.match((await post({ n: { lte: 2 } }, all)).body.error, { code: 'rows_limit' })
  const endless = await post({ n: { eq: 1 } }, { ...all, table: 'endless' })
  t.match(endless.body.error, { code: 'rows_limit' }, 'no more rows are read than allowed')
  // 400 ** 6 rows, unless the count stops them.
  const deep = (level: number): object =>
    level === 0 ? all : { ...all, with: { deeper: deep(level - 1) } }
  t.match((await post({}, deep(4))).body.error, { code: 'rows_limit' })
})

t.test('mistakes are refused', async t => {
  const table = 'orders'
  const on = { customer_id: 'id' }
  const deep = (level: number): object =>
    level === 0 ? {} : { with: { next: { table, on: { id: 'id' }, ...deep(level - 1) } } }
  const reads = (count: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`r${i}`, { table, on }]))
  const invalid: ReadonlyArray<readonly [members: object, ...issues: string[]]> = [
    [{ with: {} }, 'member_invalid with'],
    [{ with: { a: { table } } }, 'member_missing with.a.on'],
    [{ with: { a: { table, on, columns: [{ fn: 'count' }] } } },
      'member_missing with.a.columns[0].column', 'member_unknown with.a.columns[0].fn'],
    [{ columns: ['name'], with: { name: { table, on } } }, 'member_invalid with.name'],
    [{ lock: 'update', with: { a: { table, on } } }, 'member_invalid with'],
    [{ columns: ['id'], group_by: ['id'], with: { a: { table, on } } }, 'member_invalid with'],
    [{ columns: [{ fn: 'count' }], with: { a: { table, on } } }, 'member_invalid with'],
    [{ columns: ['*', { column: 'id', as: 'n' }], with: { a: { table, on } } },
      'member_invalid with'],
    [{ with: { a: { table, on, with: reads(50) }, ...reads(50) } }, 'member_invalid with'],
    [deep(6), `depth_exceeded with${'.next.with'.repeat(5)}`]
  ]
  assertIssues(t, invalid.map(([members, ...issues]) =>
    [{ op: 'select', table: 'customers', ...members }, ...issues]
  ))
  for (const most of [deep(5), { with: reads(100) }]) {
    const { status } = await service.post([op.select('s', 'customers', { limit: 1, ...most })])
    t.equal(status, 200)
  }
  const refused: ReadonlyArray<
    readonly [nested: object, error: Readonly<Record<string, unknown>>]
  > = [
    [{ a: { table, on, one: true } }, {
      code: 'rows_ambiguous',
      message: 'A member with "one" has several rows. Remove "one", or choose a row by ' +
        '"order" and "limit": 1.'
    }],
    [{ name: { table, on } }, { code: 'ambiguous_column' }],
    [{ a: { table, on: { customer_id: 'nope' } } }, {
      code: 'undefined_column', message: 'Table "customers" has no column "nope".'
    }],
    [{ a: { table, on: { status: 'id' } } }, { code: 'undefined_function' }]
  ]
  for (const [nested, error] of refused) {
    const { body } = await service.post([op.select('s', 'customers', { with: nested })])
    t.match(body.error, error, JSON.stringify(nested))
  }
  const first = await service.post([op.select('s', 'customers', {
    where: { id: { eq: 1 } },
    with: { a: { table, on, one: true, order: [{ id: 'desc' }], limit: 1, columns: ['id'] } }
  })])
  t.match(first.body.data?.['s'], [{ a: { id: 2 } }])
  const read = op.select('s', 'customers', { with: { a: { table, on } } })
  const reader = op.select('r', 'customers', { where: { id: { eq: '$s.0.nope' } } })
  const json = op.update('r', 'orders', { set: { data: '$s.0.nope' }, where: { id: { eq: 1 } } })
  for (const operation of [reader, json]) {
    const { body } = await service.post([read, operation])
    t.match(body.error, { code: 'reference_column_missing', op: 'r' })
  }
})
