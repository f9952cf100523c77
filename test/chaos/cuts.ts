/**
 * The connection to the database is cut at every moment, swallowed, slowed and delayed, while the
 * server lives: what the caller is told is true, in time, and nothing is left behind.
 *
 * In charge of: where the wire breaks, and of holding each answer against the database when nothing
 * runs there any more. Refuses to: kill a process; storm.ts does.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { readConfig } from '../../src/config/config.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { startService, type Service } from '../../src/server/service.ts'
import { onStage, type Stage } from '../../src/dev/stage.ts'
import { useProxy, type Fault, type Injected, type Proxy } from '../support/network/proxy.ts'
import { until } from '../support/until.ts'
import { bearer, readMetric, ROLE, SECRET, useServer, type OwnServer } from './own-server.ts'
import type { Figure, Scenario, Setting } from './scenario.ts'

/**
 * No constraint would refuse a batch that is applied twice. Each batch has a row of its own to
 * hold, and its end is one of its operations.
 */
const schema = `
  create table left_side (id int not null);
  create table held (id int primary key, n int not null);
  create table right_side (id int not null);
  insert into held select id, 0 from generate_series(0, 20000) as id;
  grant all on all tables in schema public to ${ROLE};`

interface Form {
  /** Cuts with and without a key whose COMMIT was carried out and not answered. */
  readonly commits: number
  /** Bytes that are picked, for each side with and without a key. */
  readonly bytes: number
  /** Of the messages of a flight, at every so many it is cut, and swallowed from. */
  readonly cutEvery: number
  readonly silentEvery: number
  /** Milliseconds that the machine may take beside the deadline of a request. */
  readonly spareMs: number
  /** IDLE_TRANSACTION_TIMEOUT_MS where a request has much time. */
  readonly idleMs: number
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: { commits: 1000, bytes: 250, cutEvery: 1, silentEvery: 1, spareMs: 500, idleMs: 500 },
  short: { commits: 20, bytes: 3, cutEvery: 3, silentEvery: 8, spareMs: 10_000, idleMs: 2000 }
}

/** What every flight begins with; a fault counts from there. */
const BEGIN = 'begin isolation'

const LANES = 4

/** How long a request may take, whatever the network does to it. */
const DEADLINE_MS = 1000

/** IDLE_TRANSACTION_TIMEOUT_MS where it has little time. */
const HASTY_IDLE_MS = 500

/** How long sessions that were left behind may take to end. */
const CALM_MS = 2500

export const cuts: Scenario = {
  name: 'cuts',
  run: setting => onStage(stage => cutAll(stage, setting))
}

