/**
 * Nothing waits without an end: each wait of a request over HTTP, the answer at its end, and that
 * nothing is held afterwards.
 *
 * In charge of: which deadline ends what, and that all of them are within REQUEST_TIMEOUT_MS,
 * counted from the first byte of the request. Refuses to: measure precisely. Bounds from below are
 * the contract's; those from above are generous, and far from the next longer deadline. Late
 * headers and bodies are in test/integration/wire.test.ts, what becomes of a lost COMMIT in
 * test/integration/lost-connections.test.ts, stopping in test/e2e/stop.test.ts.
 */
import t, { type Test } from 'tap'
import { LOGIN_ROLE, useDatabase, type Database } from '../support/database/database.ts'
import { holdRow } from '../support/database/hold.ts'
import { CLAIMS, useProxy, type Link, type Proxy } from '../support/network/proxy.ts'
import {
  ask,
  gauge,
  makeKeyTable,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'
import { dial, request } from '../support/network/wire.ts'

t.setTimeout(300_000)
// The tests wait for deadlines, a minute in all, and each has a service of its own.
t.jobs = 4

const schema = `
  create table slots (id int primary key, n int not null default 0);
  insert into slots values (0), (1);
  create table entries (id int generated always as identity primary key, note text);
  create view nap as select pg_sleep(60)::text as slept;
  grant all on all tables in schema public to oneflight_user;`

const add = (note = 'x'): object => ({
  id: 'a',
  op: 'insert',
  table: 'entries',
  values: [{ note }],
  returning: ['id']
})
const touch = {
  id: 't',
  op: 'update',
  table: 'slots',
  set: { n: { $inc: 1 } },
  where: { id: { eq: 0 } }
}
const nap = { id: 'n', op: 'select', table: 'nap' }

async function timed<T> (
  work: () => Promise<T>
): Promise<{ readonly answer: T, readonly ms: number }> {
  const start = performance.now()
  const answer = await work()
  return { answer, ms: performance.now() - start }
}

/** Timers may fire a little early. */
function between (t: Test, ms: number, low: number, high: number, name: string): void {
  t.ok(ms >= low - 5 && ms < high, `${name}: ${Math.round(ms)} ms, from ${low} to ${high}`)
}

const entries = async ({ sql }: Database): Promise<number> =>
  (await sql`select from entries`).length

/**
 * A batch whose body begins now; `finish` sends the rest of it when it is so many milliseconds old.
 */
async function sendSlowly (
  service: ServiceUnderTest,
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Promise<{ finish(ms: number): Promise<void>, answered(): Promise<unknown>, ms(): number }> {
  const body = JSON.stringify(batch)
  const line = await dial(service.url)
  const start = performance.now()
  const ms = (): number => performance.now() - start
  line.send(
    request('POST', '/', {
      authorization: `Bearer ${token({ role: 'oneflight_user' })}`,
      'content-type': 'application/json',
      'content-length': String(body.length),
      ...headers
    }) + body.slice(0, 10)
  )
  return {
    ms,
    async finish (age) {
      await until(() => ms() > age)
      line.send(body.slice(10))
    },
    async answered () {
      const [answer] = await line.answers(1)
      line.socket.destroy()
      return answer
    }
  }
}

/** No backend of the service is in a transaction. */
const idle = ({ sql, name }: Database): Promise<unknown> =>
  until(async () =>
    (await sql`select from pg_stat_activity where datname = ${name} and usename = ${LOGIN_ROLE}
      and state <> 'idle'`)
      .length === 0
  )

const refused = (status: number, code: string): object => ({
  status,
  body: { error: { code, committed: false }, data: null }
})

t.test('each wait in a transaction has its own deadline, and its own answer', async t => {
  const long = {
    LOCK_TIMEOUT_MS: '60000',
    STATEMENT_TIMEOUT_MS: '60000',
    REQUEST_TIMEOUT_MS: '60000'
  }
  const rows: ReadonlyArray<
    readonly [
      name: string,
      env: Readonly<Record<string, string>>,
      waits: object,
      status: number,
      code: string,
      retryable: boolean | undefined
    ]
  > = [
    ['a lock', { LOCK_TIMEOUT_MS: '300' }, touch, 409, 'lock_not_available', true],
    [
      'a statement that waits',
      { STATEMENT_TIMEOUT_MS: '1500' },
      touch,
      504,
      'query_canceled',
      undefined
    ],
    [
      'a statement that works',
      { STATEMENT_TIMEOUT_MS: '1500' },
      nap,
      504,
      'query_canceled',
      undefined
    ],
    [
      'the request, waiting',
      { REQUEST_TIMEOUT_MS: '6000' },
      touch,
      504,
      'deadline_exceeded',
      undefined
    ],
    [
      'the request, working',
      { REQUEST_TIMEOUT_MS: '6000' },
      nap,
      504,
      'deadline_exceeded',
      undefined
    ]
  ]
  await Promise.all(rows.map(async ([name, env, waits, status, code, retryable]) => {
    const service = await useService(t, { schema, keys: true, env: { ...long, ...env } })
    const slot = await holdRow(service.database)
    for (const headers of [{}, { 'idempotency-key': 'k' }]) {
      const { answer, ms } = await timed(() => service.post([add(), waits], { headers }))
      t.match(answer, refused(status, code), `${name}: ${answer.text}`)
      if (retryable !== undefined) t.equal(answer.body.error.retryable, retryable, name)
      // Of the request's time a tenth is kept back to find out what became of the batch.
      between(t, ms, Number(Object.values(env)[0]) * 0.9, 15_000, name)
      // Ended, and not only given up.
      await idle(service.database)
    }
    t.equal(await entries(service.database), 0, name)
    await slot.free()
    t.equal(
      (await service.post([add(), touch], { headers: { 'idempotency-key': 'k' } })).status,
      200,
      name
    )
  }))
})

t.test('a request ends in time, however many statements and locks it waits for', async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '5000' } })
  await service.database.sql.unsafe(
    'create view short as select pg_sleep(0.3)::text as slept; grant select on short to ' +
      'oneflight_user'
  )
  const batch = [
    add(),
    ...Array.from({ length: 30 }, (_, i) => ({ id: `s${i}`, op: 'select', table: 'short' }))
  ]
  const { answer, ms } = await timed(() => service.post(batch))
  t.match(answer, refused(504, 'deadline_exceeded'), 'none of them takes long')
  between(t, ms, 4500, 8500, 'nine seconds of work')
  await idle(service.database)
  t.equal(await entries(service.database), 0)
})

