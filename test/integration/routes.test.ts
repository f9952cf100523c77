/**
 * Tests DATABASE_ROUTES: each batch runs in the database of its tenant and stays there, whatever
 * happens to its connection, and a database that is down affects no other one.
 */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { bucketOf } from '../../src/auth/claims.ts'
import { useDatabase, type Database } from '../support/database/database.ts'
import { holdRow } from '../support/database/hold.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { CLAIMS, useProxy, type Proxy } from '../support/network/proxy.ts'
import * as op from '../support/operations.ts'
import {
  answering,
  ask,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'

const tenantOf = "current_setting('request.jwt.claims', true)::json ->> 'tenant'"
const schema = `
  create type mood as enum ('sad', 'ok');
  create table t (
    n numeric(20, 2) primary key, mood mood, tenant text default (${tenantOf})
  );
  create table account (id int primary key, amount int, tenant text default (${tenantOf}));
  insert into account (id, amount) select i, 100 from generate_series(1, 5) as i;
  create sequence tries;
  create function fail_once () returns trigger language plpgsql security definer as $$ begin
    if nextval('tries') = 1 then raise exception 'retry' using errcode = '40001'; end if;
    return new; end $$;
  create table flaky (n int);
  create trigger fail before insert on flaky for each row execute function fail_once();
  create view place as select current_database()::text as name, ${tenantOf} as tenant,
    current_setting('transaction_read_only') as readonly;
  create view prepared as select statement from pg_prepared_statements;
  grant all on all tables in schema public to oneflight_user;`

/** The same tables, but other OIDs, another scale and another word of the enum. */
const otherSchema = `create type before as enum ('x'); ${schema}`
  .replace('numeric(20, 2)', 'numeric(20, 3)').replace("'ok'", "'fine'")

const tenants = ['acme', 'globex'] as const
type Tenant = typeof tenants[number]
type OfTenant<Value> = Readonly<Record<Tenant, Value>>

interface Routed extends ServiceUnderTest {
  readonly databases: OfTenant<Database>
  readonly proxies: OfTenant<Proxy>
  /** The name of the database of a tenant, as metrics and logs have it. */
  readonly names: OfTenant<string>
  send(tenant: unknown, batch: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>
}

/** Starts a service with a database for each tenant, behind a proxy of its own. */
async function useRoutes (
  t: Test,
  { env = {}, more = '', ...options }: {
    readonly env?: Readonly<Record<string, string>>
    /** Further entries of DATABASE_ROUTES. */
    readonly more?: string
    readonly batches?: Readonly<Record<string, unknown>>
  } = {}
): Promise<Routed> {
  const databases = {
    acme: await useDatabase(t, { schema }),
    globex: await useDatabase(t, { schema: otherSchema })
  }
  const proxies = {
    acme: await useProxy(t, databases.acme.loginUrl),
    globex: await useProxy(t, databases.globex.loginUrl)
  }
  const urlOf = (tenant: Tenant): string => proxies[tenant].through(databases[tenant].loginUrl)
  await Promise.all(Object.values(databases).map(makeKeyTable))
  const service = await useService(t, {
    routes: () => tenants.map(tenant => `${tenant}=${urlOf(tenant)}`).join(',') + more,
    env: { POOL_SIZE: '2', ...env },
    ...options
  })
  const nameOf = (tenant: Tenant): string =>
    `${new URL(urlOf(tenant)).host}/${databases[tenant].name}`
  return {
    ...service,
    databases,
    proxies,
    names: { acme: nameOf('acme'), globex: nameOf('globex') },
    send: (tenant, batch, headers = {}) =>
      service.post(batch, {
        headers: {
          authorization: `Bearer ${token({ role: 'oneflight_user', sub: 'me', tenant })}`,
          ...headers
        }
      })
  }
}

const place = [{ id: 'p', op: 'select', table: 'place' }]
const insert = (n: number): object[] => [{ id: 'i', op: 'insert', table: 't', values: [{ n }] }]
const numbers = async ({ sql }: Database): Promise<readonly number[]> =>
  (await sql`select n::float8 as n from t order by n`).map(({ n }) => n as number)
const metricsOf = async ({ adminUrl }: Pick<Routed, 'adminUrl'>): Promise<string> =>
  (await ask(`${adminUrl}/metrics`)).text
const lost = (service: Routed, tenant: Tenant): void => {
  service.proxies[tenant].open = false
  service.proxies[tenant].cut()
}

t.test('every kind of batch runs in the database of its tenant', async t => {
  const service = await useRoutes(t, {
    env: { EXPLAIN: 'on' },
    batches: { where: { operations: place } }
  })
  for (const tenant of tenants) {
    const here = { name: service.databases[tenant].name, tenant }
    t.match((await service.send(tenant, place)).body.data.p, [{ ...here, readonly: 'off' }])
    t.match(
      (await service.send(tenant, place, { prefer: 'access=read-only' })).body.data.p,
      [{ ...here, readonly: 'on' }]
    )
    const named = await service.run('where', {}, {
      headers: { authorization: `Bearer ${token({ role: 'oneflight_user', tenant })}` }
    })
    t.match(named.body.data.p, [here])
    for (const prefer of ['tx=rollback', 'explain', 'return=minimal', 'isolation=serializable']) {
      t.equal((await service.send(tenant, insert(1), { prefer })).status, 200, prefer)
      await service.databases[tenant].sql`delete from t`
    }
    t.equal((await service.send(tenant, insert(2))).status, 200)
  }
  for (const tenant of tenants) {
    const { sql } = service.databases[tenant]
    t.same(await sql`select n::int as n, tenant from t`, [{ n: 2, tenant }])
  }
})

t.test('the types of columns are those of each database', async t => {
  const service = await useRoutes(t, { env: { POOL_SIZE: '1' } })
  const words = { acme: 'ok', globex: 'fine' }
  const sent = { acme: '0.12', globex: '0.125' }
  // Recurring batches are prepared with the types of their columns.
  for (let i = 1; i <= 6; i++) {
    for (const tenant of tenants) {
      const number = sent[tenant].replace('0', String(i))
      const row = `{"n": ${number}, "mood": "${words[tenant]}"}`
      const body = `[{"id": "i", "op": "insert", "table": "t", "values": [${row}]}]`
      const answer = await service.send(tenant, body)
      t.equal(answer.status, 200, answer.text)
      t.match(answer.text, `"n":${number}`)
    }
  }
  for (const tenant of tenants) {
    // With the OID of another database, PostgreSQL would refuse this form.
    const answer = await service.send(tenant, [{ id: 'p', op: 'select', table: 'prepared' }])
    const prepared = answer.body.data.p as ReadonlyArray<{ readonly statement: string }>
    t.ok(
      prepared.some(({ statement }) => statement.includes('values ($1::"public"."mood"')),
      tenant
    )
  }
  const refused = await service.send('acme', [
    { id: 'i', op: 'insert', table: 't', values: [{ n: 9, mood: words.globex }] }
  ])
  t.match(refused.body.error, { code: 'invalid_text_representation', committed: false })
})

t.test('a request without a database is refused before its body is read', async t => {
  const service = await useRoutes(t)
  const missing = 'tenant (DATABASE_ROUTE_CLAIM) must be a non-empty string'
  const rows: ReadonlyArray<
    readonly [tenant: unknown, status: number, code: string, reason: string]
  > = [
    [undefined, 401, 'token_claims_invalid', missing],
    [null, 401, 'token_claims_invalid', missing],
    ['', 401, 'token_claims_invalid', missing],
    [7, 401, 'token_claims_invalid', missing],
    [['acme'], 401, 'token_claims_invalid', missing],
    ['Acme', 403, 'route_unknown', 'tenant "Acme" has no database in DATABASE_ROUTES']
  ]
  for (const [tenant, status, code, reason] of rows) {
    const id = randomUUID()
    const answer = await service.send(tenant, 'not JSON', { 'x-request-id': id })
    t.match([answer.status, answer.body.error], [status, { code, committed: false }])
    t.equal(answer.headers.has('www-authenticate'), status === 401)
    t.notMatch(answer.text, /Acme|DATABASE_ROUTE_CLAIM/, 'the reason is in the log only')
    const line = await until(() => service.log.find(line => line['request_id'] === id))
    t.match(line, { code, reason, status })
    t.notOk('route' in line)
  }
  t.match((await service.post(place, { role: null })).body.error, { code: 'auth_required' })
  t.match(
    (await service.post(place, { headers: { authorization: `Bearer ${token({})}` } })).body.error,
    { code: 'role_missing' }
  )
})

t.test('an idempotency key belongs to the database of its tenant', async t => {
  const service = await useRoutes(t)
  const key = { 'idempotency-key': 'k' }
  for (const replayed of [null, 'true']) {
    for (const tenant of tenants) {
      const { status, headers } = await service.send(tenant, insert(1), key)
      t.same([status, headers.get('idempotent-replayed')], [200, replayed])
    }
  }
  for (const tenant of tenants) {
    const { sql } = service.databases[tenant]
    t.same(await sql`select n::int as n, tenant from t`, [{ n: 1, tenant }])
    t.equal((await sql`select from oneflight.idempotency_keys`).length, 1)
  }
})

t.test('tenants of one database do not share the keys of one subject', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const service = await useService(t, { routes: () => `hash(1)=${database.loginUrl}` })
  const raise = [
    op.update('u', 'account', { set: { amount: { $inc: 1 } }, where: { id: { eq: 1 } } })
  ]
  for (const replayed of [null, 'true']) {
    for (const tenant of tenants) {
      const bearer = `Bearer ${token({ role: 'oneflight_user', sub: 'me', tenant })}`
      const { status, headers } = await service.post(raise, {
        headers: { authorization: bearer, 'idempotency-key': 'k' }
      })
      t.same([status, headers.get('idempotent-replayed')], [200, replayed], tenant)
    }
  }
  t.same(await database.sql`select amount from account where id = 1`, [{ amount: 102 }])
})

t.test('a lost COMMIT is looked up in the database of its batch', async t => {
  const service = await useRoutes(t, { env: { POOL_SIZE: '1' } })
  const { acme: proxy } = service.proxies
  for (const [n, headers] of [[1, { 'idempotency-key': 'k' }], [2, {}]] as const) {
    t.equal((await service.send('acme', place)).status, 200)
    await until(async () =>
      /^service_pool_connections_busy\{.*\} [^0]/m.test(await metricsOf(service)) === false)
    proxy.deliver = ({ held }) =>
      held.includes('COMMIT\0') ? held.indexOf('COMMIT\0') - 5 : held.length
    const sent = service.send('acme', insert(n), headers)
    await until(async () => (await numbers(service.databases.acme)).includes(n))
    proxy.deliver = ({ held }) => held.length
    proxy.cut()
    const answer = await sent
    t.match(answer.body, { error: null, data: { i: [{ tenant: 'acme' }] } }, answer.text)
  }
  t.same(await numbers(service.databases.acme), [1, 2])
  t.same(await numbers(service.databases.globex), [])
})

t.test('a batch that is run again stays in its database', async t => {
  const service = await useRoutes(t, { env: { POOL_SIZE: '1' } })
  const flaky = [{ id: 'f', op: 'insert', table: 'flaky', values: [{ n: 1 }] }]
  t.equal((await service.send('globex', flaky)).status, 200)
  t.equal((await service.send('acme', place)).status, 200)
  service.proxies.acme.forward = ({ client, sent }) => {
    if (!sent.includes(CLAIMS)) return true
    service.proxies.acme.forward = () => true
    client.destroy()
    return false
  }
  const key = { 'idempotency-key': 'lost' }
  t.equal((await service.send('acme', insert(1), key)).status, 200)
  t.match(await metricsOf(service), /^service_txn_retry_count\{reason="lost"\} 1$/m)
  const retries = /^service_txn_retry_count\{reason="serialization_failure"\} 1$/m
  t.match(await metricsOf(service), retries)
  const rows = async ({ sql }: Database): Promise<number> => (await sql`select from flaky`).length
  t.same([await rows(service.databases.acme), await rows(service.databases.globex)], [0, 1])
  t.same(await numbers(service.databases.acme), [1])
  t.same(await numbers(service.databases.globex), [])
})

t.test('a full queue of one database refuses no batch of another one', async t => {
  const service = await useRoutes(t, { env: { POOL_SIZE: '1', QUEUE_SIZE: '0' } })
  const lock = await holdRow(service.databases.globex, 'select from account where id = 1')
  const waiting = service.send('globex', [
    { id: 'u', op: 'update', table: 'account', set: { amount: 1 }, where: { id: { eq: 1 } } }
  ])
  await lock.awaited()
  const { acme, globex } = service.names
  const text = await metricsOf(service)
  t.match(text, `service_pool_connections_busy{server="primary",route="${globex}"} 1\n`)
  t.match(text, `service_pool_connections_busy{server="primary",route="${acme}"} 0\n`)
  t.match((await service.send('globex', place)).body.error, { code: 'overloaded' })
  t.equal((await service.send('acme', place)).status, 200)
  await lock.free()
  t.equal((await waiting).status, 200)
})

t.test('while a database is down the others serve', async t => {
  const paused = new URL((await useDatabase(t, { schema })).loginUrl)
  // A database that does not exist pauses a tenant.
  paused.pathname = '/oneflight_nowhere'
  const service = await useRoutes(t, { more: `,initech=${paused.href}` })
  const { acme, globex } = service.names
  await answering(`${service.adminUrl}/ready`)
  const isUp = async (name: string, up: 0 | 1): Promise<boolean> =>
    (await metricsOf(service)).includes(`service_route_up{route="${name}"} ${up}\n`)
  await until(async () => await isUp(acme, 1) && await isUp(globex, 1))

  lost(service, 'globex')
  await until(() => isUp(globex, 0))
  t.ok(await isUp(acme, 1))
  t.match((await service.send('globex', place)).body.error, {
    code: 'database_unavailable',
    committed: false,
    retryable: true
  })
  t.match((await service.send('initech', place)).body.error, {
    code: 'database_unavailable',
    committed: false
  })
  t.equal((await service.send('acme', place)).status, 200)
  for (const url of [`${service.url}/health`, `${service.adminUrl}/ready`]) {
    t.match(await ask(url), { status: 200, body: { ok: true } }, url)
  }
  const linesOf = (name: string): readonly unknown[] =>
    service.log.filter(({ route, path }) => route === name && path === undefined)
      .map(({ msg }) => msg)
  await until(() => linesOf(globex).includes('could not connect to the database'))
  t.ok(linesOf(globex).includes('health check of the database failed'))
  t.same(linesOf(acme), ['connected to the database'])

  lost(service, 'acme')
  await until(async () => (await ask(`${service.url}/health`)).status === 503)
  t.match(await ask(`${service.adminUrl}/ready`), {
    status: 503,
    body: { ok: false, error: 'database' }
  })
  service.proxies.globex.open = true
  await answering(`${service.adminUrl}/ready`)
  t.equal((await service.send('globex', place)).status, 200)
  await until(() => linesOf(globex).some(line =>
    String(line).endsWith('connected to the database'))
  )
  t.ok(linesOf(globex).includes('health check of the database succeeded again'))
})

t.test('metrics and logs name the database and no password', async t => {
  const service = await useRoutes(t)
  const { acme, globex } = service.names
  await service.send('acme', insert(1))
  await service.send('acme', insert(1))
  await service.send('globex', insert(1))
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.match(text, `service_route_count{route="${acme}",outcome="ok"} 1\n`)
  t.match(text, `service_route_count{route="${acme}",outcome="error"} 1\n`)
  t.match(text, `service_route_duration_milliseconds_count{route="${globex}",outcome="ok"} 1\n`)
  await until(() => service.log.filter(({ path }) => path === '/').length === 3)
  t.same(
    service.log.filter(({ path }) => path === '/').map(({ route }) => route),
    [acme, acme, globex]
  )
  const { body } = await ask(`${service.adminUrl}/config`)
  t.match(body, {
    DATABASE_URL: null,
    DATABASE_ROUTES: { user: 'oneflight_login', values: service.names, buckets: [] },
    DATABASE_ROUTE_CLAIM: 'tenant'
  })
  for (const output of [text, JSON.stringify(body), JSON.stringify(service.log)]) {
    t.notMatch(output, /:login|postgres:\/\//)
  }
})

t.test('a service with one database has no routes in metrics and logs', async t => {
  const service = await useService(t, { schema })
  await service.post(place)
  const text = await metricsOf(service)
  t.notMatch(text, /^service_.*route="/m)
  t.match(text, /^service_pool_connections_busy\{server="primary"\} [01]$/m)
  await until(() => service.log.some(({ path }) => path === '/'))
  t.notOk(service.log.some(line => 'route' in line))
})

t.test('other values go to the database of their bucket, which SQL can compute', async t => {
  const { loginUrl, name } = await useDatabase(t, { schema })
  const service = await useRoutes(t, {
    env: { DATABASE_ROUTE_CLAIM: 'app.org' },
    more: `,hash(1)=${loginUrl}`
  })
  const authorization = `Bearer ${token({ role: 'oneflight_user', app: { org: 'x' } })}`
  const answer = await service.post(place, { headers: { authorization } })
  t.match(answer.body.data.p, [{ name }])
  const { sql } = service.databases.acme
  const values = ['acme', 'Ünïcode', '\u{1F680}', ' ', ...Array.from({ length: 50 }, () =>
    randomUUID())]
  for (const count of [1, 16, 1000]) {
    const rows = await sql<Array<{ value: string, bucket: number }>>`
      select value, (('x' || left(encode(sha256(convert_to(value, 'UTF8')), 'hex'), 8))
        ::bit(32)::bigint % ${count}::int)::int as bucket
      from unnest(${values}::text[]) as value`
    t.same(
      new Map(rows.map(({ value, bucket }) => [value, bucket])),
      new Map(values.map(value => [value, bucketOf(value, count)]))
    )
  }
})