async function cutAll (stage: Stage, setting: Setting): Promise<readonly Figure[]> {
  const form = forms[setting.long ? 'long' : 'short']
  const server = await useServer(stage, { schema, settings: { fsync: 'off' } })
  await migrate(
    parseDatabaseUrl(server.url),
    await readFile(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8'),
    new URL(server.loginUrl).username
  )
  const proxy = await useProxy(stage, server.loginUrl)
  const post = createPoster()
  const patient = await useService(stage, proxy, server, {
    IDLE_TRANSACTION_TIMEOUT_MS: String(form.idleMs),
    QUEUE_TIMEOUT_MS: '20000'
  })
  const scene: Scene = { server, proxy, post, service: patient, setting }
  const timed = async <T>(name: string, work: Promise<T>): Promise<T> => {
    const start = performance.now()
    const done = await work
    setting.say(`${name}: ${((performance.now() - start) / 1000).toFixed(1)} s`)
    return done
  }
  const withoutKey = await timed('COMMIT without a key', loseCommits(scene, form.commits))
  const withKey = await timed('COMMIT with a key', loseCommitsWithKey(scene, form.commits))
  const everywhere = await timed('cuts everywhere', cutEverywhere(scene, form))
  const part = await timed('a part of a flight', freeRow(scene, form))
  const hasty = await useService(stage, proxy, server, {
    REQUEST_TIMEOUT_MS: String(DEADLINE_MS),
    IDLE_TRANSACTION_TIMEOUT_MS: String(HASTY_IDLE_MS),
    STATEMENT_TIMEOUT_MS: String(HASTY_IDLE_MS),
    QUEUE_TIMEOUT_MS: '500'
  })
  return [
    ...withoutKey,
    ...withKey,
    ...everywhere,
    part,
    ...await timed('silence, trickles and delays', starve({ ...scene, service: hasty }, form))
  ]
}

interface Scene {
  readonly server: OwnServer
  readonly proxy: Proxy
  readonly service: Service
  readonly post: Post
  readonly setting: Setting
}

/** The service in this process, through the proxy. */
async function useService (
  stage: Stage,
  proxy: Proxy,
  { loginUrl }: OwnServer,
  env: Readonly<Record<string, string>>
): Promise<Service> {
  const settings = readConfig({
    DATABASE_URL: proxy.through(loginUrl),
    HTTP_PORT: '0',
    ADMIN_HTTP_PORT: '0',
    JWT_SECRET: SECRET,
    POOL_SIZE: String(LANES),
    SHUTDOWN_DELAY_MS: '0',
    ...env
  })
  const service = await startService({ ...settings, logger: pino({ level: 'silent' }) })
  stage.teardown(() => service.stop())
  return service
}

/** A batch and what was said of it. */
interface Told {
  readonly id: number
  readonly key: string | undefined
  readonly status: number
  readonly code: string
  readonly committed: boolean | 'unknown'
  readonly replayed: boolean
  readonly text: string
  readonly ms: number
  /** What was done to it, for whoever looks for a fault. */
  readonly what: string
}

interface Post {
  (service: Service, options?: { readonly keyed?: boolean, readonly what?: string }): Promise<Told>
  again(service: Service, told: Told): Promise<Told>
  /** The number of the next batch. */
  upcoming(): number
}

function createPoster (): Post {
  let next = 1
  const authorization = bearer()
  const send = async (
    service: Service,
    id: number,
    key: string | undefined,
    what: string
  ): Promise<Told> => {
    const start = performance.now()
    const answer = await fetch(service.url, {
      method: 'POST',
      headers: {
        authorization,
        'content-type': 'application/json',
        connection: 'close',
        ...(key === undefined ? {} : { 'idempotency-key': key })
      },
      body: JSON.stringify([
        { id: 'left', op: 'insert', table: 'left_side', values: [{ id }] },
        {
          id: 'held',
          op: 'update',
          table: 'held',
          set: { n: { $inc: 1 } },
          where: { id: { eq: id } }
        },
        { id: 'right', op: 'insert', table: 'right_side', values: [{ id: '$left.0.id' }] }
      ])
    })
    const text = await answer.text()
    const { error } = JSON.parse(text) as {
      error: { code: string, committed: false | 'unknown' } | null
    }
    const replayed = answer.headers.get('idempotent-replayed') === 'true'
    return {
      id,
      key,
      status: answer.status,
      code: error?.code ?? 'ok',
      committed: error?.committed ?? true,
      replayed,
      text,
      ms: performance.now() - start,
      what
    }
  }
  const post = async (
    service: Service,
    { keyed = false, what = '' }: Parameters<Post>[1] = {}
  ): Promise<Told> => {
    const id = next++
    return send(service, id, keyed ? `key-${id}` : undefined, what)
  }
  return Object.assign(post, {
    again: (service: Service, { id, key, what }: Told) => send(service, id, key, what),
    upcoming: () => next
  })
}

/**
 * Right behind COMMIT: the server has carried it out and said so, and not a byte of that, or half
 * of it, arrives.
 */
function lostCommit (i: number): Fault {
  return {
    kind: i % 2 === 0 ? 'cut' : 'reset',
    side: 'server',
    from: BEGIN,
    after: { tag: 'COMMIT', delivered: i % 4 < 2 ? 'none' : 'half' }
  }
}

async function loseCommits (scene: Scene, times: number): Promise<readonly Figure[]> {
  const { proxy, service, post } = scene
  const told: Told[] = []
  let missed = 0
  for (let i = 0; i < times; i++) {
    const fault = proxy.inject(lostCommit(i))
    told.push(await post(service, { what: `COMMIT ${i}` }))
    if (!fault.happened) missed++
  }
  const { there, wrong } = await audit(scene, told)
  return [
    {
      name: 'COMMIT carried out and its answer lost, without a key',
      value: told.length,
      unit: '',
      goal: { atLeast: times },
      promises: [3]
    },
    none('of them without the fault, or not committed', missed + told.length - there, [3]),
    none(
      'of them answered as not committed',
      told.filter(({ committed }) => committed === false).length,
      [2, 3]
    ),
    {
      name: 'of them answered 200 with its rows',
      value: told.filter(({ status }) => status === 200).length,
      unit: '',
      promises: [3]
    },
    {
      name: 'of them answered commit_unknown',
      value: told.filter(({ code }) => code === 'commit_unknown').length,
      unit: '',
      promises: [3]
    },
    none(
      'of them otherwise',
      told.filter(({ status, code }) => status !== 200 && code !== 'commit_unknown').length + wrong,
      [3]
    )
  ]
}

async function loseCommitsWithKey (scene: Scene, times: number): Promise<readonly Figure[]> {
  const { proxy, service, post } = scene
  const told: Told[] = []
  let other = 0
  let missed = 0
  for (let i = 0; i < times; i++) {
    const fault = proxy.inject(lostCommit(i))
    const answer = await post(service, { keyed: true, what: `COMMIT ${i} with a key` })
    if (!fault.happened) missed++
    told.push(answer)
    const again = await post.again(service, answer)
    if (again.status !== 200 || !again.replayed || again.text !== answer.text) other++
  }
  const { there, wrong } = await audit(scene, told)
  return [
    {
      name: 'the same with an Idempotency-Key',
      value: told.length,
      unit: '',
      goal: { atLeast: times },
      promises: [4]
    },
    none('of them without the fault, or not applied', missed + told.length - there, [4]),
    none('of them not answered 200', told.filter(({ status }) => status !== 200).length, [4]),
    none('of them applied twice, or told wrong', wrong, [4]),
    none('of them answered other bytes when sent again', other, [4])
  ]
}

/**
 * At every message and at bytes that are picked, from BEGIN to the last answer, in both directions.
 */
async function cutEverywhere (scene: Scene, { bytes, cutEvery }: Form): Promise<readonly Figure[]> {
  const { proxy, service, post, setting } = scene
  const told: Told[] = []
  for (const keyed of [false, true]) {
    const all = await measure(scene, keyed)
    for (const side of ['client', 'server'] as const) {
      const cut = async (after: { bytes: number } | { messages: number }): Promise<void> => {
        const fault = proxy.inject({ kind: 'cut', side, from: BEGIN, after })
        const answer = post(service, {
          keyed,
          what: `cut of the ${side} after ${JSON.stringify(after)}${keyed ? ', with a key' : ''}`
        })
        // The last moments come when the batch was answered.
        await passes(fault, answer)
        told.push(await answer)
      }
      for (let messages = 0; messages <= all[side].messages; messages += cutEvery) {
        await cut({ messages })
      }
      for (let i = 0; i < bytes; i++) {
        await cut({ bytes: Math.floor(setting.random() * all[side].bytes) })
      }
    }
  }
  const { wrong, twice } = await audit(scene, told)
  const count = (code: string, keyed: boolean): number =>
    told.filter(one => one.code === code && (one.key !== undefined) === keyed).length
  return [
    {
      name: 'cuts at every message and at picked bytes of a flight',
      value: told.length,
      unit: '',
      promises: [1, 3]
    },
    none('of them answered what is not true', wrong, [1, 2, 3]),
    none('of them applied twice', twice, [1, 4]),
    none(
      'of them with a key and not answered 200',
      told.filter(({ key, status }) => key !== undefined && status !== 200).length,
      [4]
    ),
    {
      name: 'of them without a key answered 200',
      value: count('ok', false),
      unit: '',
      promises: [3]
    },
    {
      name: 'of them without a key answered as not committed',
      value: told.filter(({ committed }) => committed === false).length,
      unit: '',
      promises: [3]
    },
    {
      name: 'of them without a key answered commit_unknown',
      value: count('commit_unknown', false),
      unit: '',
      promises: [3]
    }
  ]
}

/** Waits until the fault has happened or cannot any more. */
async function passes (fault: Injected, answer: Promise<unknown>): Promise<void> {
  let answered = false
  answer.then(() => {
    answered = true
  }, () => {})
  await until(() => fault.happened || fault.missed || (answered && !fault.begun))
}

/** How many messages and bytes a flight has, on a connection that was just opened. */
async function measure (
  { proxy, service, post }: Scene,
  keyed: boolean
): Promise<Injected['seen']> {
  await reconnect(proxy)
  const fault = proxy.inject({
    kind: 'cut',
    side: 'client',
    from: BEGIN,
    after: { messages: Infinity }
  })
  // Refused, where its connection takes long, it has no flight.
  await until(async () => {
    await post(service, { keyed })
    return fault.missed
  })
  return fault.seen
}

/** Silence, trickles and delays: every request is answered in time, and nothing stays behind. */
async function starve (scene: Scene, { silentEvery, spareMs }: Form): Promise<readonly Figure[]> {
  const { proxy, service, post, setting } = scene
  const told: Told[] = []
  const left = { holding: 0, empty: 0 }
  let longest = 0
  const settleDown = async (what: string): Promise<void> => {
    const start = performance.now()
    const stuck = await calm(scene)
    proxy.record()
    longest = Math.max(longest, performance.now() - start)
    for (const { holds, state, query } of stuck) {
      left[holds ? 'holding' : 'empty']++
      setting.say(
        `${what}: a session is left ${state}${holds ? ', with locks' : ''}, last heard of: ${query}`
      )
    }
  }
  for (const keyed of [false, true]) {
    const all = await measure(scene, keyed)
    for (const side of ['client', 'server'] as const) {
      const moments = Array.from(
        { length: Math.floor(all[side].messages / silentEvery) + 1 },
        (_, i) => i * silentEvery
      )
      while (moments.length > 0) {
        // Several at a time, for each waits for its deadline; one connection is left for those who
        // ask.
        const some = moments.splice(0, LANES - 1)
        const what = `silence after ${some.join(', ')} messages of the ${side}${
          keyed ? ', with a key' : ''
        }`
        const answers: Array<Promise<Told>> = []
        for (const messages of some) {
          const fault = proxy.inject({ kind: 'blackhole', side, from: BEGIN, after: { messages } })
          const answer = post(service, { keyed, what })
          answers.push(answer)
          await passes(fault, answer)
        }
        told.push(...await Promise.all(answers))
        await settleDown(what)
      }
    }
  }
  const swallowed = told.length
  const many = (count: number, what: string): Promise<Told[]> =>
    Promise.all(
      Array.from({ length: count }, (_, i) => post(service, { keyed: i % 2 === 0, what }))
    )
  proxy.blackhole = true
  told.push(...await many(2 * LANES, 'silence on every connection'))
  proxy.blackhole = false
  proxy.cut()
  await settleDown('silence on every connection')
  for (const bytesPerSecond of [100_000, 3000]) {
    proxy.bytesPerSecond = bytesPerSecond
    told.push(...await many(2 * LANES, `${bytesPerSecond} bytes a second`))
    proxy.bytesPerSecond = Infinity
    proxy.cut()
    await settleDown(`${bytesPerSecond} bytes a second`)
  }
  for (const latencyMs of [50, 400]) {
    proxy.latencyMs = latencyMs
    told.push(...await many(2 * LANES, `${latencyMs} ms of delay`))
    proxy.latencyMs = 0
    await settleDown(`${latencyMs} ms of delay`)
  }
  const slowest = Math.max(...told.map(({ ms }) => ms))
  const full = await many(LANES, 'afterwards')
  const { wrong } = await audit(scene, [...told, ...full])
  return [
    { name: 'flights swallowed from some message on', value: swallowed, unit: '', promises: [10] },
    {
      name: 'requests through a silent, slow or late network',
      value: told.length,
      unit: '',
      promises: [10]
    },
    none(
      `of them answered later than ${
        DEADLINE_MS + spareMs
      } ms, with REQUEST_TIMEOUT_MS=${DEADLINE_MS}`,
      told.filter(({ ms }) => ms > DEADLINE_MS + spareMs).length,
      [10]
    ),
    {
      name: `slowest answer, with REQUEST_TIMEOUT_MS=${DEADLINE_MS}`,
      value: slowest,
      unit: 'ms',
      promises: [10]
    },
    none('of them answered what is not true', wrong, [2, 3]),
    none('sessions left in a transaction with locks', left.holding, [13]),
    none('sessions left in a transaction that holds nothing', left.empty, [13]),
    {
      name: 'longest time until the last session was out of its transaction, with ' +
        `IDLE_TRANSACTION_TIMEOUT_MS=${HASTY_IDLE_MS}`,
      value: longest,
      unit: 'ms',
      promises: [13]
    },
    none(
      'requests afterwards not answered 200',
      full.filter(({ status }) => status !== 200).length,
      [10]
    ),
    none('connections still busy', await readMetric(service, 'service_pool_lanes_busy'), [13])
  ]
}

/**
 * A session that is in a transaction though nobody speaks to it any more. `holds`: an id or a lock
 * that others can wait for.
 */
interface Stuck {
  readonly pid: number
  readonly state: string
  readonly query: string
  readonly holds: boolean
}

/**
 * The sessions of the service that are in a transaction after a while; they are ended then, for the
 * next fault must not meet them.
 */
async function calm ({ server: { sql } }: Scene): Promise<readonly Stuck[]> {
  const start = performance.now()
  for (;;) {
    const stuck = await sql<Stuck[]>`
      select pid, state, left(query, 40) as query, backend_xid is not null or exists (select
        from pg_locks as l where l.pid = a.pid and locktype <> 'virtualxid') as holds
      from pg_stat_activity as a where usename = 'oneflight' and xact_start is not null`
    if (stuck.length === 0) return stuck
    if (performance.now() - start > CALM_MS) {
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'oneflight'
        and xact_start is not null`
      return stuck
    }
    await delay(10)
  }
}

/**
 * Messages of a flight up to the end of its second operation, on a connection that was just opened:
 * BEGIN, then five for each statement.
 */
const UP_TO_HELD = 1 + 3 * 5

/**
 * Of a flight the server gets a part, and then nothing, not even the end of the connection: how
 * long its row is locked. Nobody else ends it, for the request has much time.
 */
async function freeRow (scene: Scene, { idleMs }: Form): Promise<Figure> {
  const { proxy, service, post, server: { sql } } = scene
  await reconnect(proxy)
  const isFree = async (): Promise<boolean> =>
    (await sql`select from held where id = ${id} for update skip locked`).length === 1
  const id = post.upcoming()
  const fault = proxy.inject({
    kind: 'blackhole',
    side: 'client',
    from: BEGIN,
    after: { messages: UP_TO_HELD }
  })
  const answer = post(service, { what: 'a part of a flight' })
  await until(() => fault.happened)
  const start = performance.now()
  await until(async () => !await isFree())
  await until(isFree)
  const ms = performance.now() - start
  proxy.cut()
  await answer
  return {
    name: 'time until the row of a part of a flight is free, with ' +
      `IDLE_TRANSACTION_TIMEOUT_MS=${idleMs}`,
    value: ms,
    unit: 'ms',
    goal: { atLeast: idleMs - 50, atMost: idleMs + 1000 },
    promises: [13]
  }
}

/** Has the next batch open its connection. */
async function reconnect (proxy: Proxy): Promise<void> {
  proxy.cut()
  await until(() => proxy.links.size === 0)
}

/** Holds answers against the database when nothing runs there any more. */
async function audit (
  scene: Scene,
  told: readonly Told[]
): Promise<{ there: number, twice: number, wrong: number }> {
  const { server: { sql }, setting } = scene
  await calm(scene)
  // What was recorded is of no use here, and much.
  scene.proxy.record()
  const read = async (table: string): Promise<ReadonlyMap<number, number>> =>
    new Map(
      (await sql.unsafe(`select id, count(*)::int as n from ${table} group by id`)).map((
        { id, n }
      ) => [id as number, n as number])
    )
  const [left, right] = [await read('left_side'), await read('right_side')]
  const held = new Map(
    (await sql`select id, n from held where n > 0`).map(({ id, n }) => [id as number, n as number])
  )
  let there = 0
  let twice = 0
  let wrong = 0
  for (const one of told) {
    const times = [left, held, right].map(side => side.get(one.id) ?? 0) as [number, number, number]
    const [n] = times
    const whole = times.every(time => time === n)
    if (n > 0) there++
    if (n > 1) twice++
    const isTrue = whole && n <= 1 &&
      (one.committed === 'unknown' || (one.committed ? n === 1 : n === 0))
    if (isTrue) continue
    wrong++
    setting.say(`told ${one.status} ${one.code}, ${times.join('/')} times there: ${one.what}`)
  }
  return { there, twice, wrong }
}

function none (name: string, value: number, promises: readonly number[]): Figure {
  return { name, value, unit: '', goal: { exactly: 0 }, promises }
}
