/**
 * Everything is killed while money is moved: sessions, processes of PostgreSQL, PostgreSQL, the
 * service, and clients that go away.
 *
 * In charge of: the stage, the order of things, and what else must hold afterwards: the service is
 * well, nothing is left behind. Refuses to: kill (killers.ts), to send (crowd.ts) or to judge
 * answers (invariants.ts).
 */
import { readFile } from 'node:fs/promises'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { onStage, type Stage } from '../../src/dev/stage.ts'
import { until } from '../support/until.ts'
import { createAsker, inTime, type Asker } from './asker.ts'
import { schema } from './bank.ts'
import { startCrowd } from './crowd.ts'
import { audit, replay } from './invariants.ts'
import { killAll, type Blow, type Kills } from './killers.ts'
import { readMetric, useServer } from './own-server.ts'
import { createPoster } from './poster.ts'
import { seeded, type Figure, type Scenario, type Setting } from './scenario.ts'
import { useRestartableService, type RestartableService } from './service-process.ts'

interface Form {
  readonly batches: number
  readonly blows: Readonly<Record<Blow, number>>
  readonly terminated: number
  readonly keepOneOf: number
  /** How often the time is taken until a lock of a killed service is free. */
  readonly locks: number
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: {
    batches: 100_000,
    blows: { backend: 50, postmaster: 18, service: 18, both: 4 },
    terminated: 1000,
    keepOneOf: 50,
    locks: 5
  },
  short: {
    batches: 1500,
    blows: { backend: 2, postmaster: 1, service: 1, both: 1 },
    terminated: 20,
    keepOneOf: 10,
    locks: 1
  }
}

/** More than there are connections and less than may wait: overload is another scenario. */
const CLIENTS = 24

/** How long what a storm has left may take to end. */
const CALM_MS = 10_000

export const storm: Scenario = {
  name: 'storm',
  run: setting => onStage(stage => weather(stage, setting))
}

