/**
 * The storm scenario: kills database sessions, PostgreSQL backends, the postmaster, the service and
 * client connections, and restarts PostgreSQL, while clients transfer money. Afterwards the audit
 * checks the responses, and the service must be healthy without leftover connections, sessions or
 * locks.
 */
import type { Stage } from '../../scripts/dev/stage.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import * as op from '../support/operations.ts'
import { until } from '../support/until.ts'
import { schema } from './bank.ts'
import { startCrowd } from './crowd.ts'
import { audit, replay } from './invariants.ts'
import { killAll, type KillKind, type Kills } from './killers.ts'
import { readMetric, useServer } from './own-server.ts'
import { createPoster } from './poster.ts'
import { createQueryClient, withTimeout, type QueryClient } from './query-client.ts'
import {
  figureFor,
  mustBeZero,
  seeded,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

interface Form {
  readonly batches: number
  readonly kills: Readonly<Record<KillKind, number>>
  readonly terminated: number
  readonly keepOneOf: number
  /** How often the release of a lock of a killed service is measured. */
  readonly locks: number
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: {
    batches: 100_000,
    kills: { backend: 50, postmaster: 18, shutdown: 10, service: 18, both: 4 },
    terminated: 1000,
    keepOneOf: 50,
    locks: 5
  },
  short: {
    batches: 1500,
    kills: { backend: 2, postmaster: 1, shutdown: 1, service: 1, both: 1 },
    terminated: 20,
    keepOneOf: 10,
    locks: 1
  }
}

/** More than the database connections of the service, but fewer than its queue rejects. */
const CLIENTS = 24

/** How long leftovers of the kills may last. */
const CLEANUP_MS = 10_000

export const storm: Scenario = {
  name: 'storm',
  run: runStorm
}

async function runStorm (
  stage: Stage,
  { long, random, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const form = forms[long ? 'long' : 'short']
  const server = await useServer(stage, { schema })
  const service = await useRestartableService(stage, {
    DATABASE_URL: server.loginUrl,
    LOG_LEVEL: 'fatal'
  })
  const client = createQueryClient(server.url)
  stage.teardown(() => client.close())

  const crowd = startCrowd({
    url: service.url,
    clients: CLIENTS,
    batches: form.batches,
    keepOneOf: form.keepOneOf,
    random: seeded(random() * 2 ** 32)
  })
  stage.teardown(() => crowd.stop())
  const kills = await killAll({ server, service, crowd }, {
    kills: form.kills,
    batches: form.batches,
    random: seeded(random() * 2 ** 32)
  })
  await crowd.end()
  log(`${crowd.finished()} batches: ${JSON.stringify(crowd.observed.responses)}`)

  const poster = createPoster(service.url, 8)
  stage.teardown(() => poster.close())
  const leftovers = await countLeftovers(service, client)
  const replayed = await replay(poster, crowd.observed)
  const audited = await audit(client, crowd.observed)
  const lock = await measureLockRelease(service, client, form.locks)
  for (const output of service.crashes) log(`the service exited unexpectedly: ${output}`)
  const { observed } = crowd
  return [
    figureFor(1)('batches', crowd.finished(), { atLeast: form.batches }),
    ...describeKills(kills, form, observed.disconnected),
    ...audited,
    ...replayed,
    mustBeZero(11)('unexpected exits of the service', service.crashes.length),
    figureFor(11)(
      'longest time from PostgreSQL accepting connections to the next 200',
      Math.max(...kills.pauses),
      { unit: 'ms', atMost: 1000 }
    ),
    ...leftovers,
    lock
  ]
}

function describeKills (
  { terminated, counts }: Kills,
  { kills: planned, terminated: minimum }: Form,
  disconnected: number
): readonly Figure[] {
  const killed = (name: string, value: number, atLeast: number): Figure =>
    figureFor(1)(name, value, { atLeast })
  return [
    killed('sessions terminated by pg_terminate_backend', terminated, minimum),
    killed('SIGKILL of one PostgreSQL backend', counts.backend, planned.backend),
    killed(
      'SIGKILL of the postmaster',
      counts.postmaster + counts.both,
      planned.postmaster + planned.both
    ),
    killed('fast shutdowns of PostgreSQL', counts.shutdown, planned.shutdown),
    killed('SIGKILL of the service', counts.service + counts.both, planned.service + planned.both),
    killed('requests whose client disconnected', disconnected, 1)
  ]
}

/**
 * Checks the health of the service and counts leftovers in its pool, the sessions and the locks.
 * Waits until each count is 0, at most CLEANUP_MS.
 */
async function countLeftovers (
  service: RestartableService,
  client: QueryClient
): Promise<readonly Figure[]> {
  const counters = {
    'connections still busy': () => readMetric(service, 'service_pool_connections_busy'),
    'sessions idle in a transaction': () =>
      count(
        client,
        "select count(*)::int from pg_stat_activity where usename = 'oneflight' and state " +
          "like 'idle in transaction%'"
      ),
    'advisory locks still held': () =>
      count(client, "select count(*)::int from pg_locks where locktype = 'advisory'"),
    'health checks not answered 200': async () =>
      (await fetch(`${service.url}/health`, { headers: { connection: 'close' } })).status === 200
        ? 0
        : 1
  }
  return Promise.all(
    Object.entries(counters).map(async ([name, read]) => {
      let value = await read()
      // After the timeout the last value is the figure.
      await withTimeout(
        until(async () => {
          value = await read()
          return value === 0
        }),
        CLEANUP_MS,
        ''
      ).catch(() => {})
      return mustBeZero(13)(name, value)
    })
  )
}

/**
 * Kills the service while one of its batches holds a lock. Returns the longest time until the lock
 * was free.
 */
async function measureLockRelease (
  service: RestartableService,
  client: QueryClient,
  times: number
): Promise<Figure> {
  const isFree = async (): Promise<boolean> =>
    await count(
      client,
      'select count(*)::int from (select from probe for update skip locked) as free'
    ) === 1
  const batch = JSON.stringify([
    op.update('held', 'probe', { set: { touched: { $inc: 1 } }, where: { id: { eq: 1 } } }),
    { id: 'pause', op: 'select', table: 'long_pause' }
  ])
  let longest = 0
  for (let i = 0; i < times; i++) {
    const poster = createPoster(service.url, 1)
    const response = poster.post(batch)
    const isLocked = until(async () => !await isFree())
    await withTimeout(isLocked, CLEANUP_MS, 'the batch did not take its lock')
    await service.end('SIGKILL')
    const killed = performance.now()
    await withTimeout(until(isFree), CLEANUP_MS, 'the lock of the killed service was not released')
    longest = Math.max(longest, performance.now() - killed)
    await response
    poster.close()
    await service.start()
  }
  return figureFor(13)(
    'longest time until a lock of a killed service is released',
    longest,
    { unit: 'ms', atMost: 1500 }
  )
}

async function count (client: QueryClient, text: string): Promise<number> {
  const [row] = await client.query(text)
  return row?.['count'] as number
}
