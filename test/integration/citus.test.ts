/**
 * Tests the SQL for Citus on PostgreSQL, where it must have the same results.
 * test/e2e/citus.test.ts runs it on Citus.
 */
import t from 'tap'
import { acme, compareShops, useShop } from '../support/distributed-shop.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

t.test('the SQL for Citus has the same results on PostgreSQL', async t => {
  const actual = await useShop(t, 'postgresql', { DATABASE_ENGINE: 'citus' })
  await compareShops(t, actual, await useShop(t, 'postgresql'))
})

const env = { DATABASE_ENGINE: 'citus' }
const select = { id: 's', op: 'select', table: 'stock' }
const insert = { id: 'i', op: 'insert', table: 'notes', values: [{ id: 1 }] }

t.test('what Citus would accept and not keep is refused', async t => {
  const { as } = await useShop(t, 'postgresql', env)
  const refused = { status: 400, body: { error: { code: 'feature_not_supported' } } }
  t.match(await as(acme, [select], { prefer: 'isolation=serializable' }), refused)
  const upsert = {
    ...insert,
    on_conflict: { columns: ['id'], do: 'update' },
    returning: [{ fn: 'inserted' }]
  }
  t.match(await as(acme, [upsert]), refused)
  t.equal((await as(acme, [select])).status, 200, 'the connection is free again')
})

t.test('a batch with a key changes the table that makes its commit a two-phase one', async t => {
  const { as, database: { sql } } = await useShop(t, 'postgresql', env)
  const key = { 'idempotency-key': 'once' }
  t.match(await as(acme, [insert], key), {
    body: { error: { code: 'idempotency_key_invalid', message: /npm run migrate/ } }
  })
  await sql.unsafe('create table oneflight.two_phase_commit (id int)')
  await sql.unsafe('grant delete on oneflight.two_phase_commit to public')
  t.equal((await as(acme, [insert], key)).status, 200)
  t.equal((await as(acme, [insert], key)).status, 200)
  t.equal((await sql`select from notes`).length, 1)
})

t.test('query plans are explained', async t => {
  const { as } = await useShop(t, 'postgresql', { ...env, EXPLAIN: 'on' })
  const answer = await as(acme, [select], { prefer: 'explain' })
  t.match(answer.body.data.s, [{ Plan: {} }])
})

t.test('rows of a parameter are inserted if they are not returned', async t => {
  const insertRows = (returning: readonly string[]): object => ({
    params: {
      type: 'object',
      properties: {
        rows: {
          type: 'array',
          items: {
            type: 'object',
            properties: { a: true, b: true },
            additionalProperties: false
          }
        }
      },
      required: ['rows']
    },
    operations: [{ id: 'i', op: 'insert', table: 't', values: '$params.rows', returning }]
  })
  const { run } = await useService(t, {
    schema: 'create table t (a int, b text); grant all on t to oneflight_user',
    env,
    batches: { returned: insertRows(['a']), stored: insertRows([]) }
  })
  const rows = [{ a: 1, b: 'x' }, { a: 2, b: 'y' }]
  for (let i = 0; i < 3; i++) {
    t.match(await run('stored', { rows }), { status: 200, body: { data: { i: [] } } })
    t.match(await run('returned', { rows }), {
      status: 400,
      body: { error: { code: 'feature_not_supported', message: /"returning": \[\]/ } }
    })
  }
})

t.test('nested rows are returned', async t => {
  const { as } = await useShop(t, 'postgresql', env)
  const nested = { ...select, with: { items: { table: 'order_items', on: { sku: 'sku' } } } }
  t.match(await as(acme, [nested]), { status: 200, body: { data: { s: [] } } })
})

t.test('the log names roles that cannot log in at the start', async t => {
  const { log } = await useShop(t, 'postgresql', env)
  const told = await until(() => log.find(({ roles }) => roles !== undefined))
  t.match(told, { level: 40, msg: /have no LOGIN$/ })
  t.ok((told['roles'] as readonly string[]).includes('oneflight_user'))
})
