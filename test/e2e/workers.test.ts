/**
 * Tests `WORKERS` of 2 or more with real processes, some of which are killed: several processes
 * share one port and one admin server, and start and stop together.
 */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { useDatabase, type Database } from '../support/database/database.ts'
import { untilSessions } from '../support/database/hold.ts'
import { preload, startMain, type Line, type Main } from '../support/process/process.ts'
import { answering, ask, testEnvironment, type Answer } from '../support/service.ts'
import { headersOfBatch, postBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

// Most tests start at least three processes.
t.setTimeout(300_000)

const schema = 'create table t (n int)'

/** Longer than a busy machine needs to start a process. */
const longTimeouts = {
  QUEUE_TIMEOUT_MS: '60000',
  LOCK_TIMEOUT_MS: '60000',
  STATEMENT_TIMEOUT_MS: '60000',
  REQUEST_TIMEOUT_MS: '60000'
}

interface Running extends Main {
  readonly url: string
  readonly adminUrl: string
  readonly database: Database
}

const spawnService = (t: Test, env: Readonly<Record<string, string>>): Main =>
  startMain(t, { ...testEnvironment, WORKERS: '2', QUEUE_SIZE: '100', ...longTimeouts, ...env })

/** Starts the service with a database. Resolves when this number of workers serves. */
async function run (
  t: Test,
  { env = {}, workers = 2 }: {
    readonly env?: Readonly<Record<string, string>>
    readonly workers?: number
  } = {}
): Promise<Running> {
  const database = await useDatabase(t, { schema })
  const service = spawnService(t, { DATABASE_URL: database.loginUrl, ...env })
  await until(() => serving(service).length === workers || service.child.exitCode !== null)
  await until(() =>
    service.child.exitCode !== null || service.output().includes('limits apply to each worker')
  )
  return {
    ...service,
    url: service.address('main') as string,
    adminUrl: service.address('admin') as string,
    database
  }
}

/** The log lines of workers that started to serve. */
const serving = ({ lines }: Main): readonly Line[] =>
  lines().filter(({ worker, msg }) => worker !== undefined && String(msg).startsWith('main server'))
/** The log lines of the primary about workers that exited. */
const exits = ({ lines }: Main): readonly Line[] =>
  lines().filter(({ msg }) => msg === 'worker exited unexpectedly')
const pidOf = (service: Main, worker: number): number =>
  serving(service).find(line => line['worker'] === worker)?.['pid'] as number

const insert = [{ id: 'i', op: 'insert', table: 't', values: [{ n: 1 }] }]
/** Posts a batch on a new connection. */
const post = ({ url }: Running, batch: unknown): Promise<Answer> => postBatch(url, batch)
const postMany = async (service: Running, count: number): Promise<number[]> => {
  const answers = await Promise.all(Array.from({ length: count }, () => post(service, insert)))
  return answers.map(({ status }) => status)
}

/**
 * Runs `work` while `count` batches wait for a lock, then releases it. Returns the statuses of the
 * batches.
 */
async function whileWaiting (
  service: Running,
  count: number,
  work: () => Promise<unknown>
): Promise<number[]> {
  const { sql, name } = service.database
  let batches: Promise<number[]> | undefined
  await sql.begin(async holder => {
    await holder`lock table t`
    batches = postMany(service, count)
    await until(async () =>
      (await sql`select from pg_stat_activity where datname = ${name} and wait_event_type = 'Lock'`)
        .length >= Math.min(count, 4)
    )
    await until(async () => {
      const answer = await scrape(service)
      const busy = metric(answer, 'service_pool_connections_busy')
      return busy + metric(answer, 'service_pool_waiting') === count
    })
    await work()
  })
  return await batches as number[]
}

/** Returns the value of a metric, or of its first sample if it has labels. */
const metric = ({ text }: Answer, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (.*)$`, 'm').exec(text)?.[1])
const scrape = ({ adminUrl }: Running): Promise<Answer> => ask(`${adminUrl}/metrics`)
const brief = ({ status, text }: Answer): unknown => [status, text]
const ready = async ({ adminUrl }: Running): Promise<unknown> =>
  brief(await ask(`${adminUrl}/ready`))
/** Waits until ready. The check of a worker waits up to a second for its connection. */
const untilReady = ({ adminUrl }: Running): Promise<unknown> => answering(`${adminUrl}/ready`)
const yes = [200, '{"ok":true}']
const no = (error: string): unknown => [503, `{"ok":false,"error":"${error}"}`]

async function stopCleanly (t: Test, { child, ended }: Main): Promise<void> {
  child.kill('SIGTERM')
  t.equal(await ended, 0)
}
/** Resolves when this number of processes has logged that it stops. */
const untilStopping = ({ lines }: Main, processes: number): Promise<unknown> =>
  until(() => lines().filter(({ msg }) => msg === 'stopping').length === processes)

t.test('all workers serve, and the admin server sums their metrics', async t => {
  const service = await run(t, { env: { WORKERS: '3' }, workers: 3 })
  t.same(await postMany(service, 60), Array(60).fill(200))
  const answer = await scrape(service)
  t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  t.equal(metric(answer, 'service_txn_count'), 60)
  t.equal(metric(answer, 'service_op_count'), 60)
  t.equal(metric(answer, 'service_txn_duration_milliseconds_count'), 60)
  t.match(answer.text, /^service_txn_duration_milliseconds_bucket\{le="\+Inf",.*\} 60$/m)
  t.match(answer.text, /^http_request_duration_seconds_count\{.*status_code="200".*\} 60$/m)
  const handled = (): readonly Line[] =>
    service.lines().filter(({ msg }) => msg === 'request completed')
  await until(() => handled().length === 60)
  t.same([...new Set(handled().map(({ worker }) => worker as number))].sort(), [1, 2, 3])
  t.equal(new Set(handled().map(({ request_id: id }) => id as string)).size, 60)

  await whileWaiting(
    service,
    12,
    () => until(async () => metric(await scrape(service), 'service_pool_connections_busy') > 4)
  )
  // The metric is rounded to seconds.
  t.ok(
    metric(answer, 'process_start_time_seconds') <= service.lines()[0]?.['time'] / 1000 + 0.5,
    'the start time is that of the primary'
  )
  t.ok(metric(answer, 'nodejs_eventloop_lag_max_seconds') < 60, 'the lag is not summed')
  t.notMatch(answer.text, /_summary/)

  await untilReady(service)
  t.same(brief(await ask(`${service.adminUrl}/live`)), yes)
  t.match((await ask(`${service.adminUrl}/config`)).body, {
    WORKERS: 3,
    POOL_SIZE: 4,
    JWT_SECRET: '[redacted]'
  })
  t.match(service.lines().find(({ workers }) => workers !== undefined), {
    workers: 3,
    pool_size: 4,
    connections: 24
  })
  await stopCleanly(t, service)
  await untilSessions(service.database, 0)
})

t.test('a killed worker is replaced, and no counter decreases', async t => {
  const service = await run(t)
  await postMany(service, 10)
  t.equal(metric(await scrape(service), 'service_txn_count'), 10)
  const cpu = metric(await scrape(service), 'process_cpu_seconds_total')
  process.kill(pidOf(service, 1), 'SIGKILL')
  await until(() => exits(service).length === 1)
  t.match(exits(service), [{ worker: 1, code: null, signal: 'SIGKILL' }])
  const between = await scrape(service)
  t.equal(metric(between, 'service_txn_count'), 10)
  t.ok(metric(between, 'process_cpu_seconds_total') >= cpu)
  const idle = metric(between, 'service_pool_connections_idle')
  t.ok(idle <= 4, 'connections of the killed worker are not counted')
  // One worker suffices.
  await untilReady(service)
  t.same(await postMany(service, 10), Array(10).fill(200))
  await until(() => pidOf(service, 3))
  t.same(await postMany(service, 10), Array(10).fill(200))
  t.equal(metric(await scrape(service), 'service_txn_count'), 30)
  await until(() =>
    service.lines().some(({ worker, msg }) => worker === 3 && msg === 'request completed')
  )

  for (const worker of [2, 3]) process.kill(pidOf(service, worker), 'SIGKILL')
  await until(() => exits(service).length === 3)
  t.same(await ready(service), no('workers'), 'not ready until a new worker serves')
  t.equal(metric(await scrape(service), 'service_txn_count'), 30)
  await untilReady(service)
  await stopCleanly(t, service)
})

t.test('a worker with an uncaught error finishes its batches and is replaced', async t => {
  const service = await run(t, {
    env: preload("process.on('SIGUSR2', () => { throw new RangeError('hu' + 'sh') })")
  })
  await postMany(service, 6)
  const answers = await whileWaiting(service, 2, async () => {
    process.kill(pidOf(service, 1), 'SIGUSR2')
    await until(() => pidOf(service, 3))
    t.equal(exits(service).length, 0, 'the replacement starts before the worker exits')
  })
  t.same(answers, [200, 200])
  await until(() => exits(service).length === 1)
  t.match(exits(service), [{ worker: 1, code: 1, signal: null }])
  t.match(service.lines().find(({ level }) => level === 60), {
    worker: 1,
    msg: 'uncaught error: stopping'
  })
  t.notMatch(service.output(), /hush/)
  t.equal(
    metric(await scrape(service), 'service_txn_count'),
    8,
    'the counters of the exited worker are included'
  )
})

t.test('SIGTERM under load: no request on an open connection fails', async t => {
  const service = await run(t)
  const answers: number[] = []
  /** A client with one connection, which it uses until the service announces the close. */
  const client = async (): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    for (let open = true; open;) {
      const sent = request(service.url, { method: 'POST', agent, headers: headersOfBatch() })
      sent.end(JSON.stringify(insert))
      const [response] = await once(sent, 'response')
      for await (const chunk of response) chunk.toString()
      answers.push(response.statusCode)
      open = response.headers.connection !== 'close'
    }
  }
  const load = Promise.all(Array.from({ length: 8 }, client))
  await until(() => answers.length > 100)
  service.child.kill('SIGTERM')
  await load
  t.equal(await service.ended, 0)
  t.same([...new Set(answers)], [200])
  t.equal((await service.database.sql`select from t`).length, answers.length)
  await untilSessions(service.database, 0)
})

t.test('SIGTERM under load: clients that check readiness get every request served', async t => {
  const service = await run(t, { env: { SHUTDOWN_DELAY_MS: '5000' } })
  const answers: number[] = []
  // Like a balancer, it opens a connection for each batch until the readiness check fails.
  const looking = new AbortController()
  const client = async (): Promise<void> => {
    while (!looking.signal.aborted) answers.push((await post(service, insert)).status)
  }
  const load = Promise.all(Array.from({ length: 8 }, client))
  await until(() => answers.length > 100)
  service.child.kill('SIGTERM')
  await until(async () => (await ask(`${service.adminUrl}/ready`)).status === 503)
  looking.abort()
  await load
  t.equal(await service.ended, 0)
  t.same([...new Set(answers)], [200])
  t.equal((await service.database.sql`select from t`).length, answers.length)
})

t.test('Ctrl-C reaches every process, and each finishes its batches', async t => {
  const service = await run(t)
  const answers = await whileWaiting(service, 4, async () => {
    process.kill(-(service.child.pid as number), 'SIGINT')
    await untilStopping(service, 3)
  })
  t.same(answers, Array(4).fill(200))
  t.equal(await service.ended, 0)
  await untilSessions(service.database, 0)
})

t.test('SIGKILL of the primary: the workers finish their batches and exit', async t => {
  const service = await run(t)
  const answers = await whileWaiting(service, 4, async () => {
    const pids = [1, 2].map(worker => pidOf(service, worker))
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    // The response to this request shows that the connection was handed over to a worker.
    await ask(`${service.adminUrl}/live`)
    const exited = once(service.child, 'exit')
    service.child.kill('SIGKILL')
    await exited
    for (const pid of pids) process.kill(pid, 'SIGCONT')
    await untilStopping(service, 2)
  })
  t.same(answers, Array(4).fill(200))
  t.equal(await service.ended, 'SIGKILL')
  await t.rejects(post(service, insert))
  await untilSessions(service.database, 0)
})

t.test('hanging workers do not delay readiness while one responds', async t => {
  const service = await run(t)
  await postMany(service, 4)
  t.equal(metric(await scrape(service), 'service_txn_count'), 4)
  const pids = [1, 2].map(worker => pidOf(service, worker))
  process.kill(pids[0] as number, 'SIGSTOP')
  await untilReady(service)
  process.kill(pids[1] as number, 'SIGSTOP')
  t.same(await ready(service), no('workers'))
  t.same(brief(await ask(`${service.adminUrl}/live`)), yes)
  t.equal(metric(await scrape(service), 'service_txn_count'), 4, 'the last known counters are used')
  const asking = scrape(service)
  // The response to this request shows that both workers were asked before.
  await ask(`${service.adminUrl}/live`)
  process.kill(pids[0] as number, 'SIGKILL')
  process.kill(pids[1] as number, 'SIGCONT')
  t.equal(metric(await asking, 'service_txn_count'), 4)
  await until(() => serving(service).length === 3)
  await stopCleanly(t, service)
})

t.test('without a database it is not ready; a worker that gets SIGTERM is replaced', async t => {
  const service = await run(t, { env: { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/d' } })
  t.same(await ready(service), no('database'))
  t.match(await post(service, insert), {
    status: 503,
    body: { error: { code: 'database_unavailable' } }
  })
  process.kill(pidOf(service, 1), 'SIGTERM')
  await until(() => exits(service).length === 1)
  t.match(exits(service), [{ worker: 1, code: 0 }])
  await until(() => pidOf(service, 3))
  await stopCleanly(t, service)
})

t.test('failing workers are restarted with growing pauses', async t => {
  const service = await run(t, {
    env: preload('if (id > 1 && id < 5) process.exit(1)'),
    workers: 1
  })
  await untilReady(service)
  await until(() => pidOf(service, 5))
  t.match(exits(service), [{ worker: 2, code: 1 }, { worker: 3, code: 1 }, { worker: 4, code: 1 }])
  const [second = NaN, third = NaN, fourth = NaN] = exits(service).map(({ time }) => time as number)
  t.ok(third - second >= 250 && fourth - third >= 500, 'each pause is longer')
})

t.test('the service stops while a worker restarts or loads', async t => {
  const scripts = [
    'if (id > 1) process.exit(1)',
    'if (id > 1) await new Promise(() => setInterval(() => {}, 1000))'
  ]
  for (const script of scripts) {
    const service = await run(t, { env: preload(script), workers: 1 })
    if (script.includes('exit')) await until(() => exits(service).length > 1)
    service.child.kill('SIGTERM')
    t.equal(await service.ended, 0, script)
  }
})

t.test('a first worker that is killed is replaced', async t => {
  const service = await run(t, {
    env: preload("if (id === 1) process.kill(process.pid, 'SIGKILL')")
  })
  await untilReady(service)
})

t.test('a worker that fails to stop: exit code 1', async t => {
  const service = await run(t, {
    env: preload(`
    const { subscribe } = await import('node:diagnostics_channel')
    if (id === 2) subscribe('fastify.initialization', ({ fastify }) =>
      fastify.addHook('onClose', async () => { throw new RangeError('hu' + 'sh') }))`)
  })
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 1)
  t.match(service.lines().find(({ msg }) => msg === 'worker did not stop cleanly'), {
    worker: 2,
    code: 1
  })
  t.notMatch(service.output(), /hush/)
})

t.test('no worker can start: exit code 1, a message, and no process remains', async t => {
  const { ended, output } = spawnService(t, {
    DATABASE_URL: 'postgres://u:p@127.0.0.1:1/d',
    ...preload("process.execPath = '/nowhere'")
  })
  t.equal(await ended, 1)
  t.match(
    output(),
    new RegExp([
      '"code":null,"signal":null,"msg":"worker exited unexpectedly"',
      '"reason":"the first worker could not start","msg":"could not start the service"'
    ].join('[^]*'))
  )
})
