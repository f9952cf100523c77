/**
 * Tests what the service does only for Citus, on PostgreSQL. `npm run test:one-by-one` runs the
 * tests of the language with operations that are sent one by one, and test/e2e/citus.test.ts runs
 * batches on Citus.
 */
import t from 'tap'
import { acme, citusCatalogue, useShop } from '../support/distributed-shop.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const env = { DATABASE_ENGINE: 'citus' }
const select = { id: 's', op: 'select', table: 'stock' }
const insert = { id: 'i', op: 'insert', table: 'notes', values: [{ id: 1 }] }

t.test('what Citus would accept and not keep is refused', async t => {
  const { as } = await useShop(t, 'postgresql', env)
  const refused = failed(400, 'feature_not_supported')
  t.match(await as(acme, [select], { prefer: 'isolation=serializable' }), refused)
  const upsert = {
    ...insert,
    on_conflict: { columns: ['id'], do: 'update' },
    returning: [{ fn: 'inserted' }]
  }
  t.match(await as(acme, [upsert]), refused)
  const ofAcme = { tenant: { eq: 'acme' } }
  const set = (set: object, more: object = {}): object =>
    op.insert('i', 'customers', [{ id: 1, name: 'x' }], {
      on_conflict: { columns: ['tenant', 'id'], do: 'update', set, ...more }
    })
  const rows = [1, 2].map(id => ({ tenant: 'acme', id, tags: { $append: ['x'] } }))
  for (const batch of [
    [set({ tags: { $append: ['x'] } })],
    [{ ...set({ id: 5 }), values: [1, 2].map(id => ({ tenant: 'acme', id, name: 'x' })) }],
    [op.call('f', 'list_stock', {})],
    [op.select('v', 'listed_stock')],
    [{ ...select, where: { exists: { table: 'apples', on: { sku: 'sku' } } } }],
    [set({ name: 'y' }, {
      where: { or: [{ not: { exists: { table: 'orders', on: { tenant: 'tenant' } } } }] }
    })],
    [op.update('u', 'customers', { set: { data: { $merge: {} } }, where: ofAcme })],
    [op.update('k', 'customers', { key: ['tenant', 'id'], values: rows })],
    [{
      ...select,
      columns: ['*'],
      distinct: true,
      having: { qty: { gt: 1 } },
      order: [{ sku: 'asc' }]
    }]
  ]) {
    const answer = await as(acme, batch)
    t.match(answer, refused, JSON.stringify(batch))
    t.match(answer.body.error?.message, /^Citus /)
  }
  const renamed = op.update('u', 'customers', { set: { name: 'y' }, where: ofAcme })
  t.equal((await as(acme, [renamed])).status, 200)
  for (const name of ['12', true]) {
    t.equal((await as(acme, [set({ name })])).status, 200, 'a text is not read as JSON')
  }
  const upsertStock = op.insert('i', 'stock', [{ sku: 'fig', price: 1, qty: 1 }], {
    on_conflict: { columns: ['tenant', 'sku'], do: 'update', set: { price: 1, qty: 'many' } }
  })
  t.match((await as(acme, [upsertStock])).body.error?.message, /^Column "qty": invalid input/)
  t.equal((await as(acme, [select])).status, 200, 'the connection is free again')
})

t.test('a batch with a key changes the table that makes its commit a two-phase one', async t => {
  const { as, database: { sql } } = await useShop(t, 'postgresql', env)
  const key = { 'idempotency-key': 'once' }
  const invalid = failed(400, 'idempotency_key_invalid', { message: /npm run migrate/ })
  t.match(await as(acme, [insert], key), invalid)
  await sql.unsafe('create table oneflight.two_phase_commit (id int)')
  await sql.unsafe('grant delete on oneflight.two_phase_commit to public')
  t.equal((await as(acme, [insert], key)).status, 200)
  t.equal((await as(acme, [insert], key)).status, 200)
  t.equal((await sql`select from notes`).length, 1)
})

