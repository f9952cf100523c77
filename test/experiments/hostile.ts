/**
 * The hostile scenario: a few connections send requests that have as much of one or two parts of
 * the grammar as the limits allow. Every request must get an answer, the event loop must stay
 * responsive, memory must not grow, and a client that behaves well must be served.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Stage } from '../../scripts/dev/stage.ts'
import { createRequests, type HostileRequest } from '../support/hostile/requests.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import { SECRET } from '../support/environment.ts'
import { until } from '../support/until.ts'
import { openConnection, quantile, type Connection } from './client.ts'
import { orderRequest, schema, useBatchFolder } from './hostile-schema.ts'
import { startLiveProbe } from './live-probe.ts'
import { readMetric, readMetrics, ROLE, useServer, type OwnServer } from './own-server.ts'
import {
  figureFor,
  mustBeZero,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

const figure = figureFor(9)

interface Form {
  readonly requests: number
  /** After this many, memory is measured for the first time. */
  readonly warmUp: number
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: { requests: 100_000, warmUp: 5000 },
  short: { requests: 300, warmUp: 100 }
}

const CLIENTS = 4
/** How often the rows are restored and memory is measured, in requests. */
const PERIOD = 100
/** Longer than any response of the service takes. */
const RESPONSE_MS = 60_000
/** How long statements may run on after the last response. */
const CLEANUP_MS = 10_000
/** Memory that has not become less for this long becomes no less. */
const SETTLED_MS = 1000
/** How many slow requests are listed. */
const MAX_LISTED = 10
/** The time that Kubernetes gives a probe by default. */
const MAX_LIVE_MS = 1000
/** Less than four fifths of the memory of the container whose heap the service has. */
const MAX_MEMORY_MIB = 1000
/** Pause of the client that behaves well. */
const PAUSE_MS = 20

const settings = {
  /**
   * The heap that Node chooses in a container of 1280 MiB, the limit in deploy/kubernetes. With all
   * the memory of a large machine, it would put off its collections and grow to twice the size.
   */
  NODE_OPTIONS: '--max-old-space-size=640 --max-semi-space-size=32 ' +
    `--import=${import.meta.resolve('./collect-garbage.ts')}`,
  /** Statements are cancelled earlier than by default, because the scenario has many of them. */
  STATEMENT_TIMEOUT_MS: '2000',
  LOCK_TIMEOUT_MS: '1000'
}

/**
 * Errors that a request itself does not cause: the time of PostgreSQL for a statement is limited,
 * and several clients change the same rows.
 */
const ALLOWED = new Set(['query_canceled', 'lock_not_available', 'deadlock_detected'])

interface Seen {
  readonly statuses: Map<number, number>
  /** What is not allowed, and how often, by code and request. */
  readonly problems: Map<string, number>
  finished: number
  /** Requests without a response. */
  lost: number
  /** The largest response of an error. */
  largest: { readonly name: string, readonly bytes: number }
  /** The requests with the longest response times, for the log. */
  slowest: ReadonlyArray<{ readonly name: string, readonly ms: number }>
  /** The longest response time of /live. */
  longest: number
}

export const hostile: Scenario = {
  name: 'hostile',
  run: runHostile
}

