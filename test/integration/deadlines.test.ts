/**
 * Tests the timeouts of a request: no wait is unlimited, and nothing stays held afterwards. Lower
 * bounds are exact. Upper bounds are generous but far below the next longer timeout. Late headers
 * and bodies are in wire.test.ts, lost COMMITs in lost-connections.test.ts, shutdown in
 * test/e2e/stop.test.ts.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { LOGIN_ROLE, type Database } from '../support/database/database.ts'
import { holdRow, untilSessions } from '../support/database/hold.ts'
import { CLAIMS, untilQuiet, useProxy, type Link, type Proxy } from '../support/network/proxy.ts'
import { gauge, useService, type ServiceUnderTest } from '../support/service.ts'
import { failed, headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import { dial, request } from '../support/network/wire.ts'

t.setTimeout(300_000)
// The tests wait for timeouts, a minute in total, and each starts its own service.
t.jobs = 8

const schema = `
  create table slots (id int primary key, n int not null default 0);
  insert into slots values (0), (1);
  create table entries (id int generated always as identity primary key, note text);
  create view nap as select pg_sleep(60)::text as slept;`

const add = (note = 'x'): object => op.insert('a', 'entries', [{ note }], { returning: ['id'] })
const touch = op.update('t', 'slots', { set: { n: { $inc: 1 } }, where: { id: { eq: 0 } } })
const nap = op.select('n', 'nap')

async function timed<T> (
  work: () => Promise<T>
): Promise<{ readonly response: T, readonly ms: number }> {
  const start = performance.now()
  const response = await work()
  return { response, ms: performance.now() - start }
}

/** Asserts a duration, with a tolerance because timers may fire a little early. */
function between (t: Test, ms: number, low: number, high: number, name: string): void {
  t.ok(ms >= low - 5 && ms < high, `${name}: ${Math.round(ms)} ms, from ${low} to ${high}`)
}

const entries = async ({ sql }: Database): Promise<number> =>
  (await sql`select from entries`).length

/** Sends the start of a batch. `finish` sends the rest when the request is `ms` ms old. */
async function sendSlowly (
  service: ServiceUnderTest,
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Promise<{ finish(ms: number): Promise<void>, response(): Promise<unknown>, age(): number }> {
  const body = JSON.stringify(batch)
  const line = await dial(service.url)
  const start = performance.now()
  const age = (): number => performance.now() - start
  line.send(
    request('POST', '/', headersOfBatch({ 'content-length': String(body.length), ...headers })) +
      body.slice(0, 10)
  )
  return {
    age,
    async finish (ms) {
      await until(() => age() > ms)
      line.send(body.slice(10))
    },
    async response () {
      const [response] = await line.answers(1)
      line.socket.destroy()
      return response
    }
  }
}

/** Waits until no backend of the service is in a transaction. */
const waitUntilIdle = (database: Database): Promise<unknown> =>
  untilSessions(database, 0, "state <> 'idle'")

const refused = (status: number, code: string): object => failed(status, code, { committed: false })

t.test('each wait in a transaction has its own timeout and error', async t => {
  const long = {
    LOCK_TIMEOUT_MS: '60000', STATEMENT_TIMEOUT_MS: '60000', REQUEST_TIMEOUT_MS: '60000'
  }
  const rows = [
    ['a lock', { LOCK_TIMEOUT_MS: '300' }, touch, 409, 'lock_not_available', true],
    ['a waiting statement', { STATEMENT_TIMEOUT_MS: '1500' }, touch, 504, 'query_canceled',
      undefined],
    ['a waiting request', { REQUEST_TIMEOUT_MS: '3000' }, touch, 504, 'deadline_exceeded',
      undefined],
    ['a working request', { REQUEST_TIMEOUT_MS: '3000' }, nap, 504, 'deadline_exceeded', undefined]
  ] as const
  await Promise.all(rows.map(async ([name, env, waits, status, code, retryable]) => {
    const service = await useService(t, { schema, keys: true, env: { ...long, ...env } })
    const slot = await holdRow(service.database)
    // The last one may be a batch of selects, which has nothing to commit.
    const requests = [
      [[add(), waits], {}],
      [[add(), waits], { 'idempotency-key': 'k' }],
      [[waits], {}]
    ] as const
    for (const [batch, headers] of requests) {
      const { response, ms } = await timed(() => service.post(batch, { headers }))
      t.match(response, refused(status, code), `${name}: ${response.text}`)
      if (retryable !== undefined) t.equal(response.body.error.retryable, retryable, name)
      // A tenth of the request's time is reserved for the lookup of the outcome.
      between(t, ms, Number(Object.values(env)[0]) * 0.9, 15_000, name)
      // The statement is cancelled in the database, too.
      await waitUntilIdle(service.database)
    }
    t.equal(await entries(service.database), 0, name)
    await slot.free()
    t.equal(
      (await service.post([add(), touch], { headers: { 'idempotency-key': 'k' } })).status, 200,
      name
    )
  }))
})

t.test('REQUEST_TIMEOUT_MS limits the sum of all waits of a request', async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '5000' } })
  await service.database.sql`create view short as select pg_sleep(0.3)::text as slept`
  const batch = [add(), ...Array.from({ length: 30 }, (_, i) => op.select(`s${i}`, 'short'))]
  const { response, ms } = await timed(() => service.post(batch))
  t.match(response, refused(504, 'deadline_exceeded'), 'no single statement takes long')
  between(t, ms, 4500, 8500, 'nine seconds of work')
  await waitUntilIdle(service.database)
  t.equal(await entries(service.database), 0)
})