t.test('settings of workers are made again after code of the database', async t => {
  const { post } = await useService(t, {
    env,
    schema: `
      create table seen (a int);
      create function note() returns trigger language plpgsql as 'begin return new; end';
      create trigger note before insert on seen for each row execute function note();
      grant all on seen to oneflight_user`
  })
  const write = { op: 'insert', table: 'seen', values: [{ a: 1 }] }
  t.match(await post([{ id: 'a', ...write }, { id: 'b', ...write }]), {
    status: 200, body: { data: { a: [{ a: 1 }], b: [{ a: 1 }] } }
  })
})

t.test('query plans are explained', async t => {
  const { as } = await useShop(t, 'postgresql', { ...env, EXPLAIN: 'on' })
  const answer = await as(acme, [select], { prefer: 'explain' })
  t.match(answer.body.data.s, [{ Plan: {} }])
})

/** `t` is distributed by `a`. */
const schema = `${citusCatalogue}
  create table t (a int, b text);
  insert into pg_catalog.pg_dist_partition values ('t', 'a');
  create table whole (a int, b text);
  grant all on t, whole to oneflight_user;`

t.test('rows are returned in their order, except those of an upload', async t => {
  const params = op.rowsOf({ a: true, b: true })
  const operation = { id: 'i', op: 'insert', table: 'whole', values: '$params.rows' }
  const { post, run } = await useService(t, {
    schema,
    env: { ...env, MAX_UPLOAD_ROWS: '100' },
    batches: {
      returned: { params, operations: [operation] },
      hidden: { params, operations: [{ ...operation, answer: 'count' }] }
    }
  })
  const make = (count: number): object[] =>
    Array.from({ length: count }, (_, i) => ({ a: i % 7, b: `row ${i}` }))
  const upload = { headers: { 'content-type': 'application/x-ndjson' } }
  for (const count of [1, 2, 20, 500]) {
    const values = make(count)
    const right = { status: 200, body: { data: { i: values } } }
    t.match(await post([{ id: 'i', op: 'insert', table: 't', values }]), right, `${count} rows`)
    t.match(await run('returned', { rows: values }), right, `${count} rows of a parameter`)
  }
  t.match(await run('returned', { rows: [] }), { status: 200, body: { data: { i: [] } } })
  const lines = make(3).map(row => JSON.stringify(row)).join('\n')
  t.match((await run('returned', lines, upload)).body.error, {
    code: 'feature_not_supported', op: 'i', message: /"returning": \[\]/
  })
  t.match(await run('hidden', lines, upload), { status: 200, body: { data: { i: 3 } } })
})

t.test('rows without values are inserted one by one', async t => {
  const { post } = await useService(t, { schema, env })
  const none = { id: 'n', op: 'select', table: 't', where: { a: { eq: 7 } } }
  const insert = { id: 'i', op: 'insert', table: 't', values: [{}, { a: 1 }, {}, { b: 'x' }] }
  const i = [{ a: null, b: null }, { a: 1, b: null }, { a: null, b: null }, { a: null, b: 'x' }]
  t.match(await post([insert]), { status: 200, body: { data: { i } } })
  const gated = (rows: number): object => ({ ...insert, when: { n: rows } })
  t.match(await post([none, gated(0)]), { status: 200, body: { data: { n: [], i } } })
  t.match(await post([none, gated(1)]), { status: 200, body: { data: { n: [], i: null } } })
  t.match(await post([none, { ...gated(0), returning: [] }]), {
    status: 200,
    body: { data: { n: [], i: [] } }
  })
})

t.test('nested rows, and those of a function that is not inlined, are returned', async t => {
  const { as } = await useShop(t, 'postgresql', env)
  const call = { id: 's', op: 'call', function: 'read_stock' }
  t.match(await as(acme, [call]), { status: 200, body: { data: { s: [] } } })
  const nested = { ...select, with: { items: { table: 'order_items', on: { sku: 'sku' } } } }
  t.match(await as(acme, [nested]), { status: 200, body: { data: { s: [] } } })
})

t.test('the log names roles that cannot log in at the start', async t => {
  const { log } = await useShop(t, 'postgresql', env)
  const told = await until(() => log.find(({ roles }) => roles !== undefined))
  t.match(told, { level: 40, msg: /have no LOGIN$/ })
  t.ok((told['roles'] as readonly string[]).includes('oneflight_user'))
})