async function weather (stage: Stage, { long, random, say }: Setting): Promise<readonly Figure[]> {
  const form = forms[long ? 'long' : 'short']
  const server = await useServer(stage, { schema })
  await migrate(
    parseDatabaseUrl(server.url),
    await readFile(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8'),
    new URL(server.loginUrl).username
  )
  const service = await useRestartableService(stage, server.loginUrl)
  const asker = createAsker(server.url)
  stage.teardown(() => asker.close())

  const start = performance.now()
  const crowd = startCrowd({
    url: service.url,
    clients: CLIENTS,
    batches: form.batches,
    keepOneOf: form.keepOneOf,
    random: seeded(random() * 2 ** 32)
  })
  stage.teardown(() => crowd.stop())
  const tell = (): void =>
    say(
      `${crowd.finished()} batches after ${((performance.now() - start) / 1000).toFixed(0)} s: ${
        JSON.stringify(crowd.told.answers)
      }`
    )
  const progress = setInterval(tell, 20_000)
  stage.teardown(() => clearInterval(progress))
  const kills = await killAll({ server, service, crowd }, {
    blows: form.blows,
    batches: form.batches,
    random: seeded(random() * 2 ** 32)
  })
  await crowd.end()
  clearInterval(progress)
  tell()

  const poster = createPoster(service.url, 8)
  stage.teardown(() => poster.close())
  const well = await settleDown(service, asker)
  const replayed = await replay(poster, crowd.told)
  const truth = await audit(asker, crowd.told)
  const lock = await freeLock(service, asker, form.locks)
  for (const crash of service.crashes) say(`the service ended by itself: ${crash}`)
  const { told } = crowd
  return [
    {
      name: 'batches',
      value: crowd.finished(),
      unit: '',
      goal: { atLeast: form.batches },
      promises: [1]
    },
    ...describeKills(kills, form, told.gone),
    ...truth,
    ...replayed,
    {
      name: 'batches without a key',
      value: Object.values(told.unkeyed).reduce((sum, count) => sum + count, 0),
      unit: '',
      promises: [3]
    },
    {
      name: 'of them answered commit_unknown',
      value: told.unkeyed['commit_unknown'] ?? 0,
      unit: '',
      promises: [3]
    },
    {
      name: 'of them without an answer',
      value: told.unkeyed['none'] ?? 0,
      unit: '',
      promises: [3]
    },
    {
      name: 'times that the service ended by itself',
      value: service.crashes.length,
      unit: '',
      goal: { exactly: 0 },
      promises: [11]
    },
    {
      name: 'longest time to the first 200 after PostgreSQL takes connections',
      value: Math.max(...kills.pauses),
      unit: 'ms',
      goal: { atMost: 1000 },
      promises: [11]
    },
    ...well,
    lock
  ]
}

function describeKills (
  { terminated, blows }: Kills,
  { blows: planned, terminated: least }: Form,
  gone: number
): readonly Figure[] {
  const killed = (name: string, value: number, atLeast: number): Figure => ({
    name,
    value,
    unit: '',
    goal: { atLeast },
    promises: [1]
  })
  return [
    killed('sessions ended by pg_terminate_backend', terminated, least),
    killed('SIGKILL of a process of PostgreSQL', blows.backend, planned.backend),
    killed(
      'SIGKILL of all of PostgreSQL',
      blows.postmaster + blows.both,
      planned.postmaster + planned.both
    ),
    killed('SIGKILL of the service', blows.service + blows.both, planned.service + planned.both),
    killed('requests whose client went away', gone, 1)
  ]
}

/** The service is well, and nothing of the storm is left: in its pool, in sessions, in locks. */
async function settleDown (service: RestartableService, asker: Asker): Promise<readonly Figure[]> {
  const questions = {
    'connections still busy': () => readMetric(service, 'service_pool_lanes_busy'),
    'sessions idle in a transaction': () =>
      count(
        asker,
        "select count(*)::int from pg_stat_activity where usename = 'oneflight' and state " +
          "like 'idle in transaction%'"
      ),
    'advisory locks left': () =>
      count(asker, "select count(*)::int from pg_locks where locktype = 'advisory'"),
    'requests for the health that were not answered 200': async () =>
      (await fetch(`${service.url}/health`, { headers: { connection: 'close' } })).status === 200
        ? 0
        : 1
  }
  return Promise.all(
    Object.entries(questions).map(async ([name, ask]): Promise<Figure> => {
      let value = await ask()
      // What is left in the end is the figure.
      await inTime(
        until(async () => {
          value = await ask()
          return value === 0
        }),
        CALM_MS,
        ''
      ).catch(() => {})
      return { name, value, unit: '', goal: { exactly: 0 }, promises: [13] }
    })
  )
}

/**
 * SIGKILL of the service while a batch of it holds a lock: how long until another can have it, at
 * most.
 */
async function freeLock (
  service: RestartableService,
  asker: Asker,
  times: number
): Promise<Figure> {
  const isFree = async (): Promise<boolean> =>
    await count(
      asker,
      'select count(*)::int from (select from probe for update skip locked) as free'
    ) === 1
  const batch = JSON.stringify([
    {
      id: 'held',
      op: 'update',
      table: 'probe',
      set: { touched: { $inc: 1 } },
      where: { id: { eq: 1 } }
    },
    { id: 'pause', op: 'select', table: 'long_pause' }
  ])
  let longest = 0
  for (let i = 0; i < times; i++) {
    const poster = createPoster(service.url, 1)
    const answer = poster.post(batch)
    await inTime(until(async () => !await isFree()), CALM_MS, 'the batch does not take its lock')
    await service.kill()
    const killed = performance.now()
    await inTime(until(isFree), CALM_MS, 'the lock of a service that was killed stays')
    longest = Math.max(longest, performance.now() - killed)
    await answer
    poster.close()
    await service.start()
  }
  return {
    name: 'longest time until a lock of the killed service is free',
    value: longest,
    unit: 'ms',
    goal: { atMost: 1500 },
    promises: [13]
  }
}

async function count (asker: Asker, text: string): Promise<number> {
  const [row] = await asker.ask(text)
  return row?.['count'] as number
}