t.test('the time in which a slow body arrives counts against the request', async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '4000' } })
  const slot = await holdRow(service.database)
  // The outcome of a dry run is known without a lookup.
  const slow = await sendSlowly(service, [touch], { prefer: 'tx=rollback' })
  await slow.finish(2400)
  t.match(await slow.response(), refused(504, 'deadline_exceeded'))
  // Counted from the end of the body, this would take 6400 ms - 400 ms.
  between(t, slow.age(), 3400, 5900, 'from the first byte')
  await slot.free()
})

/** pool.test.ts has the connect_timeout of the URL, and the wait in the queue. */
t.test('the wait for a new connection is limited by two more timeouts', async t => {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  proxy.forward = () => false
  const rows = [
    [{ QUEUE_TIMEOUT_MS: '400' }, 503, 'database_unavailable', 400],
    [{ QUEUE_TIMEOUT_MS: '60000', REQUEST_TIMEOUT_MS: '1000' }, 504, 'deadline_exceeded', 900]
  ] as const
  for (const [env, status, code, least] of rows) {
    const service = await useService(t, {
      schema, env, databaseUrl: url => `${proxy.through(url)}?connect_timeout=600`
    })
    const { response, ms } = await timed(() => service.post([add()]))
    t.match(response, refused(status, code), JSON.stringify(env))
    between(t, ms, least, 9000, JSON.stringify(env))
  }
})

/** Starts a service with a proxy to the database and one connection, which was used and is idle. */
async function useProxied (
  t: Test,
  env: Readonly<Record<string, string>>
): Promise<{ service: ServiceUnderTest, database: Database, proxy: Proxy }> {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const service = await useService(t, {
    schema, keys: true, databaseUrl: proxy.through, env: { POOL_SIZE: '1', ...env }
  })
  t.equal((await service.post([touch])).status, 200)
  await until(async () => await gauge(service, 'service_pool_connections_busy') === 0)
  return { service, database: service.database, proxy }
}

