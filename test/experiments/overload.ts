/**
 * The overload scenario: ten times as many clients as there are database connections. Accepted
 * batches must be served at full speed, the rest rejected quickly, with bounded memory and
 * responsive health routes.
 *
 * Measures capacity and overload in turns within one run and compares them, because the speed of a
 * machine changes from minute to minute.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { onStage, type Stage } from '../../scripts/dev/stage.ts'
import { request } from '../support/network/wire.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import { encodeBatch, openConnection, quantile } from './client.ts'
import { bearer, readMetric, useServer } from './own-server.ts'
import {
  figureFor,
  mustBeZero,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

const figure = figureFor(9)

const CONNECTIONS = 10
const CLIENTS = 10 * CONNECTIONS

const schema = `
  create view work as select pg_sleep(0.02)::text as done;
  create table orders (id int generated always as identity primary key, note text);`

/** The batches that clients send, by the resource that limits them. */
const batches = {
  connections: [{ id: 'w', op: 'select', table: 'work' }],
  CPU: Array.from(
    { length: 10 },
    (_, i) => ({ id: `o${i}`, op: 'select', table: 'orders', where: { id: { eq: i } } })
  )
} as const

/** When a rejected client retries, in milliseconds. */
const retryDelays = {
  'after a pause': (random: () => number) => 5 + 15 * random(),
  immediately: () => 0
} as const

type Limit = keyof typeof batches
type Retry = keyof typeof retryDelays

interface Phase {
  readonly ms: number
  readonly accepted: readonly number[]
  readonly rejected: readonly number[]
  /** Responses other than 200 and 503. */
  readonly other: number
}

/**
 * The results of one kind of load. `probeTimes`: response times in milliseconds of the health and
 * metrics routes, by path.
 */
interface LoadResult {
  readonly normal: readonly Phase[]
  readonly overloaded: readonly Phase[]
  readonly probeTimes: Readonly<Record<string, readonly number[]>>
  /** Number of their responses other than 200. */
  readonly failedProbes: number
  readonly memoryGrowthMiB: number
}

export const overload: Scenario = {
  name: 'overload',
  run: async (stage, options) => {
    const { loginUrl } = await useServer(stage, { schema, settings: { fsync: 'off' } })
    const results: LoadResult[] = []
    const figures: Figure[] = []
    for (const limit of ['connections', 'CPU'] as const) {
      for (const retry of ['after a pause', 'immediately'] as const) {
        const result = await onStage(stage =>
          measure(stage, loginUrl, { limit, retry }, options)
        )
        results.push(result)
        figures.push(figure(
          `goodput of capacity, limited by ${limit}, clients retry ${retry}`,
          rate(result.overloaded) / rate(result.normal),
          { unit: '%', atLeast: 0.85 }
        ))
      }
    }
    return [...figures, ...summarize(results)]
  }
}

/** Sums the counts and takes the worst times of all loads. */
function summarize (results: readonly LoadResult[]): readonly Figure[] {
  const overloaded = results.flatMap(({ overloaded }) => overloaded)
  const worst = (times: (result: LoadResult) => readonly number[]): number =>
    Math.max(...results.map(result => quantile(times(result), 0.99)))
  const sum = (count: (phase: Phase) => number): number =>
    overloaded.reduce((sum, phase) => sum + count(phase), 0)
  const paths = Object.keys(results[0]?.probeTimes ?? {})
  return [
    figure('rejected batches', sum(({ rejected }) => rejected.length), { atLeast: 1 }),
    figure('accepted batches', sum(({ accepted }) => accepted.length), { atLeast: 1 }),
    mustBeZero(9)('other responses', sum(({ other }) => other)),
    figure(
      'response time of rejections, 99th percentile',
      worst(({ overloaded }) => overloaded.flatMap(({ rejected }) => rejected)),
      { unit: 'ms', atMost: 50 }
    ),
    figureFor(9, 10)(
      'response time of accepted batches, 99th percentile',
      worst(({ overloaded }) => overloaded.flatMap(({ accepted }) => accepted)),
      { unit: 'ms', atMost: 1000 }
    ),
    figure(
      'growth of memory beside the young generation',
      Math.max(...results.map(({ memoryGrowthMiB }) => memoryGrowthMiB)),
      { unit: 'MiB', atMost: 64 }
    ),
    mustBeZero(9)(
      'responses of /health, /live, /ready, /metrics other than 200',
      results.reduce((sum, { failedProbes }) => sum + failedProbes, 0)
    ),
    ...paths.map(path => figure(
      `response time of ${path}, 99th percentile`,
      worst(({ probeTimes }) => probeTimes[path] ?? []),
      { unit: 'ms', atMost: 250 }
    ))
  ]
}

