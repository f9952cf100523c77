/**
 * Tests a failover under load: the primary is lost and the standby promoted. Responses must be
 * true, no acknowledged batch may be missing, and the service must recover without a restart. Also
 * tests that a standby serves reads. Uses its own servers.
 */
import { randomUUID } from 'node:crypto'
import postgres, { type Sql } from 'postgres'
import tap, { type Test } from 'tap'
import {
  audit,
  auditKeyed,
  ledgerSchema,
  pair,
  servesAgain,
  startKeyedLoad,
  startLoad
} from '../support/ledger.ts'
import {
  ask,
  retriesOf,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { execute } from '../support/database/execute.ts'
import { countSessions, untilSessions } from '../support/database/hold.ts'
import { skip } from '../support/database/restartable-server.ts'
import { useServers, type Pair } from '../support/database/standby.ts'
import { on } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `${ledgerSchema}
  create table read (id int);
  insert into read select generate_series(1, 100);
  create view nap as select pg_sleep(20)::text as slept;
  create function nap() returns text language sql volatile as $$ select pg_sleep(20)::text $$;`

/** The codes of responses that are allowed without a primary. */
const allowed = [
  'ok', 'ok replayed', 'database_unavailable', 'commit_unknown', 'overloaded',
  'idempotency_key_in_progress'
]

/** Starts a service whose URL lists both servers; with keys, which a standby could not store. */
function useFailover (
  t: Test,
  { primary, standby }: Pair,
  attributes: 'primary' | 'standby' = 'primary'
): Promise<ServiceUnderTest> {
  return useService(t, {
    // A unique schema, because a template with the same schema would be on another server.
    schema: `${schema} -- ${randomUUID()}`,
    databaseUrl: url =>
      url.replace(
        `127.0.0.1:${primary.port}`,
        `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`
      ) + `?target_session_attrs=${attributes}&connect_timeout=2`,
    keys: attributes === 'primary'
  })
}

/** Connects to the service's database on the standby, as superuser. */
function connectTo (t: Test, { standby }: Pair, { database: { name } }: ServiceUnderTest): Sql {
  const sql = postgres(standby.url.replace(/\/postgres$/, `/${name}`), { max: 2, onnotice () {} })
  t.teardown(() => sql.end({ timeout: 1 }))
  return sql
}

/**
 * Loses the primary, waits for `failed` and promotes the standby. Resolves with the time of the
 * promotion.
 */
async function failOver (
  servers: Pair,
  mode: 'stop' | 'kill',
  failed: () => boolean
): Promise<number> {
  await servers.losePrimary(mode)
  await until(failed)
  await servers.promote()
  process.env['TEST_DATABASE_URL'] = servers.standby.url
  return performance.now()
}

for (const mode of ['stop', 'kill'] as const) {
  tap.test(`the service recovers from a failover (${mode})`, { skip }, async t => {
    const servers = await useServers(t)
    const service = await useFailover(t, servers)
    const sql = connectTo(t, servers, service)
    const load = startLoad(service, 8)
    const keyed = startKeyedLoad(8, (batch, headers) => service.post(batch, { headers }))
    await keyed.more(60)
    await until(() => load.answers.size > 60)
    t.same(service.log.filter(({ level }) => level === 40), [], 'COMMIT waits for the standby')
    const isUnavailable = ({ body }: Answer): boolean => body.error?.code === 'database_unavailable'
    const promoted = await failOver(servers, mode, () =>
      [...load.answers.values()].some(isUnavailable) &&
        (keyed.codes['database_unavailable'] ?? 0) > 0)
    await servesAgain(load)
    const outageMs = performance.now() - promoted
    t.ok(outageMs < 5000, `served ${outageMs.toFixed(0)} ms after the promotion`)
    const since = load.answers.size
    await until(() => load.answers.size > since + 60)
    await keyed.more(60)
    await load.stop()
    const codes = await audit(t, sql, load)
    t.comment(JSON.stringify(codes))
    await auditKeyed(t, sql, keyed)
    t.same(Object.keys({ ...codes, ...keyed.codes }).filter(code => !allowed.includes(code)), [])

    await t.test('the old primary is not written to after it rejoins as a standby', async t => {
      const oldPrimary = await servers.comeBack()
      const rows = await execute(oldPrimary, 'select pg_is_in_recovery() as standby')
      t.match(rows, [{ standby: true }])
      const ofService = "application_name = 'oneflight'"
      // All connections are reopened, and the old primary is the first host of the URL.
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where usename = 'oneflight_login'`
      await untilSessions({ sql }, 0, ofService)
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => service.post(pair(1_000_000 + i)))
      )
      t.same(answers.map(({ status }) => status), Array(8).fill(200))
      t.same(await sql`select count(*)::int as n from right_side where id >= 1000000`, [{ n: 8 }])
      t.ok(await countSessions({ sql }, ofService) > 0)
    })
  })
}

tap.test('a standby serves read-only batches', { skip }, async t => {
  const servers = await useServers(t, { max_standby_streaming_delay: 0 })
  const { standby } = servers
  const service = await useFailover(t, servers, 'standby')
  const { post, database: { sql } } = service
  const readOnly = { headers: { prefer: 'access=read-only' } }
  const rows = [{ id: 'r', op: 'select', table: 'read', columns: [{ fn: 'count' }] }]
  const first = await until(async (): Promise<Answer | undefined> => {
    const answer = await post(rows, readOnly)
    return answer.status === 200 ? answer : undefined
  })
  t.same(first.body, { error: null, data: { r: [{ count: 100 }] } })
  t.equal(first.headers.get('preference-applied'), 'access=read-only')

  const written = await post([{ id: 'w', op: 'insert', table: 'read', values: [{ id: 101 }] }])
  const refused = {
    status: 503,
    body: {
      error: {
        code: 'database_unavailable',
        committed: false,
        message: 'The database is a standby, which accepts no writes.'
      }
    }
  }
  t.match(written, refused)
  t.match(service.log.at(-1), { status: 503, reason: /^the server is a standby: connect to the pr/ })
  t.match(await retriesOf(service), { connection: 1 }, 'one other connection is tried')
  t.same(await sql`select from read where id = 101`, [])
  t.equal((await post(rows, readOnly)).status, 200, 'the next batch is served')

  await t.test('if reads only are not configured, a warning says so', async t => {
    const plain = await useService(t, {
      ...on(service.database),
      databaseUrl: url => url.replace(/@[^/]+/, `@127.0.0.1:${standby.port}`)
    })
    t.equal((await ask(`${plain.adminUrl}/ready`)).status, 200)
    // The second one on a connection that is quiet.
    const write = [{ id: 'w', op: 'insert', table: 'read', values: [{ id: 101 }] }]
    t.match(await plain.post(write), refused)
    t.match(await plain.post(write), refused)
    const warnings = plain.log.filter(({ level }) => level === 40)
    t.match(warnings, [{ msg: /^the server is a standby: batches that write are refused/ }])
    t.equal(warnings.length, 1)
  })

  const conflicts: ReadonlyArray<readonly [name: string, work: string]> = [
    ['a lock', 'alter table read add column more int'],
    ['a removed row version', 'delete from read where id > 50; vacuum read']
  ]
  for (const [name, work] of conflicts) {
    await t.test(`a recovery conflict (${name}) is reported without a retry`, async t => {
      const before = await retriesOf(service)
      const answer = post([...rows, { id: 'n', op: 'select', table: 'nap' }], readOnly)
      await until(async () =>
        (await execute(
          standby,
          "select from pg_stat_activity where usename = 'oneflight_login' and wait_event = " +
            "'PgSleep'"
        )).length > 0
      )
      for (const text of work.split('; ')) await sql.unsafe(text)
      t.match(await answer, {
        status: 409,
        body: {
          error: {
            code: 'serialization_failure',
            retryable: true,
            committed: false,
            op: 'n',
            index: 1
          }
        }
      })
      t.same(await retriesOf(service), before, 'the batch is not retried')
      t.equal((await post(rows, readOnly)).status, 200)
    })
  }
})
