/**
 * Tests the service behind PgBouncer in transaction mode, with fewer connections to the server than
 * to PgBouncer, and with the shipped configuration. Every batch must see only its own role, claims
 * and settings, keys must work, and nothing may stay on a connection. Responses must be true when a
 * backend or PgBouncer is killed.
 */
import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import postgres from 'postgres'
import tap, { type Test } from 'tap'
import { ensureRoles, LOGIN_ROLE } from '../support/database/database.ts'
import {
  program,
  startPooler,
  usePooler,
  type Pooler,
  type PoolerOptions
} from '../support/database/pgbouncer.ts'
import {
  skip as skipWithoutServer,
  useRestartableServer
} from '../support/database/restartable-server.ts'
import { trapSchema } from '../support/database/triggers.ts'
import {
  audit,
  auditKeyed,
  ledgerSchema,
  move,
  pair,
  servesAgain,
  startKeyedLoad,
  startLoad
} from '../support/ledger.ts'
import * as op from '../support/operations.ts'
import { needs } from '../support/process/programs.ts'
import {
  ask,
  retriesOf,
  token,
  useService,
  type ServiceUnderTest,
  type UseServiceOptions
} from '../support/service.ts'
import { until } from '../support/until.ts'

const withPooler = (title: string) => needs(title, { PgBouncer: program })

const roles = Array.from({ length: 5 }, (_, i) => `oneflight_pgb_${i + 1}`)
const REQUESTS = 2000
const CLIENTS = 16
const CONNECTIONS = 8
const SERVERS = 3

const schema = `${ledgerSchema}
  create table journal (owner name default current_user, nonce text default
    current_setting('request.id'), kind text);
  create function setting(name text) returns text language sql stable as $$
    select coalesce(pg_catalog.current_setting(name, true), '') $$;
  create view look as select current_user::text as role, session_user::text as login,
    setting('request.jwt.claims') as claims, setting('request.id') as id, setting('app.left')
    as app,
    setting('search_path') as path, setting('statement_timeout') as timeout, setting('TimeZone')
      as zone,
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid
      = 4711) as locks,
    (select count(*) from pg_class where relnamespace = pg_my_temp_schema()) as tables;
  -- Lets a trigger leave state on the session.
  ${trapSchema}
  grant all on all tables in schema public to public;`

const tricks = [
  "select set_config('app.left', 'left', false)",
  "select set_config('TimeZone', 'Asia/Tokyo', false)",
  "select set_config('statement_timeout', '60001', false)",
  "select set_config('search_path', 'pg_catalog', false)",
  "select set_config('request.jwt.claims', '{}', false)",
  'select pg_advisory_lock(4711 + 0 * pg_backend_pid())',
  'create temp table left_behind as select 1', 'prepare left_behind as select 1', 'listen gossip',
  'declare left_behind cursor with hold for select 1'
]

async function useServiceBehindPooler (
  t: Test,
  options: Partial<PoolerOptions & UseServiceOptions> = {}
): Promise<{ service: ServiceUnderTest, pooler: Pooler }> {
  const pooler = await usePooler(t, process.env['TEST_DATABASE_URL'] as string, {
    size: SERVERS,
    ...options
  })
  const service = await useService(t, {
    schema: options.schema ?? schema,
    keys: true,
    env: {
      POOL_SIZE: String(CONNECTIONS),
      QUEUE_SIZE: '1000',
      QUEUE_TIMEOUT_MS: '60000',
      PREPARED_STATEMENTS: 'off',
      LOG_LEVEL: 'error',
      ...options.env
    },
    databaseUrl: url => pooler.through(url)
  })
  return { service, pooler }
}

const sessionsOf = (
  { database: { sql, name } }: ServiceUnderTest
): Promise<ReadonlyArray<Record<string, unknown>>> =>
  sql`select pid, state from pg_stat_activity where datname = ${name} and usename = ${LOGIN_ROLE}`

tap.test(...withPooler('pool_mode=statement is refused'), async t => {
  const { service } = await useServiceBehindPooler(t, {
    settings: { pool_mode: 'statement' },
    env: { LOG_LEVEL: 'info' }
  })
  const reason = /pool_mode=statement.*Set pool_mode=transaction/
  for (const headers of [{}, { 'idempotency-key': 'k' }, { prefer: 'access=read-only' }]) {
    const { status, body } = await service.post([op.insert('o', 'journal', [{ kind: 'x' }])], {
      headers
    })
    t.match({ status, ...body.error }, {
      status: 503, code: 'database_unavailable', committed: false
    })
  }
  t.equal((await ask(`${service.adminUrl}/ready`)).status, 503)
  t.match(service.log.filter(({ level }) => level === 40), [
    { reason, msg: 'could not connect to the database' },
    { reason, msg: 'health check of the database failed' }
  ])
  t.same(await service.database.sql`select from journal`, [])
})

