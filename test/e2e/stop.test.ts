/**
 * Tests the process of the service: start, failed starts, and stops by signals, timeouts and
 * errors.
 */
import type { ChildProcess } from 'node:child_process'
import { createServer, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { readConfig } from '../../src/config/config.ts'
import { startService } from '../../src/server/service.ts'
import { useDatabase } from '../support/database/database.ts'
import { holdRow, untilSessions } from '../support/database/hold.ts'
import { useListener } from '../support/network/listen.ts'
import { request } from '../support/network/wire.ts'
import { preload, startMain, type Group } from '../support/process/process.ts'
import {
  answering,
  ask,
  gauge,
  refusing,
  SECRET,
  testEnvironment
} from '../support/service.ts'
import { insert, update } from '../support/operations.ts'
import { headersOfBatch, postBatch as post } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `
  create table t (n int primary key);
  insert into t values (0);
  create table nap (seconds float8);
  create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(new.seconds);
    return new; end $$;
  create trigger nap before insert on nap for each row execute function nap();`

const database = await useDatabase(t, { schema })
const { sql } = database
/** The settings of a service that does not need those of other tests. */
const settings = {
  DATABASE_URL: database.loginUrl,
  JWT_SECRET: SECRET,
  HTTP_PORT: '0',
  ADMIN_HTTP_PORT: '0'
}
/** Longer than any test. */
const longDelays = { SHUTDOWN_DELAY_MS: '3599999', SHUTDOWN_TIMEOUT_MS: '3600000' }
const stopping = { status: 503, body: { ok: false, error: 'stopping' } }

t.beforeEach(() => sql`truncate nap`)

interface Running extends Group {
  readonly url: string
  readonly adminUrl: string
}

async function run (t: Test, env: Readonly<Record<string, string>> = {}): Promise<Running> {
  const service = startMain(t, { ...settings, ...testEnvironment, ...env })
  const [url, adminUrl] = [await until(() => service.address('main')),
    await until(() => service.address('admin'))]
  return { ...service, url, adminUrl }
}

const untilStopping = ({ output }: Running): Promise<unknown> =>
  until(() => output().includes('"stopping"'))

const nap = (seconds: number): object[] => [insert('n', 'nap', [{ seconds }])]
const lock = [update('t', 't', { set: { n: 0 }, where: { n: { eq: 0 } } })]

const untilSleeping = (): Promise<unknown> =>
  untilSessions(database, 1, "wait_event = 'PgSleep'")

t.test('SIGTERM while the service loads: nothing starts', async t => {
  // The signal is emitted when main.ts installs its handler. One that is sent may be handled only
  // after everything is loaded, because Node may load without a pause.
  const send = "process.on('newListener', function sending (name, { name: by }) { if (name !== " +
    "'SIGTERM' || by !== 'leave') return; process.off('newListener', sending); " +
    "queueMicrotask(() => process.emit('SIGTERM', 'SIGTERM')) })"
  const service = startMain(t, { ...settings, ...preload(send) })
  t.equal(await service.ended, 0)
  t.equal(service.output(), 'oneflight: SIGTERM before the start\n')
})

t.test('SIGTERM before a server listens: the service starts completely and stops', async t => {
  // Sent just before the first server listens.
  const script = "import net from 'node:net'; const { listen } = net.Server.prototype; " +
    'net.Server.prototype.listen = function (...all) { net.Server.prototype.listen = ' +
    "listen; process.kill(process.pid, 'SIGTERM'); return listen.apply(this, all) }"
  const { ended, output } = startMain(t, { ...settings, ...preload(script) })
  t.equal(await ended, 0)
  t.match(output(), /"signal":"SIGTERM","msg":"stopping"/)
})

t.test('SIGTERM: accepted batches are served and all sessions are closed', async t => {
  const service = await run(t, { LOCK_TIMEOUT_MS: '60000', STATEMENT_TIMEOUT_MS: '60000' })
  await answering(`${service.adminUrl}/ready`)
  const row = await holdRow(database, 'select from t')
  // More batches than connections, so some wait in the queue.
  const batches = Array.from({ length: 6 }, () => post(service.url, [...nap(0), ...lock]))
  await row.awaited(4)
  await until(async () => await gauge(service, 'service_pool_waiting') === 2)
  service.child.kill('SIGTERM')
  await untilStopping(service)
  await refusing(service)
  await row.free()
  t.same((await Promise.all(batches)).map(({ status }) => status), Array(6).fill(200))
  t.equal(await service.ended, 0)
  t.equal((await sql`select from nap`).length, 6)
  await untilSessions(database, 0)
})

t.test('SHUTDOWN_DELAY_MS: requests are still served, with connection: close', async t => {
  // Long timeouts, so that no request in this test is too late.
  const service = await run(t, longDelays)
  await answering(`${service.url}/health`)
  service.child.kill('SIGTERM')
  await untilStopping(service)
  const health = await ask(`${service.url}/health`)
  t.match(health, stopping)
  t.equal(health.headers.get('retry-after'), '1')
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.url).port) })
  t.teardown(() => socket.destroy())
  const bytes = request('POST', '/', headersOfBatch(), JSON.stringify(nap(0)))
  // The second request is not served, because the first response announced the close.
  socket.write(bytes + bytes)
  const answer = await text(socket)
  t.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(answer, /\r\nconnection: close\r\n/)
  t.equal(answer.split('HTTP/1.1').length, 2)
  t.equal((await sql`select from nap`).length, 1)
  // Also for errors before Fastify's hooks.
  const early = await ask(`${service.url}/%zz`, { headers: { connection: 'keep-alive' } })
  t.equal(early.headers.get('connection'), 'close')
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 1, 'a second signal exits at once')
})

