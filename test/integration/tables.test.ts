/**
 * Tests `GET /tables`: what it lists for a role, who gets it, its errors, and that it leaves the
 * connection as it was.
 */
import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import { TableList } from '../../schemas/http.ts'
import { asCustomer, useShopService } from '../support/database/shop.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { ask, token, useService } from '../support/service.ts'
import { failed, on } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const env = { API_TABLES: 'on' }
const bearer = (claims: object = { role: 'oneflight_user' }) =>
  ({ authorization: `Bearer ${token({ ...claims })}` })

t.test('a role sees what it may use', async t => {
  const { url, post } = await useShopService(t, { env })
  const { status, body } = await ask(`${url}/tables`, { headers: asCustomer() })
  t.equal(status, 200)
  t.same([...Value.Errors(TableList, body)], [])
  const { tables } = body.data
  const page = readPage('docs/reference/http-api.md')
  const [described] = readBlocks(page.slice(page.indexOf('### Tables')))
  t.same(
    tables.find(({ name }: { name: string }) => name === 'stock'),
    JSON.parse(described?.text as string)
  )
  const select = [{ id: 'a', op: 'select', table: 'orders', columns: ['id'] }]
  t.equal((await post(select, { headers: asCustomer() })).status, 200)
  t.same((await ask(`${url}/tables`, { headers: asCustomer() })).body, body)
})

const schema = `
  create schema other;
  create table t (a int, b text);
  create table other.u (c int);
  create table secret (a int);
  create view v as select b from t;
  comment on table t is 'A "table"';
  grant select (a), insert (a, b) on t to oneflight_user;
  grant usage on schema other to oneflight_user;
  grant select on other.u, v to oneflight_user;
  grant select on secret to oneflight_other;`

const { url, adminUrl, database } =
  await useService(t, { schema, env: { ...env, DB_SCHEMAS: 'public,other' } })

t.test('columns and schemas follow the privileges', async t => {
  const column = (name: string, type: string, may: object) => ({
    name,
    type,
    comment: null,
    nullable: true,
    optional: false,
    select: true,
    insert: false,
    update: false,
    ...may
  })
  const { body } = await ask(`${url}/tables`, { headers: bearer() })
  t.same(body, {
    error: null,
    data: {
      tables: [
        {
          name: 't',
          comment: 'A "table"',
          columns: [
            column('a', 'integer', { insert: true }),
            column('b', 'text', { select: false, insert: true })
          ]
        },
        { name: 'v', comment: null, columns: [column('b', 'text', {})] },
        { name: 'other.u', comment: null, columns: [column('c', 'integer', {})] }
      ]
    }
  })
})

t.test('it needs a token of a role that batches can take', async t => {
  t.match(await ask(`${url}/tables`), { status: 401, body: { error: { code: 'auth_required' } } })
  for (const role of ['nobody', 'postgres']) {
    const answer = await ask(`${url}/tables`, { headers: bearer({ role }) })
    t.match(answer, failed(403, 'role_denied'), role)
  }
  t.match(await ask(`${url}/tables`, { method: 'POST', headers: bearer() }), { status: 405 })
})

t.test('it does not exist by default', async t => {
  const { url, adminUrl } = await useService(t, on(database))
  t.equal((await ask(`${url}/tables`, { headers: bearer() })).status, 404)
  t.equal((await ask(`${adminUrl}/reference/try/tables`, { headers: bearer() })).status, 404)
})

t.test('the API page has it', async t => {
  const { paths } = (await ask(`${url}/openapi.json`)).body
  t.match(paths['/tables'], { get: { operationId: 'listTables', security: [{ bearer: [] }] } })
  const { status, text } = await ask(`${adminUrl}/reference/try/tables`, { headers: bearer() })
  t.equal(status, 200)
  t.equal(text, (await ask(`${url}/tables`, { headers: bearer() })).text)
})

t.test('a list that is too large is an error', async t => {
  const names = Array.from({ length: 600 }, (_, i) => `"t ${'x'.repeat(50)} ${i}"`)
  const { url } = await useService(t, {
    schema: names.map(name => `create table ${name} (a int);`).join('') +
      'grant select on all tables in schema public to oneflight_user',
    env: { ...env, MAX_RESPONSE_BYTES: '65536' }
  })
  const answer = await ask(`${url}/tables`, { headers: bearer() })
  t.match(answer, failed(422, 'response_too_large', { retryable: false }))
})

t.test('a list that is late or loses its connection is an error, the next one is not', async t => {
  const cases = [
    [{ STATEMENT_TIMEOUT_MS: '300' }, 504, 'query_canceled'],
    [{ REQUEST_TIMEOUT_MS: '500' }, 504, 'deadline_exceeded'],
    [{}, 503, 'database_unavailable']
  ] as const
  for (const [limits, status, code] of cases) {
    const { name, sql } = database
    const { url } = await useService(t, { ...on(database), env: { ...env, ...limits } })
    await sql.begin(async lock => {
      // Only comments are read from it.
      await lock`lock table pg_catalog.pg_description in access exclusive mode`
      const answer = ask(`${url}/tables`, { headers: bearer() })
      if (code === 'database_unavailable') {
        await until(async () => {
          const killed = await sql`select pg_terminate_backend(pid) from pg_stat_activity
            where datname = ${name} and wait_event_type = 'Lock'`
          return killed.length > 0
        })
      }
      t.match(await answer, { status, body: { error: { code, committed: false } } }, code)
    })
    t.equal((await ask(`${url}/tables`, { headers: bearer() })).status, 200)
  }
})
