/**
 * `Prefer: explain` returns PostgreSQL's plan of each operation, planned for the role of the token.
 * Nothing is executed, and the plans do not show internals of the service. As text, a plan is what
 * EXPLAIN prints, without the steps of the service.
 */
import t from 'tap'
import { renderQueryPlan } from '../../src/cli/result.ts'
import * as op from '../support/operations.ts'
import { ask, useService, token } from '../support/service.ts'
import { on } from '../support/shorthand.ts'
import { runInside } from '../support/process/cli.ts'

const schema = `
  create table customers (id bigint generated always as identity primary key, name text not null,
    owner text not null default current_user);
  create table orders (id bigint generated always as identity primary key,
    customer_id bigint references customers, total numeric);
  create table journal (word text);
  create function note () returns trigger language plpgsql as $$ begin insert into journal
    values (tg_op); return new; end $$;
  create trigger note after insert or update or delete on orders
    for each row execute function note();
  alter table customers enable row level security;
  create policy own on customers using (owner = current_user);
  insert into customers (name, owner) select 'c' || n, 'oneflight_user' from generate_series(1,
    2000) as n;
  insert into orders (customer_id, total) select n, n from generate_series(1, 2000) as n;
  create table many (id int primary key, data jsonb);
  insert into many select i, jsonb_build_object('n', i, 'word', 'w' || i)
    from generate_series(1, 2000) as i;
  create index many_n on many ((data -> 'n'));
  create index many_word on many ((data ->> 'word'));
  create table people (id int primary key, name text, data jsonb);
  create table purchases (id int primary key, customer int references people, total numeric);
  insert into people select n, 'c' || n from generate_series(1, 2000) as n;
  insert into purchases select n, 1 + n % 2000, n from generate_series(1, 20000) as n;
  create index on purchases (customer);
  create table "a ""b" (id int primary key, name text);
  create view paths as select current_setting('search_path') as path;
  analyze;`

const batch = [
  op.select('customer', 'customers', { where: { id: { eq: 7 } } }),
  op.insert('order', 'orders', [{ customer_id: '$customer.0.id', total: 1 }]),
  op.update('paid', 'orders', {
    set: { total: { $inc: 1 } }, where: { id: { eq: '$order.0.id' } }
  }),
  op.delete('old', 'orders', {
    where: { customer_id: { in: '$customer.*.id' } }, returning: []
  })
]
const prefer = 'explain'

const service = await useService(t, { schema, env: { EXPLAIN: 'on' }, keys: true })
const { database } = service
const { sql } = database

/** Every node of a plan, outer nodes first. */
function nodesOf (plan: Record<string, unknown>): ReadonlyArray<Record<string, unknown>> {
  return [
    plan,
    ...((plan['Plans'] ?? []) as ReadonlyArray<Record<string, unknown>>).flatMap(nodesOf)
  ]
}