t.test("the time of a body that comes slowly is the request's", async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '4000' } })
  const slot = await holdRow(service.database)
  // What becomes of a dry run is known without asking.
  const slow = await sendSlowly(service, [touch], { prefer: 'tx=rollback' })
  await slow.finish(2400)
  t.match(await slow.answered(), refused(504, 'deadline_exceeded'))
  // Were it counted from the end of the body, it would be 6400 - 400.
  between(t, slow.ms(), 3400, 5900, 'from the first byte')
  await slot.free()
})

t.test('in the queue', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1', QUEUE_TIMEOUT_MS: '300' } })
  // Its time holds for a connection that is opened as well.
  await until(async () => await gauge(service, 'service_pool_lanes_idle') === 1)
  const slot = await holdRow(service.database)
  const first = service.post([touch])
  await slot.awaited()
  const { answer, ms } = await timed(() => service.post([add()]))
  t.match(answer, refused(503, 'overloaded'))
  t.equal(answer.headers.get('retry-after'), '1')
  between(t, ms, 300, 4000, 'QUEUE_TIMEOUT_MS')
  await slot.free()
  t.equal((await first).status, 200)

  // The request's own time is over first: it began two seconds before the one that has the
  // connection.
  const other = await useService(t, {
    schema,
    env: {
      POOL_SIZE: '1',
      QUEUE_TIMEOUT_MS: '60000',
      LOCK_TIMEOUT_MS: '60000',
      REQUEST_TIMEOUT_MS: '6000'
    }
  })
  const row = await holdRow(other.database)
  const slow = await sendSlowly(other, [add()])
  await until(() => slow.ms() > 2000)
  const running = other.post([touch])
  await row.awaited()
  await slow.finish(0)
  t.match(await slow.answered(), refused(504, 'deadline_exceeded'))
  t.equal(await row.count(), 1, 'the other one still runs')
  t.match(await running, refused(504, 'deadline_exceeded'))
  await row.free()
  t.equal(await entries(other.database), 0)
})

t.test('for a new connection', async t => {
  const database = await useDatabase(t, { schema })
  const proxy = await useProxy(t, database.loginUrl)
  proxy.forward = () => false
  const rows: ReadonlyArray<
    readonly [
      name: string,
      query: string,
      env: Readonly<Record<string, string>>,
      status: number,
      code: string,
      least: number
    ]
  > = [
    [
      'connect_timeout',
      '?connect_timeout=1',
      { QUEUE_TIMEOUT_MS: '60000' },
      503,
      'database_unavailable',
      0
    ],
    [
      'QUEUE_TIMEOUT_MS',
      '?connect_timeout=600',
      { QUEUE_TIMEOUT_MS: '400' },
      503,
      'database_unavailable',
      400
    ],
    [
      'REQUEST_TIMEOUT_MS',
      '?connect_timeout=600',
      { QUEUE_TIMEOUT_MS: '60000', REQUEST_TIMEOUT_MS: '1000' },
      504,
      'deadline_exceeded',
      900
    ]
  ]
  for (const [name, query, env, status, code, least] of rows) {
    await t.test(name, async t => {
      const service = await useService(t, {
        schema,
        env,
        databaseUrl: () => `${proxy.through(database.loginUrl)}${query}`
      })
      const { answer, ms } = await timed(() => service.post([add()]))
      t.match(answer, refused(status, code))
      between(t, ms, least, 9000, name)
      if (name === 'connect_timeout') {
        t.match(service.log.filter(({ msg }) => msg === 'could not connect to the database'), [{
          reason: /no session within 1000 ms|1000/
        }])
      }
    })
  }
})