async function measure (
  stage: Stage,
  loginUrl: string,
  { limit, retry }: { limit: Limit, retry: Retry },
  { long, random }: ScenarioOptions
): Promise<LoadResult> {
  const service = await useRestartableService(stage, {
    DATABASE_URL: loginUrl,
    POOL_SIZE: String(CONNECTIONS),
    // A busy machine does not read the requests fast enough to fill the queue of the long form.
    ...!long && { QUEUE_SIZE: '5' }
  })
  const request = encodeBatch(bearer(), batches[limit])
  const ms = long ? 4000 : 400
  const load = (clients: number): Promise<Phase> =>
    run(service, request, { clients, ms, pause: () => retryDelays[retry](random) })
  // V8 doubles its young generation with the load, up to 128 MiB here.
  const memory = async (): Promise<number> =>
    await readMetric(service, 'process_resident_memory_bytes') -
    await readMetric(service, 'nodejs_heap_space_size_total_bytes', 'space="new"')
  const normal: Phase[] = []
  const overloaded: Phase[] = []
  const probeTimes: Record<string, number[]> = {}
  let failedProbes = 0
  // The readiness check opens its connection on the first request.
  await service.ready()
  // A new process compiles code and allocates its working memory first.
  for (let i = 0; i < (long ? 3 : 1); i++) await load(CLIENTS)
  const before = await memory()
  let highest = before
  for (let i = 0; i < (long ? 4 : 1); i++) {
    normal.push(await withProbes(service, () => load(CONNECTIONS), {}).then(({ phase }) => phase))
    const measured = await withProbes(service, () => load(CLIENTS), probeTimes)
    overloaded.push(measured.phase)
    failedProbes += measured.failedProbes
    highest = Math.max(highest, await memory())
  }
  const memoryGrowthMiB = (highest - before) / 2 ** 20
  return { normal, overloaded, probeTimes, failedProbes, memoryGrowthMiB }
}

/** Accepted batches per second. */
function rate (phases: readonly Phase[]): number {
  return phases.reduce((sum, { accepted }) => sum + accepted.length, 0) /
    phases.reduce((sum, { ms }) => sum + ms, 0) * 1000
}

async function run (
  service: RestartableService,
  request: Buffer,
  { clients, ms, pause }: { clients: number, ms: number, pause: () => number }
): Promise<Phase> {
  const connections = await Promise.all(
    Array.from({ length: clients }, () => openConnection(service.url))
  )
  const start = performance.now()
  const [accepted, rejected]: [number[], number[]] = [[], []]
  let other = 0
  await Promise.all(connections.map(async connection => {
    while (performance.now() - start < ms) {
      const { status, ms } = await connection.send(request)
      if (status === 200) accepted.push(ms)
      else if (status === 503) {
        rejected.push(ms)
        const wait = pause()
        if (wait > 0) await delay(wait)
      } else other++
    }
    connection.close()
  }))
  return { ms: performance.now() - start, accepted, rejected, other }
}

/**
 * Runs a load and requests the health and metrics routes ten times a second meanwhile. Capacity and
 * overload are both measured with these requests, because they have a cost.
 */
async function withProbes (
  service: RestartableService,
  load: () => Promise<Phase>,
  probeTimes: Record<string, number[]>
): Promise<{ readonly phase: Phase, readonly failedProbes: number }> {
  const end = new AbortController()
  let failedProbes = 0
  const probe = async (url: string, path: string): Promise<void> => {
    const connection = await openConnection(url)
    const times = probeTimes[path] ??= []
    while (!end.signal.aborted) {
      const { status, ms } = await connection.send(Buffer.from(request('GET', path)))
      times.push(ms)
      if (status !== 200) failedProbes++
      await delay(100)
    }
    connection.close()
  }
  const probes = Promise.all([
    probe(service.url, '/health'),
    ...['/live', '/ready', '/metrics'].map(path => probe(service.adminUrl, path))
  ])
  const phase = await load()
  end.abort()
  await probes
  return { phase, failedProbes }
}
