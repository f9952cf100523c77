/**
 * Connections that die, at every moment of a batch: what the caller is told is true, and the next
 * batch works.
 */
import t from 'tap'
import type { Test } from 'tap'
import { setTimeout as delay } from 'node:timers/promises'
import { startAttempt } from '../../src/transaction/attempt.ts'
import type { CompiledBatch } from '../../src/transaction/compiled-batch.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../src/transaction/outcome.ts'
import { destroyConnection, type Connection } from '../../src/postgres/connection.ts'
import { useDatabase, type Database } from '../support/database/database.ts'
import { alterSession, plainBatch, useEngine, type Engine } from '../support/database/engine.ts'
import { audit, ledgerSchema, pair, startLoad } from '../support/ledger.ts'
import { holdRow } from '../support/database/hold.ts'
import { CLAIMS, useProxy, type Link, type Proxy } from '../support/network/proxy.ts'
import { gauge, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table t (n int primary key, word text);
  insert into t values (0, 'free');
  grant all on t to oneflight_user;`

const add = (n: number): string =>
  `with r as (insert into t values (${n}) returning n) select n::text from r`
const touch = "with r as (update t set word = 'mine' where n = 0 returning n) select n::text from r"

interface Scene {
  readonly database: Database
  readonly proxy: Proxy
  readonly engine: Engine
}

async function useScene (t: Test, { size = 1 } = {}): Promise<Scene> {
  const database = await useDatabase(t, { schema })
  const proxy = await useProxy(t, database.loginUrl)
  const engine = useEngine(t, proxy.through(database.loginUrl), { size })
  t.equal((await engine.run(["select 'warm'"])).kind, 'committed')
  // Nobody waits for what comes behind COMMIT, and a fault must not meet it.
  await until(() => engine.pool.count().idle === 1)
  return { database, proxy, engine }
}

const terminateConnections = ({ sql, name }: Database): Promise<unknown> =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
    and usename = 'oneflight_login'`

const connections = async ({ sql, name }: Database): Promise<number> =>
  (await sql`select from pg_stat_activity where datname = ${name} and usename = 'oneflight_login'`)
    .length

/** Whether the link carries a batch whose end was sent. */
const inFlight = ({ sent }: Link): boolean => sent.includes(CLAIMS)

t.test('lost inside an operation: known to be rolled back, whoever cut the connection', async t => {
  const rows: ReadonlyArray<readonly [string, (scene: Scene) => unknown]> = [
    ['terminated by the server', ({ database }) => terminateConnections(database)],
    ['FIN on the way', ({ proxy }) => proxy.cut()],
    ['RST on the way', ({ proxy }) => proxy.cut('reset')]
  ]
  for (const [name, cut] of rows) {
    await t.test(name, async t => {
      const scene = await useScene(t)
      const { database, engine } = scene
      const lock = await holdRow(database, 'select from t where n = 0')
      const batch = engine.run([add(1), touch, add(2)])
      await lock.awaited()
      await cut(scene)
      t.match(await batch, { kind: 'failed', at: 1, error: { code: '08006' } })
      t.same(await database.sql`select n from t order by n`, [{ n: 0 }])
      await lock.free()
      t.equal(
        (await engine.run([touch])).kind,
        'committed',
        'the next one works at once, and the row is free'
      )
    })
  }
})

t.test('lost at COMMIT: rolled back when the server says so', async t => {
  const { database, engine } = await useScene(t)
  await database.sql.unsafe(`
    create function wait() returns trigger language plpgsql as $$ begin perform from t where n = 0
      for update; return null; end $$;
    create constraint trigger late after insert on t deferrable initially deferred
      for each row execute function wait()`)
  const lock = await holdRow(database, 'select from t where n = 0')
  const batch = engine.run([add(1)])
  await lock.awaited()
  await terminateConnections(database)
  t.match(await batch, { kind: 'failed', at: 'commit', error: { code: '08006' } })
  await lock.free()
  t.equal((await database.sql`select from t where n = 1`).length, 0)
})

t.test('lost after COMMIT was carried out, before anything was answered: unknown', async t => {
  const { database, proxy, engine } = await useScene(t)
  proxy.deliver = link => inFlight(link) ? 0 : link.held.length
  const batch = engine.run([add(1)])
  await until(async () => (await database.sql`select from t where n = 1`).length === 1)
  t.comment('the id of the transaction never reached the engine')
  proxy.cut()
  t.match(await batch, { kind: 'unknown', committed: false })
})

t.test('lost after COMMIT was carried out, the id known: the server tells', async t => {
  const { database, proxy, engine } = await useScene(t)
  /**
   * Flies an insert of `n`, whose answers are delivered up to `mark`, and cuts the connection when
   * it is there.
   */
  const lose = async (
    n: number,
    change: (batch: CompiledBatch) => CompiledBatch,
    mark: string,
    before: number
  ): Promise<BatchOutcome> => {
    proxy.deliver = ({ held }) => held.includes(mark) ? held.indexOf(mark) - before : held.length
    const batch = executeBatch(engine.pool, change(plainBatch([add(n), "select 'answer'"])), {
      deadline: performance.now() + 5000
    })
    await until(async () => (await database.sql`select from t where n = ${n}`).length === 1)
    await until(() => [...proxy.links].some(({ held }) => held.indexOf(mark) === before))
    proxy.deliver = ({ held }) => held.length
    for (const { client, server } of proxy.links) {
      for (const socket of [client, server]) socket.destroy()
    }
    return await batch
  }
  // CommandComplete begins five bytes before its tag.
  const same = (batch: CompiledBatch): CompiledBatch => batch
  t.match(await lose(1, same, 'COMMIT\0', 5), {
    kind: 'committed',
    rows: [Buffer.from('1'), Buffer.from('answer')]
  }, 'every answer had arrived')
  t.match(
    await lose(2, same, 'answer', 0),
    { kind: 'unknown', committed: true },
    'an answer is lost'
  )
  const restarted = (batch: CompiledBatch): CompiledBatch =>
    alterSession(batch, 'pg_catalog.pg_postmaster_start_time()', "pg_catalog.to_timestamp('1')")
  t.match(
    await lose(3, restarted, 'COMMIT\0', 5),
    { kind: 'unknown', committed: false },
    "the server was started since: the id may be another transaction's"
  )
  const crashed = (batch: CompiledBatch): CompiledBatch =>
    alterSession(batch, 'pg_catalog.clock_timestamp()', "pg_catalog.to_timestamp('1')")
  t.match(
    await lose(4, crashed, 'COMMIT\0', 5),
    { kind: 'unknown', committed: false },
    'the server crashed since'
  )
})

t.test('lost while every connection is taken: who asks does not wait behind batches', async t => {
  const { database, proxy, engine } = await useScene(t, { size: 2 })
  const lock = await holdRow(database, 'select from t where n = 0')
  const batch = engine.run([add(1), touch], 30_000)
  await lock.awaited()
  const [link] = [...proxy.links] as [Link]
  const others = [touch, touch].map(text => engine.run([text], 30_000))
  link.server.destroy()
  link.client.destroy()
  t.match(
    await batch,
    { kind: 'failed', at: 1, error: { code: '08006' } },
    'known while the others wait for the lock'
  )
  await lock.free()
  t.same((await Promise.all(others)).map(({ kind }) => kind), ['committed', 'committed'])
})

t.test('the server says FATAL before the end: known to be rolled back, without asking', async t => {
  const { database, proxy, engine } = await useScene(t)
  const lock = await holdRow(database, 'select from t where n = 0')
  const batch = executeBatch(
    engine.pool,
    alterSession(plainBatch([touch]), 'pg_catalog.pg_current_xact_id()::pg_catalog.text', 'null'),
    { deadline: performance.now() + 5000 }
  )
  await lock.awaited()
  proxy.open = false
  await terminateConnections(database)
  t.match(await batch, { kind: 'failed', at: 0, error: { code: '08006' } })
  await lock.free()
})

t.test('lost, and nobody to ask before the deadline: unknown', async t => {
  const { database, proxy, engine } = await useScene(t)
  const lock = await holdRow(database, 'select from t where n = 0')
  const batch = engine.run([touch], 3000)
  await lock.awaited()
  proxy.open = false
  proxy.cut()
  t.match(await batch, { kind: 'unknown' })
  await lock.free()
})

t.test('lost, unknown to the server: it crashed, so nothing of it was durable', async t => {
  const { database, proxy, engine } = await useScene(t)
  const lock = await holdRow(database, 'select from t where n = 0')
  const strange = alterSession(
    plainBatch([touch]),
    'pg_catalog.pg_current_xact_id()::pg_catalog.text',
    "'999999999999'::text"
  )
  const batch = executeBatch(engine.pool, strange, { deadline: performance.now() + 5000 })
  await lock.awaited()
  proxy.cut()
  t.match(await batch, { kind: 'failed', at: 0, error: { code: '08006' } })
  await lock.free()
})

t.test('the deadline passes inside an operation: rolled back at once, its locks free', async t => {
  const { database, engine } = await useScene(t)
  const lock = await holdRow(database, 'select from t where n = 0')
  const batch = engine.run([add(1), touch], 5000)
  t.match(await batch, {
    kind: 'failed',
    at: 1,
    error: { code: 'deadline_exceeded', status: 504 }
  })
  await lock.awaited(0)
  await lock.free()
  t.same(await database.sql`select n from t`, [{ n: 0 }])
})

t.test('a network that swallows everything: answered before the deadline', async t => {
  const { proxy, engine } = await useScene(t)
  proxy.forward = () => false
  await t.rejects(
    engine.run(["select 'never'"], 400),
    { code: 'deadline_exceeded', status: 504 },
    'BEGIN was not answered'
  )
  proxy.forward = () => true
  t.equal((await engine.run(["select 'again'"])).kind, 'committed')
  await until(() => engine.pool.count().idle === 1)
  proxy.forward = link => !inFlight(link)
  t.match(await engine.run([add(1)], 3000), { kind: 'unknown' }, 'the batch may have arrived')
})

t.test('connections that died while idle are replaced, and no batch notices', async t => {
  const { database, engine } = await useScene(t, { size: 3 })
  for (const moment of ['noticed', 'not noticed']) {
    await Promise.all(Array.from({ length: 3 }, () => engine.run(['select pg_sleep(0.1)::text'])))
    await until(async () => await connections(database) === 3)
    await terminateConnections(database)
    if (moment === 'noticed') await until(() => engine.pool.count().idle === 0)
    t.same(
      await Promise.all(
        Array.from(
          { length: 6 },
          async () => (await engine.run(['select pg_sleep(0.05)::text'])).kind
        )
      ),
      Array(6).fill('committed'),
      moment
    )
  }
})

t.test('a connection on which BEGIN is refused is replaced', async t => {
  const { database, engine } = await useScene(t)
  // BEGIN in a transaction that failed is refused; so is everything else there.
  const connection = await engine.pool.acquire(performance.now() + 1000)
  await connection.client.unsafe('begin')
  await t.rejects(connection.client.unsafe('select 1 / 0'))
  engine.pool.release(connection)
  t.equal((await engine.run(["select 'other connection'"])).kind, 'committed')
  t.ok(connection.state.retired)
  await until(async () => await connections(database) === 1)
})

t.test('no connection that works: unavailable after a bounded number of tries', async t => {
  const { proxy, engine } = await useScene(t)
  // Every connection opens, and dies at BEGIN.
  proxy.forward = link => {
    if (!link.sent.includes('begin isolation')) return true
    link.client.destroy()
    return false
  }
  await t.rejects(engine.run(["select 'never'"]), { code: 'database_unavailable' })
})

t.test('nothing is sent on a connection that is being ended', async t => {
  const { database, engine } = await useScene(t)
  const connection = await engine.pool.acquire(performance.now() + 1000)
  const { outcome, released } = startAttempt(connection, plainBatch([add(1)]))
  connection.state.dead = true
  // BEGIN was answered when the server says so.
  await until(async () =>
    (await database
      .sql`select from pg_stat_activity where datname = ${database.name}
        and state = 'idle in transaction'`)
      .length === 1
  )
  destroyConnection(connection)
  t.match(await outcome, { kind: 'lost', sent: false })
  await released
  engine.pool.release(connection)
  t.equal((await database.sql`select from t where n = 1`).length, 0)
})

t.test('cut while the batch is being written', async t => {
  const { engine } = await useScene(t)
  const connection: Connection = await engine.pool.acquire(performance.now() + 1000)
  const cork = connection.socket.cork.bind(connection.socket)
  connection.socket.cork = () => {
    cork()
    destroyConnection(connection)
  }
  const { outcome, released } = startAttempt(connection, plainBatch([add(1)]))
  t.match(await outcome, { kind: 'lost', sent: true })
  await released
  engine.pool.release(connection)
  t.equal((await engine.run([add(1)])).kind, 'committed')
})

t.test('a connection whose settings could not be reset is replaced', async t => {
  const { engine } = await useScene(t)
  const connection: Connection = await engine.pool.acquire(performance.now() + 1000)
  const { begin } = connection.client
  type Begin = (
    options: string,
    work: (transaction: { unsafe(text: string, ...rest: unknown[]): unknown }) => unknown
  ) => unknown
  const spoilt: Begin = (options, work) =>
    (begin as unknown as Begin)(
      options,
      transaction =>
        work({
          unsafe: (text, ...rest) =>
            transaction.unsafe(text.includes('reset all') ? 'select 1 / 0' : text, ...rest)
        })
    )
  Object.assign(connection.client, { begin: spoilt })
  engine.pool.release(connection)
  t.equal((await engine.run([add(1)])).kind, 'committed', 'the batch is not concerned')
  t.equal((await engine.run([add(2)])).kind, 'committed')
  t.ok(connection.state.retired)
  await until(() => connection.socket.destroyed)
})

t.test('a storm of terminated connections', async t => {
  const service = await useService(t, { schema: ledgerSchema })
  const load = startLoad(service, 8)
  await until(() => load.answers.size > 20)
  const end = performance.now() + 3000
  let kills = 0
  while (performance.now() < end) {
    const before = load.answers.size
    const killed = await service.database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity where datname =
        ${service.database.name} and usename = 'oneflight_login'
      order by random() limit 1`
    kills += killed.length
    await delay(20 + Math.random() * 40)
    await until(() => load.answers.size > before + 3)
  }
  await load.stop()
  const codes = await audit(t, service.database.sql, load)
  t.comment(`${kills} terminated: ${JSON.stringify(codes)}`)
  t.same(
    Object.keys(codes).filter(code =>
      !['ok', 'database_unavailable', 'commit_unknown'].includes(code)
    ),
    []
  )
  t.ok((codes['ok'] ?? 0) > kills, 'the service worked all the while')
  const row = await holdRow(service.database, 'lock table left_side; select')
  const batches = Array.from({ length: 4 }, (_, i) => service.post(pair(1_000_000 + i)))
  await row.awaited(4)
  await row.free()
  t.same((await Promise.all(batches)).map(({ status }) => status), [200, 200, 200, 200])
  // The pool is full again.
  await until(async () => await gauge(service, 'service_pool_lanes_idle') === 4)
})
