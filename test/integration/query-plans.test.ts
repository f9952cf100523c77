/**
 * `Prefer: explain`: PostgreSQL's plan of each operation, as the role would have it; nothing is
 * run, and nothing of the service's own is shown.
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
  analyze;
  grant all on customers, orders, journal to oneflight_user;`

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

/** Every node of a plan, from the outside in. */
function nodesOf (plan: Record<string, unknown>): ReadonlyArray<Record<string, unknown>> {
  return [
    plan,
    ...((plan['Plans'] ?? []) as ReadonlyArray<Record<string, unknown>>).flatMap(nodesOf)
  ]
}

t.test('the plan of each operation, and nothing is run', async t => {
  const service = await useService(t, { schema, env: { EXPLAIN: 'on' }, keys: true })
  const { sql } = service.database
  const state = async (): Promise<unknown> =>
    sql`select (select count(*) from orders) as orders, (select count(*) from journal)
      as journal, (select last_value from orders_id_seq) as id, (select count(*)
      from oneflight.idempotency_keys) as keys`
  const before = await state()
  const plansOf = async (headers: Readonly<Record<string, string>>) => {
    const { status, body, headers: answered } = await service.post(batch, { headers })
    t.same({ status, applied: answered.get('preference-applied') }, {
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
  }, 'a reference is looked up by the index')
  t.match(old.find(node => node['Relation Name'] === 'orders' && node['Operation'] === 'Delete'), {
    'Node Type': 'ModifyTable'
  })
  for (
    const more of [
      ', access=read-only',
      ', return=minimal',
      ', isolation=serializable',
      ', tx=commit'
    ]
  ) await plansOf({ prefer: prefer + more, 'idempotency-key': 'k' })
  t.same(await state(), before, 'no row, no trigger, no value of a sequence, no key')
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.notMatch(text, /^service_(txn|op)_count\{/m, 'what is not run is not counted')
})

t.test('a path finds the index on its expression, in conditions and for the order', async t => {
  const { post } = await useService(t, {
    schema: `
      create table many (id int primary key, data jsonb);
      insert into many select i, jsonb_build_object('n', i, 'word', 'w' || i)
        from generate_series(1, 2000) as i;
      create index many_n on many ((data -> 'n'));
      create index many_word on many ((data ->> 'word'));
      analyze many;
      grant select on many to oneflight_user`,
    env: { EXPLAIN: 'on' }
  })
  const cases: ReadonlyArray<readonly [select: object, index: string]> = [
    [{ columns: ['id'], where: { 'data->n': { eq: 7 } } }, 'many_n'],
    [{ columns: ['id'], where: { 'data->>word': { in: ['w7', 'w8'] } } }, 'many_word'],
    [{ columns: ['id'], order: [{ 'data->n': 'asc' }], limit: 1 }, 'many_n'],
    [{ columns: ['id', 'data->n'], order: [{ 'data->n': 'asc' }], limit: 1 }, 'many_n'],
    [{ columns: ['id', 'data->>word'], order: [{ 'data->>word': 'asc' }], limit: 1 }, 'many_word']
  ]
  for (const [select, index] of cases) {
    const batch = [{ id: 's', op: 'select', table: 'many', ...select }]
    const { body } = await post(batch, { headers: { prefer } })
    const nodes = nodesOf(body.data.s[0].Plan)
    t.ok(nodes.some(node => node['Index Name'] === index), JSON.stringify(select))
  }
})

t.test('what would be refused is refused', async t => {
  const service = await useService(t, { schema, env: { EXPLAIN: 'on', MAX_ROWS: '10' } })
  const rows: ReadonlyArray<readonly [string, object, object]> = [
    ['for the grammar', { id: 's', op: 'select', table: 'orders', where: { id: { eq: null } } }, {
      code: 'validation_failed'
    }],
    ['for a privilege', { id: 's', op: 'select', table: 'customers' }, {
      code: 'insufficient_privilege',
      op: 's',
      index: 0
    }],
    ['for a column', { id: 's', op: 'select', table: 'orders', where: { nothing: { eq: 1 } } }, {
      code: 'undefined_column',
      op: 's'
    }],
    ['for a table', { id: 's', op: 'select', table: 'nothing' }, {
      code: 'undefined_table',
      op: 's'
    }]
  ]
  for (const [name, operation, error] of rows) {
    const { body } = await service.post([operation], {
      role: 'oneflight_other',
      headers: { prefer }
    })
    t.match(body.error, { ...error, committed: false }, name)
  }
  // The plans are asked for once more, because a trigger could have changed search_path.
  const later = [
    { id: 's', op: 'select', table: 'orders' },
    { id: 'l', op: 'select', table: 'orders', where: { id: { like: 'a' } } }
  ]
  t.match((await service.post(later, { headers: { prefer } })).body, {
    error: { code: 'undefined_function', op: 'l', index: 1, committed: false }
  })
})

t.test('off, it is refused and never run instead', async t => {
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

t.test("every example of the language has a plan with nothing of the service's own", async t => {
  const blocks = codeBlocks(readLanguage())
  const [tables = '', rows = ''] = blocks.filter(({ language }) => language === 'sql').map((
    { text }
  ) => text)
  const examples = blocks.filter(({ language, text }) =>
    language === 'json' && text.startsWith('[')
  ).map(({ text }) => text)
  t.ok(examples.length > 30)
  // Groups that are merged are inserted in another way.
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
    t.notMatch(text, /oneflight-[0-9a-f]{8}|oneflight\.answer/)
    if (status !== 200) continue
    explained++
    for (const plan of Object.values(body.data as Record<string, ReadonlyArray<object>>)) {
      t.same(Object.keys(plan[0] as object), ['Plan'])
    }
  }
  t.ok(explained > 0.8 * examples.length, `${explained} of ${examples.length}`)
})
