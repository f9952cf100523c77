/**
 * `Prefer: explain` returns PostgreSQL's plan of each operation, planned for the role of the token.
 * Nothing is executed, and the plans do not show internals of the service.
 */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { codeBlocks } from '../support/docs/markdown.ts'
import { readLanguage } from '../support/docs/pages.ts'
import { ask, useService } from '../support/service.ts'

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
  create function total_of(id bigint) returns numeric language sql stable
    as 'select sum(total) from orders where customer_id = id';
  create function either(a int) returns text language sql as $$ select 'int' $$;
  create function either(a jsonb) returns text language sql as $$ select 'jsonb' $$;
  analyze;
  grant all on customers, orders, journal, many to oneflight_user;`

const batch = [
  { id: 'customer', op: 'select', table: 'customers', where: { id: { eq: 7 } } },
  {
    id: 'order',
    op: 'insert',
    table: 'orders',
    values: [{ customer_id: '$customer.0.id', total: 1 }]
  },
  {
    id: 'paid',
    op: 'update',
    table: 'orders',
    set: { total: { $inc: 1 } },
    where: { id: { eq: '$order.0.id' } }
  },
  {
    id: 'old',
    op: 'delete',
    table: 'orders',
    where: { customer_id: { in: '$customer.*.id' } },
    returning: []
  }
]
const prefer = 'explain'

const service = await useService(t, { schema, env: { EXPLAIN: 'on' }, keys: true })

/** Names and texts that a batch must not know. */
const SECRETS = /oneflight-[0-9a-f]{8}|oneflight\.[a-z]+_[0-9a-f]{8}/

/** Every node of a plan, outer nodes first. */
function nodesOf (plan: Record<string, unknown>): ReadonlyArray<Record<string, unknown>> {
  return [
    plan,
    ...((plan['Plans'] ?? []) as ReadonlyArray<Record<string, unknown>>).flatMap(nodesOf)
  ]
}

t.test('explain returns the plan of each operation and executes nothing', async t => {
  const { sql } = service.database
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
    [{ ...orders, where: { nothing: { eq: 1 } } }, { code: 'undefined_column', op: 's' }],
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
  const service = await useService(t, { schema })
  for (const header of [prefer, 'explain=""', 'handling=strict, explain', 'EXPLAIN']) {
    const { status, body } = await service.post(batch, { headers: { prefer: header } })
    t.match({ status, error: body.error }, {
      status: 400,
      error: { code: 'prefer_invalid', message: /EXPLAIN=off/, committed: false }
    }, header)
  }
  t.same(await service.database.sql`select count(*)::int as n from orders`, [{ n: 2000 }])
  const { status } = await service.post(batch.slice(0, 1), {
    headers: { prefer: 'explain=off, handling=strict' }
  })
  t.equal(status, 200)
})

t.test('every documented example has a plan without internals of the service', async t => {
  const blocks = codeBlocks(readLanguage())
  const [tables = '', rows = ''] = blocks
    .filter(({ language }) => language === 'sql')
    .map(({ text }) => text)
  const examples = blocks.filter(({ language, text }) =>
    language === 'json' && text.startsWith('[')
  ).map(({ text }) => text)
  t.ok(examples.length > 30)
  // More than 200 runs of rows with the same columns use another statement.
  const values = Array.from(
    { length: 201 },
    (_, i) => i % 2 === 0 ? { sku: `s${i}`, qty: i } : { sku: `s${i}` }
  )
  examples.push(JSON.stringify([{ id: 'i', op: 'insert', table: 'stock', values }]))
  const service = await useService(t, {
    schema: `${tables}; ${rows}; grant all on all tables in schema public to oneflight_user; -- ` +
      `${randomUUID()}`,
    env: { EXPLAIN: 'on' }
  })
  let explained = 0
  for (const example of examples) {
    const { status, text, body } = await service.post(example, { headers: { prefer } })
    t.ok(status < 500, `${status}: ${example.slice(0, 60)}`)
    t.notMatch(text, SECRETS)
    if (status !== 200) continue
    explained++
    for (const plan of Object.values(body.data as Record<string, ReadonlyArray<object>>)) {
      t.same(Object.keys(plan[0] as object), ['Plan'])
    }
  }
  t.ok(explained > 0.8 * examples.length, `${explained} of ${examples.length}`)
})

t.test('plans contain no secrets of the checks', async t => {
  const customer = { id: 'a', op: 'select', table: 'customers', limit: 2 }
  const row = { table: 'customers', on: { id: 'customer_id' }, one: true }
  const batches = [
    [{ id: 'o', op: 'select', table: 'orders', with: { customer: row } }],
    [{
      ...customer,
      with: { orders: { table: 'orders', on: { customer_id: 'id' }, with: { customer: row } } }
    }],
    [customer, { id: 'f', op: 'call', function: 'total_of', args: { id: '$a.0.id' } }],
    [customer, { id: 'e', op: 'call', function: 'either', args: { a: '$a.0.id' } }]
  ]
  for (const batch of batches) {
    // The types of parameters are read by the first request.
    for (const attempt of [1, 2]) {
      const { status, text } = await service.post(batch, { headers: { prefer } })
      t.equal(status, 200, `${attempt}: ${text}`)
      t.notMatch(text, SECRETS)
    }
  }
})
