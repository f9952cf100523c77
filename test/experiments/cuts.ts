/**
 * The cuts scenario: a proxy cuts, blackholes, throttles and delays the connection to the database
 * at every message of a transaction, while the server runs. Afterwards compares every response with
 * the database: the reported outcome must be true, responses in time, and nothing left behind.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Stage } from '../../scripts/dev/stage.ts'
import { useProxy, type Fault, type Injected, type Proxy } from '../support/network/proxy.ts'
import * as op from '../support/operations.ts'
import { useRestartableService } from '../support/process/restartable-service.ts'
import { until } from '../support/until.ts'
import { readMetric, useServer, type OwnServer } from './own-server.ts'
import { createPoster, type Poster } from './poster.ts'
import {
  figureFor,
  mustBeZero,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

/**
 * No constraint rejects a batch that is applied twice. Each batch updates its own row of `held`,
 * and its last operation writes to `right_side`.
 */
const schema = `
  create table left_side (id int not null);
  create table held (id int primary key, n int not null);
  create table right_side (id int not null);
  insert into held select id, 0 from generate_series(0, 20000) as id;`

interface Form {
  /** Number of lost COMMIT responses, each with and without a key. */
  readonly commits: number
  /** Number of cuts at random bytes, for each side with and without a key. */
  readonly bytes: number
  /** A transaction is cut at every n-th message. */
  readonly cutEvery: number
  /** The messages of a transaction are dropped from every n-th one on. */
  readonly silentEvery: number
  /** Tolerance (ms) beyond the deadline of a request, for a busy machine. */
  readonly spareMs: number
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: { commits: 1000, bytes: 250, cutEvery: 1, silentEvery: 1, spareMs: 500 },
  short: { commits: 20, bytes: 3, cutEvery: 3, silentEvery: 8, spareMs: 10_000 }
}

/**
 * What the first write of a transaction contains: BEGIN, or everything, with a BEGIN that may be
 * prepared. Faults count from there.
 */
const BEGIN = ['begin isolation', 'commit and chain', 'commit\0']

const CONNECTIONS = 4

/** REQUEST_TIMEOUT_MS of the service with short deadlines. */
const DEADLINE_MS = 1000

/**
 * The part of DEADLINE_MS after which the service ends an unfinished batch. It needs the rest to
 * look up the outcome.
 */
const SENDING_SHARE = 0.9

/** STATEMENT_TIMEOUT_MS of the service with short deadlines. */
const STATEMENT_MS = 500

/** How long sessions may stay in a transaction before they count as left behind. */
const CLEANUP_MS = 2500

export const cuts: Scenario = {
  name: 'cuts',
  run: runCuts
}

async function runCuts (stage: Stage, options: ScenarioOptions): Promise<readonly Figure[]> {
  const form = forms[options.long ? 'long' : 'short']
  const server = await useServer(stage, { schema, settings: { fsync: 'off' } })
  const proxy = await useProxy(stage, server.loginUrl)
  const useScene = async (env: Readonly<Record<string, string>>): Promise<Scene> => {
    const { url, adminUrl } = await useRestartableService(stage, {
      DATABASE_URL: proxy.through(server.loginUrl),
      POOL_SIZE: String(CONNECTIONS),
      ...env
    })
    const poster = createPoster(url, 2 * CONNECTIONS)
    stage.teardown(() => poster.close())
    return { server, proxy, poster, adminUrl, options }
  }
  const scene = await useScene({ QUEUE_TIMEOUT_MS: '20000' })
  const commits: Figure[] = []
  for (const keyed of [false, true]) {
    commits.push(...await loseCommits(scene, { times: form.commits, keyed }))
  }
  const everywhere = await cutEverywhere(scene, form)
  const disturbed = await useScene({
    REQUEST_TIMEOUT_MS: String(DEADLINE_MS),
    STATEMENT_TIMEOUT_MS: String(STATEMENT_MS),
    QUEUE_TIMEOUT_MS: '500'
  })
  const lockRelease = await measureLockRelease(disturbed)
  return [
    ...commits,
    ...everywhere,
    lockRelease,
    ...await disturb(disturbed, form)
  ]
}

interface Scene {
  readonly server: OwnServer
  readonly proxy: Proxy
  readonly poster: Poster
  readonly adminUrl: string
  readonly options: ScenarioOptions
}

interface PostedBatch {
  readonly id: number
  readonly key: string | undefined
  readonly status: number
  readonly code: string
  readonly committed: boolean | 'unknown'
  readonly replayed: boolean
  readonly text: string
  readonly ms: number
  /** The injected fault, for the log. */
  readonly what: string
}

let nextId = 1

