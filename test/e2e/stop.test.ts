/**
 * Tests the process of the service: start, failed starts, and stops by signals, timeouts and
 * errors.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { readConfig } from '../../src/config/config.ts'
import { startService } from '../../src/server/service.ts'
import { useDatabase, type Database } from '../support/database/database.ts'
import { holdRow } from '../support/database/hold.ts'
import { childEnvironment, preload } from '../support/process/process.ts'
import {
  answering,
  ask,
  gauge,
  refusing,
  SECRET,
  testEnvironment,
  token,
  type Answer
} from '../support/service.ts'
import { until } from '../support/until.ts'

const main = join(import.meta.dirname, '../../src/main.ts')

const schema = `
  create table t (n int primary key);
  insert into t values (0);
  create table nap (seconds float8);
  create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(new.seconds);
    return new; end $$;
  create trigger nap before insert on nap for each row execute function nap();
  grant all on t, nap to oneflight_user;`

interface Running {
  readonly child: ChildProcess
  readonly url: string
  readonly adminUrl: string
  /** The output so far. */
  output(): string
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>
}

/** Starts the service with only `env` and the variables that Node needs. */
function spawnService (
  t: Test,
  env: Readonly<Record<string, string>>
): Pick<Running, 'child' | 'output' | 'ended'> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
    env: childEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, output: () => text, ended }
}

async function run (
  t: Test,
  { loginUrl }: Database,
  env: Readonly<Record<string, string>> = {}
): Promise<Running> {
  const service = spawnService(t, { DATABASE_URL: loginUrl, ...testEnvironment, ...env })
  const address = async (name: string): Promise<string> =>
    await until(() =>
      new RegExp(`${name} server listening at (http://[^"]+)`).exec(service.output())?.[1]
    )
  return { ...service, url: await address('main'), adminUrl: await address('admin') }
}

