/**
 * The connection pool: connections, queue and waits are limited, excess requests fail fast, and a
 * lost connection is never handed out.
 */
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { closeConnection } from '../../src/postgres/connection.ts'
import { HealthCheck } from '../../src/postgres/health-check.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import type { CompiledBatch } from '../../src/sql/frame/compiled-batch.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import { useDatabase } from '../support/database/database.ts'
import { plainBatch, useEngine } from '../support/database/engine.ts'
import { countSessions, holdRow, untilSessions } from '../support/database/hold.ts'
import { errorResponse } from '../support/network/messages.ts'
import { useProxy, type Link } from '../support/network/proxy.ts'
import { startServer } from '../support/network/tls-server.ts'
import { gauge, useService } from '../support/service.ts'
import { on } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const soon = (ms = 5000): number => performance.now() + ms
const NAP = 'select pg_sleep(0.3)::text'

const database = await useDatabase(t, {
  schema: `
    create table slots (id int primary key, n int);
    insert into slots values (0);
    create table t (n int);`
})
const { sql, name, loginUrl, url: superuserUrl } = database
const touch = [{ id: 'u', op: 'update', table: 'slots', set: { n: 1 }, where: { id: { eq: 0 } } }]
const env = { POOL_SIZE: '2', LOCK_TIMEOUT_MS: '60000', STATEMENT_TIMEOUT_MS: '60000' }

const terminate = () =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${name} and usename = 'oneflight_login'`

/** The URL of a server that accepts connections and never sends a byte. */
async function useSilentServer (t: Test): Promise<string> {
  const { port, stop } = await startServer('silent')
  t.teardown(stop)
  return `postgres://u@127.0.0.1:${port}/d`
}

t.test('requests beyond pool size and queue size fail at once', async t => {
  const { pool, run } = useEngine(t, loginUrl, { queueSize: 1 })
  const first = run([NAP])
  const second = run([NAP])
  t.equal(pool.count().waiting, 2, 'the first request waits for its connection to open')
  await t.rejects(run([NAP]), { code: 'overloaded', status: 503 })
  t.match(
    await Promise.all([first, second]),
    [{ kind: 'committed' }, { kind: 'committed' }],
    'the third request was rejected before these ended'
  )
  t.equal(await countSessions(database), 1)
})

t.test('opening the first connection early does not occupy the queue', async t => {
  const { pool, run } = useEngine(t, loginUrl, { queueSize: 0 })
  const warmed = pool.warm()
  t.equal(pool.count().waiting, 0)
  t.match(await run(['select 1::text']), { kind: 'committed' })
  await warmed
})

t.test('a login role that bypasses row level security causes one warning', async t => {
  for (const url of [superuserUrl, loginUrl]) {
    const service = await useService(t, { ...on(database), env, databaseUrl: () => url })
    const idle = async (n: number): Promise<boolean> =>
      await gauge(service, 'service_pool_connections_idle') === n
    await until(() => idle(1))
    const warnings = (): unknown[] => service.log.filter(({ level }) => level === 40)
    const warning = {
      role: new URL(url).username,
      msg: /^login role is superuser or has BYPASSRLS: /
    }
    const expected = url === superuserUrl ? [warning] : []
    await until(() => warnings().length === expected.length)
    t.match(warnings(), expected, 'at the start')
    const slot = await holdRow(database)
    const batches = [1, 2].map(() => service.post(touch))
    await slot.awaited(2)
    await slot.free()
    await Promise.all(batches)
    await until(() => idle(2))
    t.equal(warnings().length, expected.length, 'with a second connection')
  }
})

t.test('several hosts without a synchronous standby cause one warning', async t => {
  const severalHosts = (login: string): string => {
    const { host } = new URL(login)
    return login.replace(host, `${host},${host}`)
  }
  const { log } = await useService(t, { ...on(database), env, databaseUrl: severalHosts })
  await until(() => log.some(({ level }) => level === 40))
  t.match(log.filter(({ level }) => level === 40), [
    { msg: 'replication is asynchronous: a failover can lose batches that were answered 200' }
  ])
})