async function runHostile (
  stage: Stage,
  { long, random, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const { requests, warmUp } = forms[long ? 'long' : 'short']
  const server = await useServer(stage, { schema, settings: { fsync: 'off' } })
  const service = await useRestartableService(stage, {
    DATABASE_URL: server.loginUrl,
    ...settings,
    BATCHES_DIR: await useBatchFolder(stage)
  })
  await service.ready()
  const probe = startLiveProbe(service.adminUrl)
  stage.teardown(() => probe.stop())
  const seen: Seen = {
    statuses: new Map(),
    problems: new Map(),
    finished: 0,
    lost: 0,
    largest: { name: '', bytes: 0 },
    slowest: [],
    longest: 0
  }
  let neighbour = startNeighbour(service)
  const next = createRequests({ random, secret: SECRET, role: ROLE })
  const memory: number[] = []
  const times: number[] = []
  const kept: number[] = []
  const measureKept = async (): Promise<void> => {
    times.push(...await neighbour.stop())
    kept.push(await keptMemory(service))
    log(`${toMiB(kept.at(-1)).toFixed(0)} MiB are kept`)
  }
  const start = performance.now()
  for (let sent = 0; sent < requests; sent += PERIOD) {
    const count = Math.min(PERIOD, requests - sent)
    await sendAll(service, Array.from({ length: count }, () => next), seen)
    seen.longest = Math.max(seen.longest, await probe.longest())
    await restore(server)
    memory.push(await readMetric(service, 'process_resident_memory_bytes'))
    const seconds = (performance.now() - start) / 1000
    log(`${seen.finished} requests after ${seconds.toFixed(0)} s, ${describe(seen, memory)}`)
    if (seen.finished !== warmUp) continue
    await measureKept()
    neighbour = startNeighbour(service)
  }
  await measureKept()
  for (const { name, ms } of seen.slowest) log(`${ms.toFixed(0)} ms: ${name}`)
  log(`largest error: ${seen.largest.name}`)
  for (const [error, count] of seen.problems) log(`${count} × ${error}`)
  return [
    ...summarize(seen),
    ...summarizeMemory({ memory, kept, warmUp }),
    ...await summarizeEnd(service, times)
  ]
}

/** The requests are written while others run, so that they are never all in memory. */
async function sendAll (
  service: RestartableService,
  requests: ReadonlyArray<() => HostileRequest>,
  seen: Seen
): Promise<void> {
  const rest = [...requests]
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    let connection: Connection | undefined
    for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
      const request = next()
      connection ??= await openConnection(service.url)
      const isOpen = await send(connection, request, seen)
      if (!isOpen) connection = undefined
    }
    connection?.close()
  }))
}

/** Sends a request. Returns whether the connection is still open. */
async function send (
  connection: Connection,
  { name, bytes }: HostileRequest,
  seen: Seen
): Promise<boolean> {
  const timer = setTimeout(() => connection.close(), RESPONSE_MS)
  const response = await connection.send(bytes).catch(() => undefined)
  clearTimeout(timer)
  seen.finished++
  if (response === undefined) {
    seen.lost++
    seen.problems.set(`no response: ${name}`, 1)
    return false
  }
  const { status, text, closes, ms } = response
  seen.slowest = [...seen.slowest, { name: `${status} ${name}`, ms }]
    .toSorted((a, b) => b.ms - a.ms).slice(0, MAX_LISTED)
  seen.statuses.set(status, (seen.statuses.get(status) ?? 0) + 1)
  const size = status === 200 ? 0 : Buffer.byteLength(text)
  if (size > seen.largest.bytes) seen.largest = { name: `${status} ${name}`, bytes: size }
  const code = /"code":"(\w+)"/.exec(text)?.[1] ?? ''
  const isProblem = status >= 500 || (status >= 400 && /"retryable":true/.test(text))
  if (isProblem && !ALLOWED.has(code)) {
    const problem = `${status} ${code}: ${name}`
    seen.problems.set(problem, (seen.problems.get(problem) ?? 0) + 1)
  }
  if (closes) connection.close()
  return !closes
}

async function restore ({ sql }: OwnServer): Promise<void> {
  await sql`select refill()`
}

interface Neighbour {
  /** Resolves with its response times; -1 for a response other than 200. */
  stop(): Promise<readonly number[]>
}

/** Starts a client that behaves well: it sends an order, waits for the response, and pauses. */
function startNeighbour (service: RestartableService): Neighbour {
  const end = new AbortController()
  const times: number[] = []
  const run = async (): Promise<void> => {
    const connection = await openConnection(service.url)
    while (!end.signal.aborted) {
      // A token is valid for an hour, which is less than the scenario takes.
      const { status, ms } = await connection.send(orderRequest())
      times.push(status === 200 ? ms : -1)
      await delay(PAUSE_MS)
    }
    connection.close()
  }
  const running = run()
  running.catch(() => {})
  return {
    async stop () {
      end.abort()
      await running
      return times
    }
  }
}