/** With a proxy between service and database; a connection was used and is idle. */
async function useProxied (
  t: Test,
  env: Readonly<Record<string, string>>
): Promise<{ service: ServiceUnderTest, database: Database, proxy: Proxy }> {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const proxy = await useProxy(t, database.loginUrl)
  const service = await useService(t, {
    schema,
    databaseUrl: () => proxy.through(database.loginUrl),
    env: { POOL_SIZE: '1', ...env }
  })
  t.equal((await service.post([touch])).status, 200)
  await until(async () => await gauge(service, 'service_pool_lanes_busy') === 0)
  return { service, database, proxy }
}

/**
 * Lets the next flight through up to its `count`th message of this type (`S` ends a statement), on
 * one connection; what follows is lost.
 */
function loseRest (proxy: Proxy, type: string, count: number): void {
  let victim: Link | undefined
  proxy.forward = link => {
    if (link === victim) return false
    if (victim !== undefined || !link.sent.includes(CLAIMS)) return true
    victim = link
    link.server.write(link.sent.subarray(0, endOf(link.sent, type, count)))
    return false
  }
}

/** Where the `count`th message of a type ends. */
function endOf (bytes: Buffer, type: string, count: number): number {
  let seen = 0
  for (let at = 0; at < bytes.length;) {
    if (String.fromCharCode(bytes[at] as number) === type) seen++
    at += 1 + bytes.readUInt32BE(at + 1)
    if (seen === count) return at
  }
  throw new Error(`fewer than ${count} messages ${type}`)
}

t.test('a flight of which a part arrives is ended by the database, its locks are free', async t => {
  const { service, database, proxy } = await useProxied(t, {
    IDLE_TRANSACTION_TIMEOUT_MS: '3000',
    REQUEST_TIMEOUT_MS: '30000',
    STATEMENT_TIMEOUT_MS: '60000'
  })
  // The session, with a key the claim before it, and the first operation.
  for (const [headers, statements] of [[{}, 2], [{ 'idempotency-key': 'k' }, 3]] as const) {
    loseRest(proxy, 'S', statements)
    const flight = timed<Answer>(() => service.post([touch, add()], { headers }))
    await until(async () =>
      (await database
        .sql`select from pg_stat_activity where datname = ${database.name}
          and usename = ${LOGIN_ROLE} and state = 'idle in transaction' and backend_xid is not
            null`)
        .length === 1
    )
    // Its lock is given to who waits for it.
    const freed = await timed(async () => await database.sql`update slots set n = n where id = 0`)
    between(t, freed.ms, 0, 8000, 'the lock')
    const { answer, ms } = await flight
    if ('idempotency-key' in headers) {
      t.match(answer, { status: 200 }, 'with a key it is flown again')
    } else t.match(answer, refused(503, 'database_unavailable'))
    between(t, ms, 3000, 15_000, 'IDLE_TRANSACTION_TIMEOUT_MS')
    await idle(database)
  }
  t.equal(await entries(database), 1)
  t.same(await database.sql`select n from slots where id = 0`, [{ n: 2 }])
})

t.test("a flight broken off inside a statement is ended by the request's deadline", async t => {
  // PostgreSQL has no deadline of its own for the rest of a statement: the timer of the idle
  // session runs between statements alone.
  const { service, database, proxy } = await useProxied(t, {
    IDLE_TRANSACTION_TIMEOUT_MS: '400',
    REQUEST_TIMEOUT_MS: '6000'
  })
  for (const [headers, statements] of [[{}, 3], [{ 'idempotency-key': 'k' }, 4]] as const) {
    // Bound, and not executed; the operation before has its lock.
    loseRest(proxy, 'B', statements)
    const { answer, ms } = await timed(() => service.post([touch, add()], { headers }))
    t.match(answer, refused(504, 'deadline_exceeded'), answer.text)
    between(t, ms, 5400, 12_000, 'REQUEST_TIMEOUT_MS')
    Object.assign(proxy, { forward: () => true })
    const freed = await timed(async () => await database.sql`update slots set n = n where id = 0`)
    between(t, freed.ms, 0, 8000, 'the lock')
    await idle(database)
  }
  t.equal(await entries(database), 0)
})