tap.test(
  ...withPooler('batches on shared connections are isolated and leave nothing behind'),
  async t => {
    await ensureRoles(roles)
    const { service, pooler } = await useServiceBehindPooler(t)
    const { database: { sql } } = service
    const deviations: unknown[] = []
    const committed: string[] = []
    const counts = { ok: 0, failed: 0, dry: 0, replayed: 0 }
    const numbers = Array.from({ length: REQUESTS }, (_, i) => i).values()
    const send = async (i: number): Promise<void> => {
      const [role, nonce, bare] = [roles[i % roles.length] as string, `n-${i}`, i % 3]
      const bearer = token({ role, sub: `s${i % 7}`, nonce })
      const [dry, failing, keyed] = [i % 10 === 7, i % 10 === 8, i % 4 === 1]
      const batch = [
        { id: 'look', op: 'select', table: 'look' },
        { id: 'journal', op: 'insert', table: 'journal', values: [{ kind: dry ? 'dry' : 'kept' }] },
        ...(bare === 0
          ? [op.insert('trap', 'trap', [{ commands: [tricks[i / 3 % tricks.length]] }], {
              returning: []
            })]
          : []),
        ...(failing
          ? [{ id: 'none', op: 'insert', table: 'left_side', values: [{ id: null }] }]
          : [])
      ]
      const headers = {
        authorization: `Bearer ${bearer}`,
        'x-request-id': nonce,
        connection: 'keep-alive',
        ...(dry ? { prefer: 'tx=rollback' } : {}),
        ...(keyed ? { 'idempotency-key': nonce } : {})
      }
      const first = await service.post(batch, { headers })
      const expected = {
        look: [{
          role,
          login: LOGIN_ROLE,
          claims: Buffer.from(bearer.split('.')[1] as string, 'base64url').toString(),
          id: nonce,
          app: '',
          path: '"public", pg_temp',
          timeout: '15s',
          zone: 'UTC',
          locks: 0,
          tables: 0
        }],
        journal: [{ owner: role, nonce, kind: dry ? 'dry' : 'kept' }],
        ...(bare === 0 ? { trap: [] } : {})
      }
      const isExpected = failing
        ? first.body.error?.code === 'not_null_violation'
        : first.status === 200 && isDeepStrictEqual(first.body.data, expected)
      if (!isExpected) deviations.push({ i, headers, text: first.text, expected })
      counts[failing ? 'failed' : dry ? 'dry' : 'ok']++
      if (!failing && !dry) committed.push(nonce)
      if (keyed && !dry && !failing) {
        const replay = await service.post(batch, { headers })
        if (
          replay.text !== first.text || replay.headers.get('idempotent-replayed') !== 'true'
        ) deviations.push({ i, replay: replay.text, first: first.text })
        counts.replayed++
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, async () => {
      for (const i of numbers) await send(i)
    }))
    t.comment(JSON.stringify(counts))
    t.same(deviations.slice(0, 3), [], `${deviations.length} deviations`)
    const written = (await sql`select nonce from journal`).map(({ nonce }) => nonce as string)
    t.same(
      written.toSorted(),
      committed.toSorted(),
      'exactly the acknowledged batches are applied, once each'
    )
    t.equal(counts.replayed, (await sql`select from oneflight.idempotency_keys`).length)

    t.same(await retriesOf(service), {}, 'no batch was retried on another connection')

    // Checks PgBouncer's connections to the server from another client of PgBouncer.
    await until(async () => (await sessionsOf(service)).every(({ state }) => state === 'idle'))
    const sessions = await sessionsOf(service)
    t.ok(
      sessions.length > 0 && sessions.length <= SERVERS,
      `${sessions.length} connections to the server`
    )
    t.same(
      await sql`select locktype from pg_locks where locktype = 'advisory' and pid = any (${
        sessions.map(({ pid }) => pid as number)
      })`,
      []
    )
    const other = postgres(pooler.through(service.database.loginUrl), {
      max: SERVERS,
      prepare: false,
      fetch_types: false,
      max_lifetime: null
    })
    t.teardown(() => other.end({ timeout: 1 }))
    await service.stop()
    // All transactions stay open until the last has begun, so each has a different connection.
    const all = Promise.withResolvers<void>()
    let begun = 0
    const found = await Promise.all(sessions.map(() =>
      other.begin(async sql => {
        const [row] = await sql`
    select pg_backend_pid() as pid, (select count(*)::int from pg_prepared_statements) as prepared,
      (select count(*)::int from pg_cursors where is_holdable) as cursors,
      (select count(*)::int from pg_listening_channels()) as channels, (select count(*)::int
        from pg_class where relnamespace = pg_my_temp_schema()) as tables,
      current_setting('role') as role, current_setting('search_path') as path,
        current_setting('statement_timeout') as timeout, coalesce(current_setting('app.left', true),
        '') as app,
      coalesce(current_setting('request.jwt.claims', true), '') as claims`
        if (++begun === sessions.length) all.resolve()
        await all.promise
        return row
      })
    ))
    t.equal(
      new Set(found.map(row => row?.['pid'])).size,
      sessions.length,
      'every connection was checked'
    )
    for (const row of found) {
      const { pid, ...state } = row as Record<string, unknown>
      t.same(state, {
        prepared: 0,
        cursors: 0,
        channels: 0,
        tables: 0,
        role: 'none',
        path: '"$user", public',
        timeout: '0',
        app: '',
        claims: ''
      }, `connection ${String(pid)}`)
    }
  }
)