t.test('a second signal and SHUTDOWN_TIMEOUT_MS force the exit', async t => {
  const rows: ReadonlyArray<
    readonly [string, Record<string, string>, (child: ChildProcess) => void, RegExp]
  > = [
    ...['1', '2'].map((WORKERS): (typeof rows)[number] => [
      `second signal, WORKERS=${WORKERS}`,
      { WORKERS },
      child => {
        child.kill('SIGTERM')
      },
      /"signal":"SIGTERM".*second signal received/
    ]),
    ['timeout', { SHUTDOWN_TIMEOUT_MS: '200' }, () => {}, /"delay":200.*shutdown timed out/]
  ]
  for (const [name, env, force, logged] of rows) {
    const service = await run(t, env)
    const batch = post(service.url, nap(60)).catch(() => 'cut')
    await untilSleeping()
    service.child.kill('SIGTERM')
    await untilStopping(service)
    force(service.child)
    t.equal(await service.ended, 1, name)
    t.match(service.output(), logged)
    t.equal(await batch, 'cut')
    await untilSessions(database, 0)
  }
  t.same(await sql`select * from nap`, [])
})

t.test('SIGKILL: locks are released soon', async t => {
  const service = await run(t)
  const batch = post(service.url, [...lock, ...nap(60)]).catch(() => 'cut')
  await untilSleeping()
  service.child.kill('SIGKILL')
  t.equal(await service.ended, 'SIGKILL')
  t.equal(await batch, 'cut')
  // With the lock held, the update would wait for a minute. The test's own timeout is longer than
  // that of the statement.
  await sql.unsafe("set statement_timeout = '10s'; update t set n = 0; reset statement_timeout")
  t.same(await sql`select * from nap`, [])
})

t.test('a port in use: exit code 1, and neither server listens', async t => {
  const taken = String(await useListener(t, createServer()))
  for (const WORKERS of ['1', '2']) {
    for (const name of ['HTTP_PORT', 'ADMIN_HTTP_PORT']) {
      const { ended, output } = startMain(t, { ...settings, WORKERS, [name]: taken })
      t.equal(await ended, 1, name)
      t.match(output(), new RegExp(`"reason":"${name}: \\w+ EADDRINUSE.*could not start`))
    }
  }
  const logger = pino({ level: 'silent' })
  const read = readConfig({ ...settings, ADMIN_HTTP_PORT: taken })
  await t.rejects(startService({ ...read, logger }), { code: 'EADDRINUSE' })
  // A documentation address (RFC 5737), which no machine has.
  const config = { ...read.config, HTTP_HOST: '192.0.2.1' }
  await t.rejects(startService({ ...read, config, logger }), {
    message: /^HTTP_HOST: listen EADDRNOTAVAIL/
  })
})

t.test('an uncaught error: exit code 1, and its message is not logged', async t => {
  const errors = [
    [
      "Object.assign(new RangeError('hu' + 'sh'), { detail: 'hu' + 'sh' })",
      /"reason":"RangeError\\n {4}at process/
    ],
    ["'hu' + 'sh'", /"reason":"a thrown string"/]
  ] as const
  for (const [thrown, logged] of errors) {
    // The process is in an unknown state and must accept no further requests, so these timeouts do
    // not apply.
    const service = await run(t, {
      ...longDelays,
      ...preload(`process.on('SIGUSR2', () => { throw ${thrown} })`)
    })
    service.child.kill('SIGUSR2')
    t.equal(await service.ended, 1)
    t.match(service.output(), logged)
    t.match(service.output(), /uncaught error/)
    t.notMatch(service.output(), /hush/)
  }
})

t.test('an uncaught error during the start does not wait for its end', async t => {
  const { ended, output } = startMain(t, {
    ...settings,
    ...testEnvironment,
    ...longDelays,
    ...preload(`
      import { subscribe } from 'node:diagnostics_channel'
      subscribe('fastify.initialization', ({ fastify }) =>
        fastify.addHook('onReady', () => {
          setImmediate(() => { throw new RangeError('hu' + 'sh') })
          return new Promise(() => {})
        }))`)
  })
  t.equal(await ended, 1)
  t.match(output(), /"reason":"RangeError\\n {4}at .*uncaught error: stopping.*"msg":"stopped"/s)
  t.notMatch(output(), /hush|could not start/)
})

t.test('an uncaught error during the stop exits at once', async t => {
  const service = await run(
    t,
    preload("process.on('SIGUSR2', () => { throw new RangeError('hu' + 'sh') })")
  )
  const batch = post(service.url, nap(60)).catch(() => 'cut')
  await untilSleeping()
  service.child.kill('SIGTERM')
  await untilStopping(service)
  service.child.kill('SIGUSR2')
  t.equal(await service.ended, 1)
  t.equal(await batch, 'cut')
  t.match(service.output(), /RangeError\\n {4}at .*second error: exiting/)
  t.notMatch(service.output(), /hush/)
})

t.test('a failed stop: exit code 1', async t => {
  const service = await run(
    t,
    preload(`
    import { subscribe } from 'node:diagnostics_channel'
    subscribe('fastify.initialization', ({ fastify }) =>
      fastify.addHook('onClose', async () => { throw new RangeError('hu' + 'sh') }))`)
  )
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 1)
  t.match(service.output(), /RangeError\\n {4}at .*could not stop the service cleanly/)
  t.notMatch(service.output(), /hush/)
})