t.test('if the database falls silent, every request still ends in time', async t => {
  const late = 'deadline_exceeded'
  /**
   * The codes without a key, with a key and in a dry run. Of several codes, the duration of the
   * lookup decides which one is returned.
   */
  const silences: ReadonlyArray<
    readonly [
      name: string,
      silence: (proxy: Proxy) => void,
      codes: ReadonlyArray<readonly string[]>
    ]
  > = [
    ['BEGIN does not arrive', proxy => {
      proxy.forward = ({ sent }) => !sent.includes('begin isolation')
    }, [[late], [late], [late]]],
    ['the pipeline does not arrive', proxy => {
      proxy.forward = ({ sent }) => !sent.includes(CLAIMS)
    }, [['commit_unknown'], [late, 'commit_unknown'], [late]]],
    ['no response to the pipeline', proxy => {
      proxy.deliver = ({ sent, held }) => sent.includes(CLAIMS) ? 0 : held.length
    }, [['commit_unknown'], ['ok', 'commit_unknown'], [late]]],
    ['no data in either direction',
      proxy => Object.assign(proxy, { forward: () => false, deliver: () => 0 }),
      [[late], [late], [late]]]
  ]
  // One after the other: four first batches at once may take longer than their deadline.
  const cases = []
  for (const [name, silence, codes] of silences) {
    const proxied = await useProxied(t, { REQUEST_TIMEOUT_MS: '2000', QUEUE_TIMEOUT_MS: '60000' })
    // The first batch that names a table reads the types of its columns.
    await proxied.service.post([add()], { headers: { prefer: 'tx=rollback' } })
    cases.push({ name, silence, codes, ...proxied })
  }
  await Promise.all(cases.map(async ({ name, silence, codes, service, database, proxy }) => {
    const variants = [{}, { 'idempotency-key': 'k' }, { prefer: 'tx=rollback' }]
    for (const [i, headers] of variants.entries()) {
      await until(async () => await gauge(service, 'service_pool_connections_busy') === 0)
      // BEGIN is then sent first.
      await untilQuiet(proxy)
      silence(proxy)
      const { response, ms } = await timed(() => service.post([add()], { headers }))
      between(t, ms, 1800, 8000, `${name}, ${JSON.stringify(headers)}`)
      const code = response.status === 200 ? 'ok' : String(response.body.error.code)
      t.ok(codes[i]?.includes(code), `${name}, ${JSON.stringify(headers)}: ${response.text}`)
      Object.assign(proxy, { forward: () => true, deliver: ({ held }: Link) => held.length })
      proxy.cut()
      // The service recovers with new connections.
      await until(async () => (await service.post([touch])).status === 200)
      await waitUntilIdle(database)
      if (code === late) {
        t.equal(await entries(database), 0, 'nothing was committed, as reported')
      }
      if (code === 'ok') t.equal(await entries(database), 1, 'the batch was committed, as reported')
      await database.sql`truncate entries, oneflight.idempotency_keys`
    }
  }))
})

t.test('a key whose lock another session never releases is reported in time', async t => {
  const ways: ReadonlyArray<
    readonly [
      name: string,
      lose: (database: Database, proxy: Proxy) => unknown,
      status: number,
      code: string,
      committed: unknown,
      least: number
    ]
  > = [
    [
      'the database reports the end of the batch',
      ({ sql, name }) =>
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
          and usename = ${LOGIN_ROLE} and wait_event = 'transactionid'`,
      409,
      'idempotency_key_in_progress',
      false,
      0
    ],
    ['the connection is cut without a message', (_database, proxy) => proxy.cut(), 500,
      'commit_unknown', 'unknown', 5400]
  ]
  for (const [name, lose, status, code, committed, least] of ways) {
    await t.test(name, async t => {
      const { service, database, proxy } = await useProxied(t, { REQUEST_TIMEOUT_MS: '6000' })
      const { sql } = database
      const headers = { 'idempotency-key': 'k' }
      const slot = await holdRow(database)
      const sent = timed(() => service.post([add(), touch], { headers }))
      await slot.awaited()
      const [lock] =
        await sql`select ((classid::bigint << 32) | objid::bigint)::text as key from pg_locks
          where locktype = 'advisory' and database = (select oid from pg_database
          where datname = ${database.name})`
      const holder = await sql.reserve()
      const held = holder.unsafe(`select pg_advisory_lock(${String(lock?.['key'])})`).execute()
      await slot.awaited(2)
      await lose(database, proxy)
      await held
      const { response, ms } = await sent
      t.match(response, { status, body: { error: { code, committed } } }, response.text)
      between(t, ms, least, 12_000, 'REQUEST_TIMEOUT_MS')
      t.equal(await entries(database), 0)
      const again = await service.post([add(), touch], { headers })
      t.match(again, refused(409, 'idempotency_key_in_progress'), 'it does not wait for the lock')
      await holder.unsafe('select pg_advisory_unlock_all()')
      holder.release()
      await slot.free()
      t.equal((await service.post([add(), touch], { headers })).status, 200)
      t.equal(await entries(database), 1)
      await waitUntilIdle(database)
    })
  }
})
