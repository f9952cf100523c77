/**
 * Query plans as text: renderQueryPlan prints what EXPLAIN prints, without the steps of the
 * service.
 */
import t from 'tap'
import { renderQueryPlan } from '../../src/cli/query-plan.ts'
import { runInside } from '../support/process/cli.ts'
import { token, useService } from '../support/service.ts'

const schema = `
  create table customers (id int primary key, name text, data jsonb);
  create table orders (id int primary key, customer int references customers, total numeric);
  insert into customers select n, 'c' || n from generate_series(1, 2000) as n;
  insert into orders select n, 1 + n % 2000, n from generate_series(1, 20000) as n;
  create index on orders (customer);
  analyze customers, orders;
  create table "a ""b" (id int primary key, name text);
  create view paths as select current_setting('search_path') as path;
  grant all on customers, orders, paths to oneflight_user;`

const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })
const { sql } = service.database

/** A plan of the service has an outer Limit. */
const wrap = (plan: object): string =>
  JSON.stringify([{ Plan: { 'Node Type': 'Limit', Plans: [plan] } }])

const note = /^\(\d+ steps? to compute values or return rows not shown; see --json\)$/

t.test('a plan is printed as by EXPLAIN', async t => {
  const queries: ReadonlyArray<readonly [query: string, settings?: string]> = [
    ['select * from orders'],
    ['select * from customers as c where id = 7 and name like \'x%\''],
    ['select id from orders order by id desc limit 3'],
    ['select * from orders where customer in (7, 8)', 'enable_indexscan = off'],
    ['select * from customers as c join orders as o on o.customer = c.id where c.id < 4'],
    ['select * from customers as c join orders as o on o.customer = c.id'],
    ['select * from customers as c left join orders as o on o.customer = c.id and o.total > c.id'],
    ['select * from customers as c full join orders as o on o.id = c.id', 'enable_hashjoin = off'],
    ['select * from customers as c where not exists (select from orders where customer = c.id)'],
    ['select * from customers as c left join lateral (select * from orders where customer = c.id ' +
      'limit 1) as o on true'],
    ['select count(*) from orders'],
    ['select customer, sum(total) from orders group by customer having sum(total) > 3'],
    ['select customer, count(*) from orders group by customer', 'enable_hashagg = off'],
    ['select * from "a ""b" as "T" where "id" > 7 order by id'],
    ['select id, rank() over (partition by customer order by id) from orders'],
    ['select name, (select max(total) from orders where customer = c.id) from customers as c'],
    ['select * from orders where total > (select avg(total) from orders)'],
    ['with m as materialized (select * from orders) select * from m join customers as c ' +
      'on c.id = m.customer'],
    ['select * from orders, generate_series(1, 3) as g where g = orders.id'],
    ['select * from orders union all select id, id, id from customers'],
    ['select * from orders for update of orders'],
    ['insert into customers values (-1, \'x\')'],
    ['insert into customers (id) select id from orders on conflict (id) do update set ' +
      'name = excluded.name where customers.id > 3'],
    ['update customers set name = \'x\' where id < 4 returning *'],
    ['delete from orders using customers as c where c.id = customer'],
    ['select sum(total) from orders where total > 10', 'max_parallel_workers_per_gather = 2; ' +
      'set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0; ' +
      'set local min_parallel_table_scan_size = 0']
  ]
  for (const [query, settings = 'work_mem = \'4MB\''] of queries) {
    await sql.begin(async sql => {
      await sql.unsafe(`set local ${settings}`)
      const lines = await sql.unsafe(`explain ${query}`)
      const [row] = await sql.unsafe(`explain (format json) ${query}`)
      const [{ Plan: plan }] = row?.['QUERY PLAN'] as [{ Plan: object }]
      const text = (renderQueryPlan(wrap(plan)) as string).trimEnd().split('\n')
      t.match(text.pop(), note)
      t.same(text, lines.map(line => line['QUERY PLAN'] as string), query)
    })
  }
})

t.test('run --explain prints the plan of each operation on its table', async t => {
  const explain = async (args: readonly string[], batch: readonly object[]): Promise<string> => {
    const { code, out, err } = await runInside(['run', '--explain', ...args, '-'], {
      env: { ONEFLIGHT_URL: service.url, ONEFLIGHT_TOKEN: token({ role: 'oneflight_user' }) },
      input: JSON.stringify(batch)
    })
    t.same([code, err], [0, ''])
    return out.replaceAll(/ {2}\(cost=.*\)$/gm, '')
  }
  const batch = [
    { id: 'all', op: 'select', table: 'customers' },
    { id: 'some', op: 'select', table: 'customers', columns: ['name'], where: { id: { in: [1] } } },
    { id: 'read', op: 'select', table: 'customers', where: { id: { in: '$some.*.name' } } },
    { id: 'new', op: 'insert', table: 'customers', values: [{ id: -1 }, { name: '$all.0.name' }] },
    { id: 'set', op: 'update', table: 'customers', set: { data: {} }, where: { id: { eq: 7 } } },
    { id: 'del', op: 'delete', table: 'customers', where: { id: { eq: '$all.1.id' } } },
    { id: 'few', op: 'select', table: 'customers', order: [{ id: 'asc' }], limit: 1 },
    { id: 'path', op: 'select', table: 'paths' }
  ]
  const text = await explain(['--table'], batch)
  t.equal(
    // PostgreSQL 14 to 16 write $6 for (InitPlan 6).col1.
    text.replaceAll(/\$\d+|\(InitPlan \d+\)\.col1/g, '$n').replaceAll(/^\(\d+ steps?/gm, '(n steps'),
    `all: select customers
Seq Scan on customers t
(n steps to compute values or return rows not shown; see --json)

some: select customers
Index Scan using customers_pkey on customers t
  Index Cond: (id = ANY ('{1}'::integer[]))
(n steps to compute values or return rows not shown; see --json)

read: select customers
Index Scan using customers_pkey on customers t
  Index Cond: (id = ANY (ARRAY[$n]))
(n steps to compute values or return rows not shown; see --json)

new: insert customers
Insert on customers t
  ->  Result
Insert on customers t_1
  ->  Result
(n steps to compute values or return rows not shown; see --json)

set: update customers
Update on customers t
  ->  Index Scan using customers_pkey on customers t
        Index Cond: (id = 7)
(n steps to compute values or return rows not shown; see --json)

del: delete customers
Delete on customers t
  ->  Index Scan using customers_pkey on customers t
        Index Cond: (id = $n)
(n steps to compute values or return rows not shown; see --json)

few: select customers
Limit
  ->  Index Scan using customers_pkey on customers t
(n steps to compute values or return rows not shown; see --json)

path: select paths
Limit
  ->  Result
`
  )
  const json = await explain(['--json'], batch)
  t.same(Object.keys((JSON.parse(json) as { data: object }).data), batch.map(({ id }) => id))
})

t.test('members that are objects are left out', async t => {
  const [row] = await sql`explain (format json)
    select customer, total, count(*) from orders group by cube (customer, total)`
  t.match(
    renderQueryPlan(wrap((row?.['QUERY PLAN'] as [{ Plan: object }])[0].Plan)),
    /^MixedAggregate {2}\(.*\)\n {2}-> {2}Seq Scan on orders {2}/
  )
})

t.test('what is not a plan is not rendered', async t => {
  for (const json of ['[]', '[{"a": 1}]', '7', '[null]']) t.equal(renderQueryPlan(json), undefined)
})