/** The codes of responses that are expected when a process is killed. */
const expected = [
  'ok', 'ok replayed', 'database_unavailable', 'commit_unknown', 'overloaded',
  'idempotency_key_in_progress'
]

const [killTitle, { skip }] = withPooler(
  'responses are true, and keys hold, when PgBouncer, sessions or a backend end under load'
)

tap.test(killTitle, { skip: skip || skipWithoutServer }, async t => {
  // The whole server restarts when a backend is killed.
  const { url } = (await useRestartableServer(t)).current()
  const before = process.env['TEST_DATABASE_URL']
  t.teardown(() => {
    process.env['TEST_DATABASE_URL'] = before
  })
  process.env['TEST_DATABASE_URL'] = url
  const { service, pooler } = await useServiceBehindPooler(t, { schema: `${schema} -- here` })
  const { database: { sql, name } } = service
  const load = startLoad(service, 12)
  const keyed = startKeyedLoad(12, (batch, headers) => service.post(batch, { headers }))
  const sessions = (count: number) =>
    sql`select pid from pg_stat_activity where datname = ${name} and usename = ${LOGIN_ROLE}
      order by random() limit ${count}`
  const ways = [
    () => pooler.kill(),
    async () => {
      for (const { pid } of await sessions(2)) await sql`select pg_terminate_backend(${pid})`
    },
    async () => {
      process.kill((await sessions(1))[0]?.['pid'] as number, 'SIGKILL')
      await until(async () => await sql`select`.then(() => false, () => true))
      await until(async () => await sql`select`.then(() => true, () => false))
    }
  ]
  for (const end of [...ways, ...ways, ...ways]) {
    const before = load.answers.size
    await keyed.more(30)
    await until(() => load.answers.size > before + 60)
    await end()
    await servesAgain(load)
  }
  await keyed.more(30)
  await load.stop()
  const codes = await audit(t, sql, load)
  t.comment(JSON.stringify(codes))
  await auditKeyed(t, sql, keyed)
  t.same(Object.keys({ ...codes, ...keyed.codes }).filter(code => !expected.includes(code)), [])
  t.equal((await service.post(pair(1_000_000))).status, 200)
  await until(async () => (await sessionsOf(service)).every(({ state }) => state === 'idle'))
})

const read = (name: string): Promise<string> =>
  readFile(new URL(`../../deploy/pgbouncer/${name}`, import.meta.url), 'utf8')

tap.test(...withPooler('batches and keys work with the shipped configuration'), async t => {
  const [ini, databases, users] = [
    await read('pgbouncer.ini'),
    await read('compose/databases.ini'),
    await read('compose/userlist.txt')
  ]
  const url = process.env['TEST_DATABASE_URL'] as string
  const pooler = await startPooler(t, url, ({ directory, port, server }) => ({
    'pgbouncer.ini': ini.replaceAll('/etc/pgbouncer', directory)
      .replace('listen_addr = *', 'listen_addr = 127.0.0.1')
      .replace('6432', String(port)),
    'databases.ini': databases.replace(/^shop = .*$/m, `* = ${server}`),
    'userlist.txt': users.replace('"oneflight" "oneflight"', '"oneflight_login" "login"')
  }))
  // As compose.yaml and the overlay configure it.
  const service = await useService(t, {
    schema,
    keys: true,
    env: { PREPARED_STATEMENTS: 'off', POOL_SIZE: '10', QUEUE_SIZE: '100' },
    databaseUrl: pooler.through
  })
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) =>
    service.post(move(i % 30), { headers: { 'idempotency-key': `move-${i % 30}` } })))
  t.same(
    answers.filter(({ status, body }) =>
      status !== 200 && body.error.code !== 'idempotency_key_in_progress'
    ).map(({ text }) => text),
    []
  )
  t.same(await service.database.sql`select count(*)::int as n from moves`, [{ n: 30 }])
  t.not((await sessionsOf(service)).length, 0, 'there are connections to the server')

  t.notMatch(pooler.output(), /ERROR|FATAL|WARNING/i)
  // The stop signal of compose.yaml and the overlay. PgBouncer exits after its transactions, even
  // with connected clients.
  t.equal(await pooler.end('SIGINT'), 0)
})