t.test('closing does not wait for a silent server', async t => {
  const silent = await useSilentServer(t)
  const { host } = new URL(silent)
  for (const url of [silent, `postgres://u@${host},${host}/d?sslmode=require`]) {
    const target = { ...parseDatabaseUrl(url), connectTimeoutMs: 600_000 }
    const { pool, run, openFailures } = useEngine(t, url, { target, queueTimeoutMs: 100 })
    await t.rejects(run([NAP]), { code: 'database_unavailable' }, url)
    const changes: object[] = []
    const probe = new HealthCheck(target, change => changes.push(change))
    const answer = probe.reachable()
    await Promise.all([pool.close(), probe.close()])
    t.equal(await answer, false)
    t.same([openFailures, changes], [[], []], 'closing is not reported as a failure')
  }
})

t.test('closing rejects waiting batches and completes running ones', async t => {
  const { pool, run } = useEngine(t, loginUrl)
  const gate = 'select pg_advisory_xact_lock(1)::text'
  const lock = await holdRow(database, gate)
  const running = run([gate])
  const waiting = run([gate])
  await lock.awaited()
  const closed = pool.close()
  await t.rejects(waiting, { code: 'shutting_down', status: 503 })
  await t.rejects(run([gate]), { code: 'shutting_down' })
  await lock.free()
  t.match(await running, { kind: 'committed' })
  await closed
  await untilSessions(database, 0)
})

t.test('a connection is replaced after its lifetime', async t => {
  const { pool } = useEngine(t, loginUrl)
  const first = await pool.acquire(soon())
  t.equal(Math.round((first.expiresAt - performance.now()) / 600_000), 3)
  pool.release(first)
  Object.assign(first, { expiresAt: performance.now() })
  const second = await pool.acquire(soon())
  pool.release(second)
  t.not(second, first)
  await untilSessions(database, 1)
})

t.test('a failed statement counts as prepared only if the server holds it', async t => {
  const { pool, run } = useEngine(t, loginUrl)
  const first = await pool.acquire(soon())
  pool.release(first)
  for (let shape = 0; shape < 300; shape += 50) {
    // The first statement is invalid, so the server does not parse the others.
    const texts = [
      'select nowhere',
      ...Array.from({ length: 50 }, (_, i) => `select '${shape + i}' as never`)
    ]
    for (let i = 0; i < 3; i++) {
      t.match(await run(texts), { kind: 'failed', at: 0, error: { code: '42703' } })
    }
  }
  const fails = 'select (1 / (random() * 0)::int)::text as late'
  for (let i = 0; i < 4; i++) {
    t.match(await run([fails]), { kind: 'failed', at: 0, error: { code: '22012' } })
  }
  const held = `select string_agg(statement, ',') from pg_prepared_statements
    where statement ~ ' (nowhere|never|late)$'`
  t.match(await run([held]), { rows: [Buffer.from(fails)] })
  const connection = await pool.acquire(soon())
  pool.release(connection)
  t.equal(connection, first, 'the connection was not replaced')
  t.ok(connection.prepared.names.has(fails))
  t.notOk(connection.prepared.names.has('select nowhere'))
})

