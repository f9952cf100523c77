/**
 * The conflicts scenario: clients write the same few rows and cause as many deadlocks and
 * serialization failures as possible. Compares the retries of the service with the responses, and
 * the rows with what was acknowledged.
 */
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import * as op from '../support/operations.ts'
import { encodeBatch, openConnection } from './client.ts'
import { bearer, readMetric, useServer, type OwnServer } from './own-server.ts'
import {
  figureFor,
  mustBeZero,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

const figure = figureFor(15)

const CLIENTS = 20
const ROWS = 8

const schema = `
  alter database shop set deadlock_timeout = '10ms';
  create table counters (id int primary key, n int not null);
  insert into counters select i, 0 from generate_series(1, ${ROWS}) as i;
  create table duty (team int, person int, present boolean not null, primary key (team, person));
  insert into duty select t, p, true from generate_series(1, 4) as t, generate_series(1, 2) as p;
  create view pause as select pg_sleep(0.002)::text as slept;`

interface Load {
  readonly name: string
  readonly prefer: string
  /** Creates a batch from random numbers between 0 and 1. */
  readonly batch: (random: () => number) => readonly object[]
  /** By how much a batch with status 200 increases the sum of the counters. */
  readonly adds: number
}

const increment = (id: number): object => op.update(`c${id}`, 'counters', {
  set: { n: { $inc: 1 } }, where: { id: { eq: id } }, returning: []
})
const pause = { id: 'p', op: 'select', table: 'pause' }
const pick = (random: () => number, most: number): number => 1 + Math.floor(random() * most)

const loads: readonly Load[] = [
  {
    name: 'deadlocks',
    prefer: 'isolation=read-committed',
    adds: 2,
    batch: random => {
      const [one, step] = [pick(random, ROWS), pick(random, ROWS - 1)]
      return [increment(one), pause, increment((one - 1 + step) % ROWS + 1)]
    }
  },
  {
    name: 'hot counters',
    prefer: 'isolation=serializable',
    adds: 1,
    batch: random => [increment(pick(random, 2)), pause]
  },
  {
    name: 'write skew',
    prefer: 'isolation=serializable',
    adds: 0,
    // A person may leave only if two are present, and may always return.
    batch: random => {
      const [team, person, leaves] = [pick(random, 4), pick(random, 2), random() < 0.5]
      const set = op.update('u', 'duty', {
        set: { present: !leaves },
        where: { team: { eq: team }, person: { eq: person } },
        returning: []
      })
      return leaves
        ? [
            op.select('s', 'duty', {
              where: { team: { eq: team }, present: { eq: true } }, expect: { min: 2 }
            }),
            pause,
            set
          ]
        : [set]
    }
  }
]

export const conflicts: Scenario = {
  name: 'conflicts',
  run: async (stage, options) => {
    const server = await useServer(stage, { schema, settings: { fsync: 'off' } })
    // The queue is long enough for all clients, so no batch is rejected for lack of a connection
    // and no retry fails for lack of one.
    const service = await useRestartableService(stage, {
      DATABASE_URL: server.loginUrl,
      POOL_SIZE: '10',
      QUEUE_TIMEOUT_MS: '30000'
    })
    const counts: ResponseCounts[] = []
    for (const load of loads) {
      counts.push(await runLoad(load, service, options))
      options.log(`${load.name}: ${JSON.stringify(counts.at(-1))}`)
    }
    return await summarize(server, service, counts)
  }
}

/** Numbers of responses. `refused`: status 412, `expect` failed. */
interface ResponseCounts {
  ok: number
  refused: number
  conflict: number
  other: number
}

/** Runs clients that post the next batch as soon as they get a response. */
async function runLoad (
  { prefer, batch }: Load,
  service: RestartableService,
  { long, random }: ScenarioOptions
): Promise<ResponseCounts> {
  const responses: ResponseCounts = { ok: 0, refused: 0, conflict: 0, other: 0 }
  const authorization = bearer()
  let left = long ? 10_000 : 400
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    const connection = await openConnection(service.url)
    while (left-- > 0) {
      const { status, text } = await connection.send(
        encodeBatch(authorization, batch(random), { prefer })
      )
      responses[
        status === 200
          ? 'ok'
          : status === 412
            ? 'refused'
            : /"code":"(serialization_failure|deadlock_detected)"/.test(text)
              ? 'conflict'
              : 'other'
      ]++
    }
    connection.close()
  }))
  return responses
}

/** Compares the responses with the metrics of the service and with the rows. */
async function summarize (
  server: OwnServer,
  service: RestartableService,
  counts: readonly ResponseCounts[]
): Promise<readonly Figure[]> {
  const retried = async (reason: string): Promise<number> =>
    readMetric(service, 'service_txn_retry_count', reason)
  const serializations = await retried('serialization_failure')
  const deadlocks = await retried('deadlock_detected')
  const counted = await readMetric(service, 'service_txn_count', 'outcome="ok"')
  const [state] = await server
    .sql`select (select sum(n)::int from counters) as sum, (select count(*)::int from (select
      from duty group by team having not bool_or(present)) as x) as empty`
  const total = (name: keyof ResponseCounts): number =>
    counts.reduce((sum, count) => sum + count[name], 0)
  const completed = counts.map(({ ok, refused, conflict, other }) =>
    (ok + refused) / (ok + refused + conflict + other)
  )
  const added = counts.reduce((sum, { ok }, i) => sum + ok * (loads[i]?.adds ?? 0), 0)
  return [
    figure('retries after a serialization failure', serializations, { atLeast: 1 }),
    figure('retries after a deadlock', deadlocks, { atLeast: 1 }),
    figure(
      'batches completed despite conflicts, worst load',
      Math.min(...completed),
      { unit: '%', atLeast: 0.995 }
    ),
    mustBeZero(15)(
      'responses other than success, a failed `expect` or a retryable conflict',
      total('other')
    ),
    mustBeZero(15)(
      'retries for other reasons',
      await retried('') - serializations - deadlocks
    ),
    mustBeZero(15)(
      'transactions counted as ok minus responses with status 200',
      counted - total('ok')
    ),
    mustBeZero(1, 2, 15)(
      'sum of the counters minus acknowledged increments',
      Number(state?.['sum']) - added
    ),
    mustBeZero(15)('teams with nobody on duty', Number(state?.['empty']))
  ]
}
