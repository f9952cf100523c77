/**
 * Connections that are lost at every stage of a batch: the reported outcome is correct, and the
 * next batch succeeds.
 */
import t, { type Test } from 'tap'
import { destroyConnection, type Connection } from '../../src/postgres/connection.ts'
import { Lease, type ConnectionPool } from '../../src/postgres/pool.ts'
import type { Place } from '../../src/sql/frame/steps.ts'
import { Attempt } from '../../src/transaction/attempt.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../src/transaction/outcome.ts'
import { acquireAtPosition, ReplicaBehind } from '../../src/transaction/position.ts'
import { useDatabase } from '../support/database/database.ts'
import {
  alterSession,
  plainBatch,
  untilQuiet,
  useEngine,
  type Engine
} from '../support/database/engine.ts'
import { holdRow } from '../support/database/hold.ts'
import { useProxy, type Link, type Proxy } from '../support/network/proxy.ts'
import { until } from '../support/until.ts'

const schema = `
  create table t (n int primary key, word text);
  insert into t values (0, 'free');`

const add = (n: number): string =>
  `with r as (insert into t values (${n}) returning n) select n::text from r`
const touch = "with r as (update t set word = 'mine' where n = 0 returning n) select n::text from r"

const database = await useDatabase(t, { schema })
const { sql, name } = database

interface TestSetup {
  readonly proxy: Proxy
  readonly engine: Engine
}

async function useProxiedEngine (t: Test, { size = 1 } = {}): Promise<TestSetup> {
  await sql`delete from t where n > 0`
  const proxy = await useProxy(t, database.loginUrl)
  const engine = useEngine(t, proxy.through(database.loginUrl), { size })
  t.equal((await engine.run(["select 'warm'"])).kind, 'committed')
  // A batch does not wait for the statements after COMMIT. A fault must not hit those.
  await until(() => engine.pool.count().idle === 1)
  return { proxy, engine }
}