t.test('a connection opens on the first host that fits the URL', async t => {
  const silent = new URL(await useSilentServer(t)).host
  const { host, pathname } = new URL(loginUrl)
  const on = (hosts: string, query: string): string =>
    `postgres://oneflight_login:login@${hosts}${pathname}?${query}`
  const readOnly = 'options=-c%20default_transaction_read_only=on'
  const rows: ReadonlyArray<readonly [hosts: string, query: string, reason?: RegExp]> = [
    ...['primary', 'read-write', 'prefer-standby', `read-only&${readOnly}`]
      .map(attributes => [host, `target_session_attrs=${attributes}`] as const),
    ...['standby', 'read-only', `read-write&${readOnly}`].map(attributes => [
      host,
      `target_session_attrs=${attributes}`,
      new RegExp(`^no host matches target_session_attrs=${attributes.split('&')[0]}$`)
    ] as const),
    [`127.0.0.1:1,${host}`, ''],
    ...[`127.0.0.1:1,${host}`, `${host},127.0.0.1:1`].map(hosts => [
      hosts,
      'target_session_attrs=standby',
      /^no host matches target_session_attrs=standby; .*127\.0\.0\.1:1: /
    ] as const),
    [
      `127.0.0.1:1,${silent},${host}`,
      'target_session_attrs=standby&connect_timeout=1',
      /^no host matches target_session_attrs=standby; 127\.0\.0\.1:1: .*; .*: no session within /
    ],
    [`${silent},${host}`, 'connect_timeout=2'],
    [silent, 'connect_timeout=1', /^127\.0\.0\.1:\d+: no session within 1000 ms$/]
  ]
  await Promise.all(rows.map(async ([hosts, query, reason]) => {
    const target = parseDatabaseUrl(on(hosts, query))
    if (reason !== undefined) {
      await t.rejects(openConnection(target), { message: reason }, `${hosts} ${query}`)
      return
    }
    const connection = await openConnection(target)
    t.notOk(connection.state.dead, `${hosts} ${query}`)
    await closeConnection(connection)
    t.equal(connection.socket.readyState, 'closed')
  }))
})

t.test('each listed host gets at most one login', async t => {
  const proxy = await useProxy(t, loginUrl)
  const { host, pathname } = new URL(proxy.through(loginUrl))
  const links = new Set<unknown>()
  proxy.forward = link => {
    links.add(link)
    return true
  }
  const rows = [
    [`127.0.0.1:1,127.0.0.1:2,${host}`, 'standby', 1, false],
    [`${host},127.0.0.1:1,${host}`, 'standby', 2, false],
    [`${host},127.0.0.1:1`, 'prefer-standby', 1, true],
    [`${host},${host}`, 'prefer-standby', 2, true],
    [`${host},${host}`, 'primary', 1, true]
  ] as const
  for (const [hosts, attributes, logins, opened] of rows) {
    links.clear()
    const name = `${hosts} ${attributes}`
    const target = parseDatabaseUrl(
      `postgres://oneflight_login:login@${hosts}${pathname}?target_session_attrs=${attributes}`
    )
    const connection = await openConnection(target).catch(() => undefined)
    t.equal(connection !== undefined, opened, name)
    t.equal(links.size, logins, name)
    await until(() => proxy.links.size === (opened ? 1 : 0))
    if (connection !== undefined) await closeConnection(connection)
    await until(() => proxy.links.size === 0)
  }
})

t.test('a connection that is lost while its session starts is opened again', async t => {
  const proxy = await useProxy(t, loginUrl)
  const { host, pathname } = new URL(proxy.through(loginUrl))
  const ends: ReadonlyArray<readonly [name: string, end: (link: Link) => unknown]> = [
    ['terminated', ({ client }) => client.end(errorResponse('57P01', { severity: 'FATAL' }))],
    ['reset', ({ client }) => client.resetAndDestroy()]
  ]
  let losses = 0
  let logins = 0
  for (const [name, end] of ends) {
    proxy.forward = link => {
      // The start of a session, and then what the service asks about the server.
      if (link.sent.includes('application_name')) logins++
      if (losses === 0 || !link.sent.includes('pg_catalog')) return true
      losses--
      end(link)
      return false
    }
    for (const hosts of [host, `127.0.0.1:1,${host},127.0.0.1:2`]) {
      const target = parseDatabaseUrl(`postgres://oneflight_login:login@${hosts}${pathname}`)
      for (const times of [1, 2, 3]) {
        losses = times
        logins = 0
        const connection = await openConnection(target).catch(() => undefined)
        t.equal(connection !== undefined, times < 3, `${name} ${times}, ${hosts}`)
        t.equal(logins, Math.min(times + 1, 3))
        if (connection !== undefined) await closeConnection(connection)
      }
    }
  }
})

t.test('a connection that does not respond is closed', async t => {
  const proxy = await useProxy(t, loginUrl)
  const connection = await openConnection(parseDatabaseUrl(proxy.through(loginUrl)))
  proxy.forward = () => false
  connection.client.unsafe('select 1').catch(() => {})
  await closeConnection(connection)
  t.equal(connection.socket.readyState, 'closed')
})