function post (
  { poster }: Scene,
  { keyed = false, what = '' }: { readonly keyed?: boolean, readonly what?: string }
): Promise<PostedBatch> {
  const id = nextId++
  return send(poster, { id, key: keyed ? `key-${id}` : undefined, what })
}

/** Sends a batch, also again. */
async function send (
  poster: Poster,
  { id, key, what }: Pick<PostedBatch, 'id' | 'key' | 'what'>
): Promise<PostedBatch> {
  const start = performance.now()
  const response = await poster.post(
    JSON.stringify([
      { id: 'left', op: 'insert', table: 'left_side', values: [{ id }] },
      op.update('held', 'held', { set: { n: { $inc: 1 } }, where: { id: { eq: id } } }),
      { id: 'right', op: 'insert', table: 'right_side', values: [{ id: '$left.0.id' }] }
    ]),
    key
  )
  if (response === undefined) throw new Error(`no response: ${what}`)
  const { error } = JSON.parse(response.text) as {
    error: { code: string, committed: false | 'unknown' } | null
  }
  return {
    ...response,
    id,
    key,
    code: error?.code ?? 'ok',
    committed: error?.committed ?? true,
    ms: performance.now() - start,
    what
  }
}

/**
 * Returns the fault for a lost COMMIT response: the server executes COMMIT, and none or half of the
 * response is delivered.
 */
function loseCommitResponse (i: number): Fault {
  return {
    kind: i % 2 === 0 ? 'cut' : 'reset',
    side: 'server',
    from: BEGIN,
    after: { tag: 'COMMIT', delivered: i % 4 < 2 ? 'none' : 'half' }
  }
}

async function loseCommits (
  scene: Scene,
  { times, keyed }: { readonly times: number, readonly keyed: boolean }
): Promise<readonly Figure[]> {
  const { proxy } = scene
  const name = keyed ? 'with a key' : 'without a key'
  const promise = keyed ? 4 : 3
  const posted: PostedBatch[] = []
  let different = 0
  let missed = 0
  for (let i = 0; i < times; i++) {
    const fault = proxy.inject(loseCommitResponse(i))
    const first = await post(scene, { keyed, what: `COMMIT ${i} ${name}` })
    if (!fault.happened) missed++
    posted.push(first)
    if (!keyed) continue
    const second = await send(scene.poster, first)
    if (second.status !== 200 || !second.replayed || second.text !== first.text) different++
  }
  const { applied, wrong } = await audit(scene, posted)
  const other = keyed
    ? countOther(posted)
    : posted.filter(({ status, code }) => status !== 200 && code !== 'commit_unknown').length
  return [
    figureFor(promise)(
      `COMMIT executed and its response lost, ${name}`,
      posted.length,
      { atLeast: times }
    ),
    mustBeZero(promise)(
      'of these, without the fault or not applied',
      missed + posted.length - applied
    ),
    mustBeZero(promise)(`of these, not answered 200${keyed ? '' : ' or commit_unknown'}`, other),
    mustBeZero(2, promise)('of these, applied twice or reported wrong', wrong),
    ...keyed
      ? [mustBeZero(4)('of these, answered with other bytes when sent again', different)]
      : []
  ]
}

/**
 * Cuts at every message and at random bytes from BEGIN to the last response, in both directions.
 */
async function cutEverywhere (scene: Scene, { bytes, cutEvery }: Form): Promise<readonly Figure[]> {
  const { proxy, options } = scene
  const posted: PostedBatch[] = []
  for (const keyed of [false, true]) {
    const all = await measure(scene, keyed)
    for (const side of ['client', 'server'] as const) {
      const cut = async (after: { bytes: number } | { messages: number }): Promise<void> => {
        const fault = proxy.inject({ kind: 'cut', side, from: BEGIN, after })
        const answer = post(scene, {
          keyed,
          what: `cut of the ${side} after ${JSON.stringify(after)}${keyed ? ', with a key' : ''}`
        })
        // The last faults happen only after the batch was answered.
        await waitForFault(fault, answer)
        posted.push(await answer)
      }
      for (let messages = 0; messages <= all[side].messages; messages += cutEvery) {
        await cut({ messages })
      }
      for (let i = 0; i < bytes; i++) {
        await cut({ bytes: Math.floor(options.random() * all[side].bytes) })
      }
    }
  }
  const { wrong, twice } = await audit(scene, posted)
  return [
    figureFor(1, 3)('cuts at every message and at random bytes of a transaction', posted.length),
    mustBeZero(1, 2, 3)('of these, reported wrong', wrong),
    mustBeZero(1, 4)('of these, applied twice', twice),
    mustBeZero(4)(
      'of these, with a key and not answered 200',
      posted.filter(({ key, status }) => key !== undefined && status !== 200).length
    )
  ]
}