t.test('a database that is silent: answered in time, wherever it falls silent', async t => {
  const late = 'deadline_exceeded'
  /**
   * Without a key, with one, and in a dry run; of several it is one, by how long it takes to ask.
   */
  const falls: ReadonlyArray<
    readonly [
      name: string,
      silence: (proxy: Proxy) => void,
      codes: ReadonlyArray<readonly string[]>
    ]
  > = [
    ['nothing is answered to BEGIN', proxy => {
      proxy.deliver = ({ sent, held }) => sent.includes('begin isolation') ? 0 : held.length
    }, [[late], [late], [late]]],
    ['BEGIN does not arrive', proxy => {
      proxy.forward = ({ sent }) => !sent.includes('begin isolation')
    }, [[late], [late], [late]]],
    ['the flight does not arrive', proxy => {
      proxy.forward = ({ sent }) => !sent.includes(CLAIMS)
    }, [['commit_unknown'], [late, 'commit_unknown'], [late]]],
    ['nothing is answered to the flight', proxy => {
      proxy.deliver = ({ sent, held }) => sent.includes(CLAIMS) ? 0 : held.length
    }, [['commit_unknown'], ['ok', 'commit_unknown'], [late]]],
    [
      'nothing goes any more, nor comes',
      proxy => Object.assign(proxy, { forward: () => false, deliver: () => 0 }),
      [[late], [late], [late]]
    ]
  ]
  await Promise.all(falls.map(async ([name, silence, codes]) => {
    const { service, database, proxy } = await useProxied(t, {
      REQUEST_TIMEOUT_MS: '2000',
      QUEUE_TIMEOUT_MS: '60000'
    })
    for (
      const [i, headers] of [{}, { 'idempotency-key': 'k' }, { prefer: 'tx=rollback' }].entries()
    ) {
      await until(async () => await gauge(service, 'service_pool_lanes_busy') === 0)
      silence(proxy)
      const { answer, ms } = await timed(() => service.post([add()], { headers }))
      between(t, ms, 1800, 8000, `${name}, ${JSON.stringify(headers)}`)
      const code = answer.status === 200 ? 'ok' : String(answer.body.error.code)
      t.ok(codes[i]?.includes(code), `${name}, ${JSON.stringify(headers)}: ${answer.text}`)
      Object.assign(proxy, { forward: () => true, deliver: ({ held }: Link) => held.length })
      proxy.cut()
      // It serves again, with connections that are new.
      await until(async () => (await service.post([touch])).status === 200)
      await idle(database)
      if (code === late) {
        t.equal(await entries(database), 0, 'nothing was committed, as it was told')
      }
      if (code === 'ok') t.equal(await entries(database), 1, 'it was committed, as it was told')
      await database.sql`truncate entries, oneflight.idempotency_keys`
    }
  }))
})

t.test('a key that somebody else takes and never gives back', async t => {
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
      'the database says that it ends the batch',
      ({ sql, name }) =>
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
          and usename = ${LOGIN_ROLE} and wait_event = 'transactionid'`,
      409,
      'idempotency_key_in_progress',
      false,
      0
    ],
    [
      'nobody says anything',
      (_database, proxy) => proxy.cut(),
      500,
      'commit_unknown',
      'unknown',
      5400
    ]
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
      const { answer, ms } = await sent
      t.match(answer, { status, body: { error: { code, committed } } }, answer.text)
      between(t, ms, least, 12_000, 'REQUEST_TIMEOUT_MS')
      t.equal(await entries(database), 0)
      t.match(await service.post([add(), touch], { headers }), {
        status: 409,
        body: { error: { code: 'idempotency_key_in_progress' } }
      }, 'no one waits for it')
      await holder.unsafe('select pg_advisory_unlock_all()')
      holder.release()
      await slot.free()
      t.equal((await service.post([add(), touch], { headers })).status, 200)
      t.equal(await entries(database), 1)
      await idle(database)
    })
  }
})

t.test('health and readiness do not wait for a database that is silent', async t => {
  const { service, proxy } = await useProxied(t, {})
  Object.assign(proxy, { forward: () => false })
  for (const url of [`${service.url}/health`, `${service.adminUrl}/ready`]) {
    await until(async () => {
      const { answer, ms } = await timed(() => ask(url))
      between(t, ms, 0, 5000, url)
      return answer.status === 503
    })
  }
  t.equal((await ask(`${service.adminUrl}/live`)).status, 200)
})