const terminateConnections = () =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
    and usename = 'oneflight_login'`

/** The numbers of the rows that batches have inserted. */
const added = async (): Promise<unknown> =>
  (await sql`select n from t where n > 0 order by n`).map(({ n }) => n)

const holdTouched = () => holdRow(database, 'select from t where n = 0')
const lostAt = (at: Place): object => ({ kind: 'failed', at, error: { code: '08006' } })
const deadline = (ms = 5000): { readonly deadline: number } =>
  ({ deadline: performance.now() + ms })

const XID = 'pg_catalog.pg_current_xact_id()::pg_catalog.text'

t.test('a transaction id that the server does not know was rolled back', async t => {
  // The server does not know the id after a crash in which nothing of the batch became durable.
  const { proxy, engine } = await useProxiedEngine(t)
  const lock = await holdTouched()
  const batch = alterSession(plainBatch([touch]), XID, "'999999999999'::text")
  const outcome = executeBatch(engine.pool, batch, deadline())
  await lock.awaited()
  proxy.cut()
  t.match(await outcome, lostAt('session'))
  await lock.free()
  t.equal((await engine.run([touch])).kind, 'committed', 'the next batch, on the unlocked row')
})

t.test('a commit whose response is lost is resolved by asking for its transaction id', async t => {
  const { proxy, engine } = await useProxiedEngine(t)
  /**
   * Runs an insert of `n`, delivers its responses up to `before` bytes ahead of `mark`, and cuts
   * the connection when the row is committed.
   */
  const loseResponse = async (n: number, mark: string, before: number): Promise<BatchOutcome> => {
    proxy.deliver = ({ held }) => held.includes(mark) ? held.indexOf(mark) - before : held.length
    const batch = engine.run([add(n), "select 'answer'"])
    await until(async () => (await sql`select from t where n = ${n}`).length === 1)
    await until(() => [...proxy.links].some(({ held }) => held.indexOf(mark) === before))
    proxy.deliver = ({ held }) => held.length
    for (const { client, server } of proxy.links) {
      for (const socket of [client, server]) socket.destroy()
    }
    return await batch
  }
  /** Changes what the next batch knows about the server. */
  const changeServer = async (change: Partial<Connection['server']>): Promise<void> => {
    const connection = await engine.pool.acquire(performance.now() + 5000)
    Object.assign(connection, { server: { ...connection.server, ...change } })
    engine.pool.release(connection)
  }
  // CommandComplete begins five bytes before its tag.
  t.match(await loseResponse(1, 'COMMIT\0', 5), {
    kind: 'committed',
    rows: [Buffer.from('1'), Buffer.from('answer')],
    txid: /^\d+$/
  }, 'every result had arrived')
  t.match(
    await loseResponse(2, 'answer', 0),
    { kind: 'unknown', committed: true },
    'a result is lost'
  )
  await changeServer({ started: '1' })
  t.match(
    await loseResponse(3, 'COMMIT\0', 5),
    { kind: 'unknown', committed: false },
    "the server restarted: the id may be another transaction's"
  )
  await changeServer({ openedAt: '1' })
  t.match(
    await loseResponse(4, 'COMMIT\0', 5),
    { kind: 'unknown', committed: false },
    'the server crashed and recovered'
  )
})

t.test('a commit is known although its position is lost', async t => {
  const { proxy, engine } = await useProxiedEngine(t)
  const run = (n: number): Promise<BatchOutcome> =>
    executeBatch(engine.pool, { ...plainBatch([add(n)]), returnsPosition: true }, deadline())
  const tag = 'COMMIT\0'
  let ended = false
  proxy.deliver = ({ held }) => {
    if (ended) return 0
    ended = held.includes(tag)
    return ended ? held.indexOf(tag) + tag.length : held.length
  }
  const batch = run(1)
  await until(() => ended && [...proxy.links].some(({ held }) => held.length > 0))
  proxy.deliver = ({ held }) => held.length
  proxy.cut()
  const position = /^[0-9A-F]+\/[0-9A-F]+$/
  t.match(await batch, { kind: 'committed', rows: [Buffer.from('1')], position }, 'asked for again')
  await sql`revoke execute on function pg_current_wal_insert_lsn from public`
  const refused = await run(2)
  t.match(refused, { kind: 'committed', rows: [Buffer.from('2')] })
  t.notOk('position' in refused, 'it cannot be read')
  await sql`grant execute on function pg_current_wal_insert_lsn to public`
  t.match(await run(3), { kind: 'committed', position })
  t.same(await added(), [1, 2, 3])
})

t.test('a position is asked for on the connection that runs the batch', async t => {
  const { engine } = await useProxiedEngine(t)
  const now = performance.now()
  const needs = { position: '0/0', until: now, deadline: now + 5000 }
  const connection = await engine.pool.acquire(now + 5000)
  const released: Connection[] = []
  const pool = {
    release: (connection: Connection) => released.push(connection)
  } as unknown as ConnectionPool
  const ask = async (changes: Partial<Connection>): Promise<Connection> => {
    const lease = await acquireAtPosition(
      needs,
      async () => new Lease(pool, { ...connection, ...changes })
    )
    return lease.connection
  }
  t.match(await ask({}), { backend: connection.backend })
  t.equal(released.length, 0, 'the connection is kept for the batch')
  const refused: unknown = await ask({ backend: undefined }).catch((error: unknown) => error)
  t.ok(refused instanceof ReplicaBehind, 'through a pooler')
  t.equal(released.length, 1)
  const throwing = { client: undefined } as unknown as Connection
  await t.rejects(ask(throwing), TypeError)
  t.equal(released.length, 2, 'also after an error')
  destroyConnection(connection)
  t.match(await ask({}), { state: { dead: true } }, 'the batch notices that it is lost')
  engine.pool.release(connection)
})

t.test('resolving a lost connection does not wait for a free connection of the pool', async t => {
  const { proxy, engine } = await useProxiedEngine(t, { size: 2 })
  const lock = await holdTouched()
  const batch = engine.run([add(1), touch], 30_000)
  await lock.awaited()
  const [link] = [...proxy.links] as [Link]
  const queued = [touch, touch].map(text => engine.run([text], 30_000))
  link.server.destroy()
  link.client.destroy()
  t.match(await batch, lostAt('session'), 'resolved while the other batches wait for the lock')
  await lock.free()
  t.same((await Promise.all(queued)).map(({ kind }) => kind), ['committed', 'committed'])
})

t.test('terminating all idle connections fails no batch', async t => {
  const { engine: { run, pool } } = await useProxiedEngine(t, { size: 4 })
  let n = 0
  for (let round = 0; round < 20; round++) {
    // None is being opened: one that no batch waits for could be lost in several rounds.
    const all = Array.from({ length: 4 }, () => pool.acquire(performance.now() + 5000))
    for (const connection of await Promise.all(all)) pool.release(connection)
    await terminateConnections()
    const batches = await Promise.all(Array.from({ length: 6 }, () => run([add(++n)])))
    t.same(batches.map(({ kind }) => kind), Array(6).fill('committed'), `round ${round}`)
  }
  t.equal((await added() as unknown[]).length, n)
})

t.test('no batch is sent on a connection that is being closed', async t => {
  const { engine } = await useProxiedEngine(t)
  await untilQuiet(engine)
  const connection = await engine.pool.acquire(performance.now() + 1000)
  const { outcome, released } = new Attempt(connection, plainBatch([add(1)]))
  const { state } = connection
  state.dead = true
  const run = state.transaction as () => Promise<void>
  // Called once BEGIN was answered.
  await new Promise<void>(resolve => {
    state.transaction = () => {
      resolve()
      return run()
    }
  })
  destroyConnection(connection)
  t.match(await outcome, { kind: 'lost', sent: false })
  await released
  engine.pool.release(connection)
  t.same(await added(), [])
})

t.test('no batch is sent whose client has left when its transaction begins', async t => {
  const { engine } = await useProxiedEngine(t)
  const connection = await engine.pool.acquire(performance.now() + 1000)
  // A connection that was heard a moment ago gets BEGIN with the batch.
  connection.socket.heardAt = performance.now()
  const clientClosed = AbortSignal.abort()
  const { outcome, released } = new Attempt(connection, plainBatch([add(1)]), { clientClosed })
  t.match(await outcome, { kind: 'failed', error: { code: 'client_closed_request' } })
  await released
  engine.pool.release(connection)
  t.same(await added(), [])
  t.equal((await engine.run([add(2)])).kind, 'committed', 'the connection is free')
})

t.test('a connection lost while the batch is being written', async t => {
  const { engine } = await useProxiedEngine(t)
  const connection: Connection = await engine.pool.acquire(performance.now() + 1000)
  const { socket } = connection
  const send = socket.send.bind(socket)
  socket.send = (bytes, receive) => {
    send(bytes.subarray(0, bytes.length / 2), receive)
    destroyConnection(connection)
  }
  const { outcome, released } = new Attempt(connection, plainBatch([add(1)]))
  t.match(await outcome, { kind: 'lost', sent: true })
  await released
  engine.pool.release(connection)
  t.equal((await engine.run([add(1)])).kind, 'committed')
})