/** Waits until the fault has happened or can no longer happen. */
async function waitForFault (fault: Injected, answer: Promise<unknown>): Promise<void> {
  let answered = false
  answer.then(() => {
    answered = true
  }, () => {})
  await until(() => fault.happened || fault.missed || (answered && !fault.begun))
}

/** Counts the messages and bytes of a transaction on a new connection. */
async function measure (scene: Scene, keyed: boolean): Promise<Injected['seen']> {
  const { proxy } = scene
  await reconnect(proxy)
  const fault = proxy.inject({
    kind: 'cut',
    side: 'client',
    from: BEGIN,
    after: { messages: Infinity }
  })
  // If opening the connection takes too long, the batch is rejected and sends no transaction.
  await until(async () => {
    await post(scene, { keyed })
    return fault.missed
  })
  return fault.seen
}

/**
 * Drops, throttles and delays messages. Every request must be answered in time, and nothing left
 * behind.
 */
async function disturb (scene: Scene, { silentEvery, spareMs }: Form): Promise<readonly Figure[]> {
  const { proxy, options } = scene
  const posted: PostedBatch[] = []
  const leftBehind = { withLocks: 0, withoutLocks: 0 }
  const checkLeftovers = async (what: string): Promise<void> => {
    const stuck = await terminateStuck(scene)
    proxy.record()
    for (const { holds, state, query } of stuck) {
      leftBehind[holds ? 'withLocks' : 'withoutLocks']++
      options.log(
        `${what}: a session is left ${state}${holds ? ', with locks' : ''}, last query: ${query}`
      )
    }
  }
  for (const keyed of [false, true]) {
    const all = await measure(scene, keyed)
    for (const side of ['client', 'server'] as const) {
      const positions = Array.from(
        { length: Math.floor(all[side].messages / silentEvery) + 1 },
        (_, i) => i * silentEvery
      )
      while (positions.length > 0) {
        // Several at a time, because each waits for its deadline. One connection stays free for the
        // lookups.
        const group = positions.splice(0, CONNECTIONS - 1)
        const what = `silence after ${group.join(', ')} messages of the ${side}${
          keyed ? ', with a key' : ''
        }`
        const answers: Array<Promise<PostedBatch>> = []
        for (const messages of group) {
          const fault = proxy.inject({ kind: 'blackhole', side, from: BEGIN, after: { messages } })
          const answer = post(scene, { keyed, what })
          answers.push(answer)
          await waitForFault(fault, answer)
        }
        posted.push(...await Promise.all(answers))
        await checkLeftovers(what)
      }
    }
  }
  const dropped = posted.length
  const postConcurrently = (count: number, what: string): Promise<PostedBatch[]> =>
    Promise.all(
      Array.from({ length: count }, (_, i) => post(scene, { keyed: i % 2 === 0, what }))
    )
  proxy.blackhole = true
  posted.push(...await postConcurrently(2 * CONNECTIONS, 'silence on every connection'))
  proxy.blackhole = false
  proxy.cut()
  await checkLeftovers('silence on every connection')
  for (const bytesPerSecond of [100_000, 3000]) {
    proxy.bytesPerSecond = bytesPerSecond
    posted.push(...await postConcurrently(2 * CONNECTIONS, `${bytesPerSecond} bytes a second`))
    proxy.bytesPerSecond = Infinity
    proxy.cut()
    await checkLeftovers(`${bytesPerSecond} bytes a second`)
  }
  for (const latencyMs of [50, 400]) {
    proxy.latencyMs = latencyMs
    posted.push(...await postConcurrently(2 * CONNECTIONS, `${latencyMs} ms of delay`))
    proxy.latencyMs = 0
    await checkLeftovers(`${latencyMs} ms of delay`)
  }
  const afterwards = await postConcurrently(CONNECTIONS, 'afterwards')
  const { wrong } = await audit(scene, [...posted, ...afterwards])
  return [
    figureFor(10)('transactions whose messages were dropped from some point on', dropped),
    figureFor(10)('requests over a silent, slow or delayed network', posted.length),
    mustBeZero(10)(
      `of these, answered later than ${
        DEADLINE_MS + spareMs
      } ms, with REQUEST_TIMEOUT_MS=${DEADLINE_MS}`,
      posted.filter(({ ms }) => ms > DEADLINE_MS + spareMs).length
    ),
    mustBeZero(2, 3)('of these, reported wrong', wrong),
    mustBeZero(13)('sessions left in a transaction with locks', leftBehind.withLocks),
    mustBeZero(13)('sessions left in a transaction without locks', leftBehind.withoutLocks),
    mustBeZero(10)('later requests not answered 200', countOther(afterwards)),
    mustBeZero(13)(
      'connections still busy',
      await readMetric(scene, 'service_pool_connections_busy')
    )
  ]
}

/**
 * A session that remains in a transaction without a client. `holds`: it has a transaction id or a
 * lock that others may wait for.
 */