const post = (url: string, batch: unknown): Promise<Answer> =>
  ask(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${token({ role: 'oneflight_user' })}`
    },
    body: JSON.stringify(batch)
  })
const nap = (seconds: number): object[] => [
  { id: 'n', op: 'insert', table: 'nap', values: [{ seconds }] }
]
const lock = [{ id: 't', op: 'update', table: 't', set: { n: 0 }, where: { n: { eq: 0 } } }]

const sessions = async ({ sql, name }: Database): Promise<number> =>
  (await sql`select from pg_stat_activity where datname = ${name} and usename = 'oneflight_login'`)
    .length
const sleepers = ({ sql, name }: Database, count: number): Promise<unknown> =>
  until(async () =>
    (await sql`select from pg_stat_activity where datname = ${name} and wait_event = 'PgSleep'`)
      .length === count
  )

t.test('SIGTERM while the service loads: nothing starts, or everything stops', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  // The signal is sent when main.ts installs its handler. A signal sent earlier may be handled only
  // after everything is loaded, because Node may load without a pause.
  const send = (action: string): string =>
    "process.on('newListener', function sending (name, { name: by }) { if (name !== " +
    "'SIGTERM' || by !== 'leave') return; process.off('newListener', sending); " +
    `queueMicrotask(() => ${action}) })`
  const signals = [
    ["process.emit('SIGTERM')", /^$/],
    ["process.kill(process.pid, 'SIGTERM')", /^$|"msg":"stopping"/]
  ] as const
  for (const [action, output] of signals) {
    const service = spawnService(t, {
      DATABASE_URL: loginUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0',
      ...preload(send(action))
    })
    t.equal(await service.ended, 0, action)
    t.match(service.output(), output)
  }
})

t.test('SIGTERM before a server listens: the service starts completely and stops', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  // Sent just before the first server listens.
  const script = "import net from 'node:net'; const { listen } = net.Server.prototype; " +
    'net.Server.prototype.listen = function (...all) { net.Server.prototype.listen = ' +
    "listen; process.kill(process.pid, 'SIGTERM'); return listen.apply(this, all) }"
  const { ended, output } = spawnService(t, {
    DATABASE_URL: loginUrl,
    JWT_SECRET: SECRET,
    HTTP_PORT: '0',
    ADMIN_HTTP_PORT: '0',
    ...preload(script)
  })
  t.equal(await ended, 0)
  t.match(output(), /"signal":"SIGTERM","msg":"stopping"/)
})

t.test('SIGTERM: accepted batches are served and all sessions are closed', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(t, database, {
    LOCK_TIMEOUT_MS: '60000',
    STATEMENT_TIMEOUT_MS: '60000'
  })
  await answering(`${service.adminUrl}/ready`)
  const row = await holdRow(database, 'select from t')
  // More batches than connections, so some wait in the queue.
  const batches = Array.from({ length: 6 }, () => post(service.url, [...nap(0), ...lock]))
  await row.awaited(4)
  await until(async () => await gauge(service, 'service_pool_waiting') === 2)
  service.child.kill('SIGTERM')
  await until(() => service.output().includes('"stopping"'))
  t.match(await ask(`${service.adminUrl}/ready`), {
    status: 503,
    body: { ok: false, error: 'stopping' }
  })
  t.match(await ask(`${service.adminUrl}/live`), { status: 200 })
  await refusing(service)
  await row.free()
  t.same((await Promise.all(batches)).map(({ status }) => status), Array(6).fill(200))
  t.equal(await service.ended, 0)
  t.equal((await database.sql`select from nap`).length, 6)
  await until(async () => await sessions(database) === 0)
})

t.test('SHUTDOWN_DELAY_MS: requests are still served, with connection: close', async t => {
  const database = await useDatabase(t, { schema })
  // Long timeouts, so that no request in this test is too late.
  const service = await run(t, database, {
    SHUTDOWN_DELAY_MS: '3599999',
    SHUTDOWN_TIMEOUT_MS: '3600000'
  })
  await answering(`${service.url}/health`)
  service.child.kill('SIGTERM')
  await until(() => service.output().includes('"stopping"'))
  t.match(await ask(`${service.adminUrl}/ready`), {
    status: 503,
    body: { ok: false, error: 'stopping' }
  })
  const health = await ask(`${service.url}/health`)
  t.match(health, { status: 503, body: { ok: false, error: 'stopping' } })
  t.equal(health.headers.get('retry-after'), '1')
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.url).port) })
  t.teardown(() => socket.destroy())
  const body = JSON.stringify(nap(0))
  const bytes = `POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${
    token({ role: 'oneflight_user' })
  }\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  // The second request is not served, because the first response announced the close.
  socket.write(bytes + bytes)
  const answer = await text(socket)
  t.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(answer, /\r\nconnection: close\r\n/)
  t.equal(answer.split('HTTP/1.1').length, 2)
  t.equal((await database.sql`select from nap`).length, 1)
  // Also for errors before Fastify's hooks.
  t.match(
    (await ask(`${service.url}/%zz`, { headers: { connection: 'keep-alive' } })).headers.get(
      'connection'
    ),
    'close'
  )
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 1, 'a second signal exits at once')

  const brief = await run(t, database, { SHUTDOWN_DELAY_MS: '300' })
  const started = performance.now()
  brief.child.kill('SIGTERM')
  t.equal(await brief.ended, 0)
  t.ok(performance.now() - started >= 300)
})

t.test('an idle service stops, also with open connections', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(t, database)
  t.equal((await post(service.url, nap(0))).status, 200)
  const { hostname, port } = new URL(service.url)
  const silent = connect({ host: hostname, port: Number(port) })
  await once(silent, 'connect')
  service.child.kill('SIGINT')
  t.equal(await service.ended, 0)
  silent.destroy()
  await until(async () => await sessions(database) === 0)
})

t.test('a second signal and SHUTDOWN_TIMEOUT_MS force the exit', async t => {
  const database = await useDatabase(t, { schema })
  const rows: ReadonlyArray<
    readonly [string, Record<string, string>, (child: ChildProcess) => void, RegExp]
  > = [
    ['second signal', {}, child => {
      child.kill('SIGTERM')
    }, /"signal":"SIGTERM".*second signal received/],
    ['timeout', { SHUTDOWN_TIMEOUT_MS: '200' }, () => {}, /"delay":200.*shutdown timed out/]
  ]
  for (const [name, env, force, logged] of rows) {
    const service = await run(t, database, env)
    const batch = post(service.url, nap(60)).catch(() => 'cut')
    await sleepers(database, 1)
    service.child.kill('SIGTERM')
    await until(() => service.output().includes('"stopping"'))
    force(service.child)
    t.equal(await service.ended, 1, name)
    t.match(service.output(), logged)
    t.equal(await batch, 'cut')
    await until(async () => await sessions(database) === 0)
  }
  t.same(await database.sql`select * from nap`, [])
})