function describe (
  { statuses, problems, lost, longest }: Seen,
  memory: readonly number[]
): string {
  const all = Array.from(statuses).toSorted(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`).join(', ')
  const [problem = 'no problem'] = Array.from(problems.keys()).slice(-1)
  return `${all}, lost: ${lost}; ${problem}; /live ${longest.toFixed(0)} ms, ` +
    `${toMiB(memory.at(-1)).toFixed(0)} MiB`
}

function summarize ({ statuses, problems, finished, lost, largest, longest }: Seen): Figure[] {
  const count = (least: number, most: number): number =>
    Array.from(statuses).filter(([status]) => status >= least && status <= most)
      .reduce((sum, [, count]) => sum + count, 0)
  return [
    figure('hostile requests', finished),
    figure('responses with status 2xx', count(200, 299)),
    figure('responses with status 4xx', count(400, 499)),
    figure('statements cancelled after their time', count(504, 504)),
    mustBeZero(9)(
      'server errors, retryable errors and lost connections',
      Array.from(problems.values()).reduce((sum, count) => sum + count, 0)
    ),
    mustBeZero(9)('requests without a response', lost),
    figure('largest response of an error', largest.bytes / 2 ** 20, { unit: 'MiB', atMost: 1.1 }),
    figure('longest response time of /live', longest, { unit: 'ms', atMost: MAX_LIVE_MS })
  ]
}

interface Memory {
  /** Resident bytes after each period. They contain garbage that is still to be collected. */
  readonly memory: readonly number[]
  /** The bytes of objects and buffers without garbage: after the first requests and at the end. */
  readonly kept: readonly number[]
  readonly warmUp: number
}

function summarizeMemory ({ memory, kept, warmUp }: Memory): readonly Figure[] {
  const [first = 0] = kept
  const last = kept.at(-1) ?? 0
  return [
    figure(
      `objects and buffers after the first ${warmUp} requests, without garbage`,
      toMiB(first),
      { unit: 'MiB' }
    ),
    figure('objects and buffers at the end, without garbage', toMiB(last), { unit: 'MiB' }),
    figure(
      'the same, of that after the first requests',
      last / first,
      { unit: '%', atMost: 1.2 }
    ),
    figure(
      'largest resident memory under load',
      toMiB(Math.max(...memory)),
      { unit: 'MiB', atMost: MAX_MEMORY_MIB }
    )
  ]
}

/**
 * The bytes of all objects and buffers when nothing runs and garbage is collected, which V8 would
 * put off. Resident memory would also contain what the allocator keeps for later: 190 to 270 MiB
 * for 60 to 85 MiB of objects and buffers, from one measurement to the next.
 */
async function keptMemory (service: RestartableService): Promise<number> {
  process.kill(service.pid(), 'SIGWINCH')
  let least = Infinity
  let since = performance.now()
  return until(async () => {
    const metric = await readMetrics(service)
    const bytes = metric('nodejs_heap_size_used_bytes') + metric('nodejs_external_memory_bytes')
    if (bytes < 0.98 * least) {
      least = bytes
      since = performance.now()
    }
    return performance.now() - since > SETTLED_MS ? least : undefined
  })
}

function toMiB (bytes = 0): number {
  return bytes / 2 ** 20
}

/** Checks that nothing is left behind, and that the service serves the next batch. */
async function summarizeEnd (
  service: RestartableService,
  times: readonly number[]
): Promise<readonly Figure[]> {
  const connection = await openConnection(service.url)
  const { status } = await connection.send(orderRequest())
  connection.close()
  const deadline = performance.now() + CLEANUP_MS
  const busy = await until(async () => {
    const count = await readMetric(service, 'service_pool_connections_busy')
    return count === 0 || performance.now() > deadline ? { count } : undefined
  })
  const served = times.filter(ms => ms >= 0)
  return [
    mustBeZero(9)('database connections that are busy afterwards', busy.count),
    mustBeZero(9)(
      'orders of another client that were refused, also afterwards',
      times.length - served.length + (status === 200 ? 0 : 1)
    ),
    figure('orders of another client', served.length),
    figure('response time of these orders, median', quantile(served, 0.5), { unit: 'ms' }),
    figure(
      'response time of these orders, 99th percentile',
      quantile(served, 0.99),
      { unit: 'ms' }
    )
  ]
}