interface StuckSession {
  readonly pid: number
  readonly state: string
  readonly query: string
  readonly holds: boolean
}

/**
 * Waits until no session of the service is in a transaction. After CLEANUP_MS terminates those that
 * still are, so they cannot affect the next fault, and returns them.
 */
async function terminateStuck ({ server: { sql } }: Scene): Promise<readonly StuckSession[]> {
  const start = performance.now()
  for (;;) {
    const stuck = await sql<StuckSession[]>`
      select pid, state, left(query, 40) as query, backend_xid is not null or exists (select
        from pg_locks as l where l.pid = a.pid and locktype <> 'virtualxid') as holds
      from pg_stat_activity as a where usename = 'oneflight' and xact_start is not null`
    if (stuck.length === 0) return stuck
    if (performance.now() - start > CLEANUP_MS) {
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'oneflight'
        and xact_start is not null`
      return stuck
    }
    await delay(10)
  }
}

/**
 * Number of messages up to the end of the second operation, on a new connection: Parse, Bind and
 * Execute of BEGIN, the settings and two operations, and Flush after the settings.
 */
const UP_TO_HELD = 4 * 3 + 1

/**
 * Measures how long a row stays locked when the server receives a part of a transaction and then
 * nothing, not even the end of the connection. PostgreSQL does not count as idle then, and the
 * proxy acknowledges its answers. So only the service can end the transaction, at the deadline of
 * the request: it terminates the session over another connection.
 */
async function measureLockRelease (scene: Scene): Promise<Figure> {
  const { proxy, server: { sql } } = scene
  await reconnect(proxy)
  const fault = proxy.inject({
    kind: 'blackhole',
    side: 'client',
    from: BEGIN,
    after: { messages: UP_TO_HELD }
  })
  // If opening the connection takes too long, the batch is rejected and sends no transaction.
  const { id, answer } = await until(async () => {
    const id = nextId
    const answer = post(scene, { what: 'an incomplete transaction' })
    await waitForFault(fault, answer)
    return fault.happened ? { id, answer } : undefined
  })
  const start = performance.now()
  const isFree = async (): Promise<boolean> =>
    (await sql`select from held where id = ${id} for update skip locked`).length === 1
  await until(async () => !await isFree())
  await until(isFree)
  const ms = performance.now() - start
  proxy.cut()
  await answer
  return figureFor(13)(
    'time until the row lock of an incomplete transaction is released, with ' +
      `REQUEST_TIMEOUT_MS=${DEADLINE_MS}`,
    ms,
    { unit: 'ms', atLeast: SENDING_SHARE * DEADLINE_MS - 200, atMost: DEADLINE_MS + 1000 }
  )
}

/**
 * Closes all connections, so the next batch opens a new one. A service that is still starting
 * replaces a closed one.
 */
async function reconnect (proxy: Proxy): Promise<void> {
  await until(() => {
    if (proxy.links.size > 0) proxy.cut()
    return proxy.links.size === 0
  })
}

/** Compares responses with the database after all transactions have ended. */
async function audit (
  scene: Scene,
  posted: readonly PostedBatch[]
): Promise<{ applied: number, twice: number, wrong: number }> {
  const { server: { sql }, options } = scene
  await terminateStuck(scene)
  // Frees the recorded bytes, which are not needed here.
  scene.proxy.record()
  const toCounts = (rows: ReadonlyArray<Record<string, unknown>>): ReadonlyMap<number, number> =>
    new Map(rows.map(({ id, n }) => [id as number, n as number]))
  const read = async (table: string): Promise<ReadonlyMap<number, number>> =>
    toCounts(await sql.unsafe(`select id, count(*)::int as n from ${table} group by id`))
  const [left, right] = [await read('left_side'), await read('right_side')]
  const held = toCounts(await sql`select id, n from held where n > 0`)
  let applied = 0
  let twice = 0
  let wrong = 0
  for (const batch of posted) {
    const times = [left, held, right].map(side => side.get(batch.id) ?? 0) as Times
    const [n] = times
    const isComplete = times.every(time => time === n)
    if (n > 0) applied++
    if (n > 1) twice++
    const isTrue = isComplete && n <= 1 &&
      (batch.committed === 'unknown' || (batch.committed ? n === 1 : n === 0))
    if (isTrue) continue
    wrong++
    const response = `${batch.status} ${batch.code}`
    options.log(`answered ${response}, applied ${times.join('/')} times: ${batch.what}`)
  }
  return { applied, twice, wrong }
}

/** How often the three operations of a batch were applied. */
type Times = [left: number, held: number, right: number]

/** Counts the responses with a status other than 200. */
function countOther (posted: readonly PostedBatch[]): number {
  return posted.filter(({ status }) => status !== 200).length
}