t.test('SIGKILL: locks are released soon', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(t, database)
  const batch = post(service.url, [...lock, ...nap(60)]).catch(() => 'cut')
  await sleepers(database, 1)
  service.child.kill('SIGKILL')
  t.equal(await service.ended, 'SIGKILL')
  t.equal(await batch, 'cut')
  // With the lock held, the update would wait for a minute. The test's own timeout is longer than
  // that of the statement.
  await database.sql.unsafe(
    "set statement_timeout = '10s'; update t set n = 0; reset statement_timeout"
  )
  t.same(await database.sql`select * from nap`, [])
})

t.test('an invalid configuration: exit code 1 and one line for each problem', async t => {
  const rows: ReadonlyArray<readonly [Record<string, string>, readonly RegExp[]]> = [
    [{}, [
      /^oneflight: DATABASE_URL: required$/,
      /^oneflight: JWT_SECRET, JWT_PUBLIC_KEY, JWT_JWKS_URL, JWT_JWKS, ANON_ROLE: /
    ]],
    [{ DATABASE_URL: 'mysql://x', JWT_SECRET: 'short', POOL_SIZE: 'many' }, [
      /^oneflight: /,
      /^oneflight: /,
      /^oneflight: /
    ]]
  ]
  for (const [env, lines] of rows) {
    const { ended, output } = spawnService(t, env)
    t.equal(await ended, 1)
    const printed = output().trim().split('\n')
    t.equal(printed.length, lines.length, output())
    for (const line of lines) t.ok(printed.some(text => line.test(text)), `${line}`)
    t.notMatch(output(), /short/)
  }
})

t.test('a port in use: exit code 1, and neither server listens', async t => {
  const database = await useDatabase(t, { schema })
  const other = createServer()
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const taken = String((other.address() as AddressInfo).port)
  for (const name of ['HTTP_PORT', 'ADMIN_HTTP_PORT']) {
    const { ended, output } = spawnService(t, {
      DATABASE_URL: database.loginUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0',
      [name]: taken
    })
    t.equal(await ended, 1, name)
    t.match(output(), new RegExp(`"reason":"${name}: listen EADDRINUSE.*could not start`))
  }
  const settings = readConfig({
    DATABASE_URL: database.loginUrl,
    JWT_SECRET: SECRET,
    HTTP_PORT: '0',
    ADMIN_HTTP_PORT: taken
  })
  await t.rejects(startService({ ...settings, logger: pino({ level: 'silent' }) }), {
    code: 'EADDRINUSE'
  })
  // A documentation address (RFC 5737), which no machine has.
  const elsewhere = { ...settings.config, HTTP_HOST: '192.0.2.1' }
  await t.rejects(
    startService({ ...settings, config: elsewhere, logger: pino({ level: 'silent' }) }),
    { message: /^HTTP_HOST: listen EADDRNOTAVAIL/ }
  )
})

t.test('the service starts without a database', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(t, database, { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/d' })
  t.match(await ask(`${service.adminUrl}/ready`), {
    status: 503,
    body: { ok: false, error: 'database' }
  })
  t.match(await ask(`${service.url}/health`), { status: 503 })
  t.match((await post(service.url, nap(0))).body, {
    error: { code: 'database_unavailable', committed: false }
  })
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 0)
})

t.test('an uncaught error: exit code 1, and its message is not logged', async t => {
  const database = await useDatabase(t, { schema })
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
    const service = await run(t, database, {
      SHUTDOWN_DELAY_MS: '3599999',
      SHUTDOWN_TIMEOUT_MS: '3600000',
      ...preload(`process.on('SIGUSR2', () => { throw ${thrown} })`)
    })
    service.child.kill('SIGUSR2')
    t.equal(await service.ended, 1)
    t.match(service.output(), logged)
    t.match(service.output(), /uncaught error/)
    t.notMatch(service.output(), /hush/)
  }
})

t.test('an uncaught error during the stop exits at once', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(
    t,
    database,
    preload("process.on('SIGUSR2', () => { throw new RangeError('hu' + 'sh') })")
  )
  const batch = post(service.url, nap(60)).catch(() => 'cut')
  await sleepers(database, 1)
  service.child.kill('SIGTERM')
  await until(() => service.output().includes('"stopping"'))
  service.child.kill('SIGUSR2')
  t.equal(await service.ended, 1)
  t.equal(await batch, 'cut')
  t.match(service.output(), /RangeError\\n {4}at .*second error: exiting/)
  t.notMatch(service.output(), /hush/)
})

t.test('a failed stop: exit code 1', async t => {
  const database = await useDatabase(t, { schema })
  const service = await run(
    t,
    database,
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