t.test('the health check follows the state of the database', async t => {
  const proxy = await useProxy(t, loginUrl)
  const reported: object[] = []
  const probe = new HealthCheck(
    parseDatabaseUrl(proxy.through(loginUrl)),
    change => reported.push(change)
  )
  const changes = (answer: boolean): Promise<unknown> =>
    until(async () => await probe.reachable() === answer)
  await until(async () =>
    (await Promise.all([probe.reachable(), probe.reachable()])).every(answer => answer)
  )
  t.same(reported, [])
  // Concurrent checks share one connection.
  await until(() => proxy.links.size === 1)

  proxy.open = false
  proxy.cut()
  await changes(false)
  proxy.open = true
  await changes(true)

  proxy.forward = () => false
  await changes(false)
  proxy.forward = () => true
  await changes(true)
  t.match(reported, [{ failed: Error }, {}, { failed: Error }, {}], 'each change once')

  await terminate()
  await until(() => proxy.links.size === 0)
  await until(async () => await probe.reachable() && proxy.links.size === 1)
  await probe.close()
  t.equal(await probe.reachable(), false)
  await until(() => proxy.links.size === 0)

  const never = new HealthCheck(parseDatabaseUrl('postgres://u@127.0.0.1:1/d'), () => {})
  t.equal(await never.reachable(), false)
  await never.close()
})

t.test('an error in any step of an attempt returns the connection', async t => {
  const { pool, run } = useEngine(t, loginUrl)
  const batch = {
    ...plainBatch(["insert into t values (1) returning '[]'"]),
    functions: { lookup: () => undefined, remember () {}, forget () {} }
  }
  const rows = async (): Promise<unknown> => (await sql`select from t`).length
  let backend: string | undefined
  let committed = false
  for (let step = 1; !committed; step++) {
    const outcome = executeBatch(pool, failAtStep(batch, step), { deadline: soon() })
    committed = await outcome.then(({ kind }) => kind === 'committed', (error: Error) => {
      if (error.message !== 'injected') throw error
      return false
    })
    await until(() => pool.count().busy === 0)
    const used = await pool.acquire(soon())
    t.equal(used.backend?.pid, backend ?? used.backend?.pid, `step ${step}: the connection is kept`)
    backend = used.backend?.pid
    pool.release(used)
    t.match(await run(['select 1::text']), { kind: 'committed' }, 'and runs the next batch')
    t.equal(await rows(), committed ? 1 : 0, 'what failed has changed nothing')
  }
  const log: string[] = []
  const failing = { ...batch, operations: () => raise() }
  const options = { deadline: soon(), onRetry: (reason: string) => log.push(reason) }
  await t.rejects(executeBatch(pool, failing, options), { message: 'injected' })
  t.same(log, [], 'an error of the service is not retried')
})

function raise (): never {
  throw new Error('injected')
}

/** The batch, in which the read or the call number `step` of a member throws. */
function failAtStep (batch: CompiledBatch, step: number): CompiledBatch {
  let count = 0
  const next = (): void => {
    if (++count === step) raise()
  }
  return new Proxy(batch, {
    get (target, name) {
      next()
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return (...values: readonly unknown[]): unknown => {
        next()
        return Reflect.apply(member, target, values)
      }
    }
  })
}

t.test('a pool that gives no connection back is stuck, and the service not ready', async t => {
  const { pool, run } = useEngine(t, loginUrl, { queueTimeoutMs: 100 })
  const connection = await until(() => pool.acquire(soon()).catch(() => undefined))
  await t.rejects(run([NAP]), { code: 'overloaded' })
  t.equal(pool.isStuck(), false, 'a batch may take this long')
  const { now } = performance
  t.intercept(performance, 'now', { value: () => now.call(performance) + 60_000 })
  t.equal(pool.isStuck(), true)
  await t.rejects(run([NAP]), { code: 'overloaded' })
  t.equal(pool.isStuck(), true)
  pool.release(connection)
  t.equal(pool.isStuck(), false)
})