t.test('explain returns the plan of each operation and executes nothing', async t => {
  const state = async (): Promise<unknown> =>
    sql`select (select count(*) from orders) as orders, (select count(*) from journal)
      as journal, (select last_value from orders_id_seq) as id, (select count(*)
      from oneflight.idempotency_keys) as keys`
  const before = await state()
  const plansOf = async (headers: Readonly<Record<string, string>>) => {
    const { status, body, headers: received } = await service.post(batch, { headers })
    t.same({ status, applied: received.get('preference-applied') }, {
      status: 200,
      applied: headers['prefer']
    })
    t.same(Object.keys(body.data), ['customer', 'order', 'paid', 'old'])
    return Object.values(
      body.data as Record<string, ReadonlyArray<{ Plan: Record<string, unknown> }>>
    ).map(rows => {
      t.equal(rows.length, 1)
      return nodesOf((rows[0] as { Plan: Record<string, unknown> }).Plan)
    })
  }
  const [customer = [], order = [], paid = [], old = []] = await plansOf({ prefer })
  t.match(customer.find(node => node['Relation Name'] === 'customers'), {
    'Node Type': 'Index Scan',
    'Index Cond': /^\(id = '?7/,
    Filter: /owner/
  }, 'with the condition of the policy')
  t.match(order.find(node => node['Relation Name'] === 'orders'), {
    'Node Type': 'ModifyTable',
    Operation: 'Insert'
  })
  t.match(paid.find(node => String(node['Node Type']).startsWith('Index')), {
    'Index Name': 'orders_pkey'
  }, 'a reference uses the index')
  t.match(old.find(node => node['Relation Name'] === 'orders' && node['Operation'] === 'Delete'), {
    'Node Type': 'ModifyTable'
  })
  const preferences = ['access=read-only', 'return=minimal', 'isolation=serializable', 'tx=commit']
  for (const more of preferences) {
    await plansOf({ prefer: `${prefer}, ${more}`, 'idempotency-key': 'k' })
  }
  t.same(await state(), before, 'no rows, triggers, sequence values or idempotency keys')
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.notMatch(text, /^service_(txn|op)_count\{/m, 'a plan is not counted as a transaction')
})

t.test('the order by a JSON path uses the index on its expression', async t => {
  const cases: ReadonlyArray<readonly [select: object, index: string]> = [
    [{ columns: ['id'], order: [{ 'data->n': 'asc' }], limit: 1 }, 'many_n'],
    [{ columns: ['id', 'data->n'], order: [{ 'data->n': 'asc' }], limit: 1 }, 'many_n'],
    [{ columns: ['id', 'data->>word'], order: [{ 'data->>word': 'asc' }], limit: 1 }, 'many_word']
  ]
  for (const [select, index] of cases) {
    const batch = [{ id: 's', op: 'select', table: 'many', ...select }]
    const { body } = await service.post(batch, { headers: { prefer } })
    const nodes = nodesOf(body.data.s[0].Plan)
    t.ok(nodes.some(node => node['Index Name'] === index), JSON.stringify(select))
  }
})

t.test('a list of references uses the index of a table with policies', async t => {
  const found = { id: 'found', op: 'select', table: 'orders', where: { total: { lt: 9 } } }
  const operands = ['$found.*.customer_id', ['$found.0.customer_id', 4]]
  for (const operand of operands) {
    const read = { id: 'read', op: 'select', table: 'customers', where: { id: { in: operand } } }
    const { body } = await service.post([found, read], { headers: { prefer } })
    const [plan] = body.data['read'] as ReadonlyArray<{ readonly Plan: Record<string, unknown> }>
    const indexes = nodesOf(plan?.Plan ?? {}).map(node => node['Index Name'])
    t.ok(indexes.includes('customers_pkey'), `${JSON.stringify(operand)}: ${JSON.stringify(plan)}`)
  }
})

t.test('explain rejects what execution would reject', async t => {
  const orders = { id: 's', op: 'select', table: 'orders' }
  const rows: ReadonlyArray<readonly [operation: object, error: object]> = [
    [{ ...orders, where: { id: { eq: null } } }, { code: 'validation_failed' }],
    [{ ...orders, table: 'customers' }, { code: 'insufficient_privilege', op: 's', index: 0 }],
    [{ ...orders, table: 'nothing' }, { code: 'undefined_table', op: 's' }]
  ]
  for (const [operation, error] of rows) {
    const { body } = await service.post([operation], {
      role: 'oneflight_other',
      headers: { prefer }
    })
    t.match(body.error, { ...error, committed: false })
  }
  // The failed batch is retried, because a trigger could have changed search_path.
  const later = [orders, { ...orders, id: 'l', where: { id: { like: 'a' } } }]
  t.match((await service.post(later, { headers: { prefer } })).body, {
    error: { code: 'undefined_function', op: 'l', index: 1, committed: false }
  })
})

t.test('with EXPLAIN=off, explain is rejected and the batch is not executed', async t => {
  const service = await useService(t, on(database))
  for (const header of [prefer, 'explain=""', 'handling=strict, explain', 'EXPLAIN']) {
    const { status, body } = await service.post(batch, { headers: { prefer: header } })
    t.match({ status, error: body.error }, {
      status: 400,
      error: { code: 'prefer_invalid', message: /EXPLAIN=off/, committed: false }
    }, header)
  }
  t.same(await sql`select count(*)::int as n from orders`, [{ n: 2000 }])
  const { status } = await service.post(batch.slice(0, 1), {
    headers: { prefer: 'explain=off, handling=strict' }
  })
  t.equal(status, 200)
})

/** A plan of the service has an outer Limit. */
const wrap = (plan: object): string =>
  JSON.stringify([{ Plan: { 'Node Type': 'Limit', Plans: [plan] } }])

const note = /^\(\d+ steps? to compute values or return rows not shown; see --json\)$/

t.test('a plan is printed as by EXPLAIN', async t => {
  const queries: ReadonlyArray<readonly [query: string, settings?: string]> = [
    ['select * from people as c where id = 7 and name like \'x%\''],
    ['select id from purchases order by id desc limit 3'],
    ['select * from purchases where customer in (7, 8)', 'enable_indexscan = off'],
    ['select * from people as c join purchases as o on o.customer = c.id'],
    ['select * from people as c full join purchases as o on o.id = c.id', 'enable_hashjoin = off'],
    ['select customer, sum(total) from purchases group by customer having sum(total) > 3'],
    ['select customer, count(*) from purchases group by customer', 'enable_hashagg = off'],
    ['select * from "a ""b" as "T" where "id" > 7 order by id'],
    ['select name, (select max(total) from purchases where customer = c.id) from people as c'],
    ['with m as materialized (select * from purchases) select * from m join people as c ' +
      'on c.id = m.customer'],
    ['select * from purchases, generate_series(1, 3) as g where g = purchases.id'],
    ['insert into people (id) select id from purchases on conflict (id) do update set ' +
      'name = excluded.name where people.id > 3'],
    ['select sum(total) from purchases where total > 10', 'max_parallel_workers_per_gather = 2; ' +
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
    { id: 'all', op: 'select', table: 'people' },
    { id: 'new', op: 'insert', table: 'people', values: [{ id: -1 }, { name: '$all.0.name' }] },
    { id: 'del', op: 'delete', table: 'people', where: { id: { eq: '$all.1.id' } } },
    { id: 'few', op: 'select', table: 'people', order: [{ id: 'asc' }], limit: 1 },
    { id: 'path', op: 'select', table: 'paths' }
  ]
  const text = await explain(['--table'], batch)
  t.equal(
    // PostgreSQL 14 to 16 write $6 for (InitPlan 6).col1.
    text.replaceAll(/\$\d+|\(InitPlan \d+\)\.col1/g, '$n')
      .replaceAll(/^\(\d+ steps?/gm, '(n steps'),
    `all: select people
Seq Scan on people t
(n steps to compute values or return rows not shown; see --json)

new: insert people
Insert on people t
  ->  Result
Insert on people t_1
  ->  Result
(n steps to compute values or return rows not shown; see --json)

del: delete people
Delete on people t
  ->  Index Scan using people_pkey on people t
        Index Cond: (id = $n)
(n steps to compute values or return rows not shown; see --json)

few: select people
Limit
  ->  Index Scan using people_pkey on people t
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
    select customer, total, count(*) from purchases group by cube (customer, total)`
  t.match(
    renderQueryPlan(wrap((row?.['QUERY PLAN'] as [{ Plan: object }])[0].Plan)),
    /^MixedAggregate {2}\(.*\)\n {2}-> {2}Seq Scan on purchases {2}/
  )
})

t.test('what is not a plan is not rendered', async t => {
  for (const json of ['[]', '[{"a": 1}]', '7', '[null]']) t.equal(renderQueryPlan(json), undefined)
})
