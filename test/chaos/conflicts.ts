/**
 * Deadlocks and serialization failures, as many as can be had: nearly every batch gets through,
 * what was acknowledged is there once, and each retry is one that the database asked for.
 *
 * In charge of: the storms, and of counting with the database's own numbers: its log, which has the
 * SQLSTATE of each error, and its statistics. Refuses to: avoid conflicts; all clients write the
 * same few rows.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onStage } from '../../src/dev/stage.ts'
import { until } from '../support/until.ts'
import { encodeBatch, openConnection } from './client.ts'
import {
  bearer,
  readMetric,
  ROLE,
  useServer,
  useServiceProcess,
  type OwnServer,
  type ServiceProcess
} from './own-server.ts'
import type { Figure, Scenario, Setting } from './scenario.ts'

const CLIENTS = 20
const ROWS = 8

const schema = `
  alter database shop set deadlock_timeout = '10ms';
  create table counters (id int primary key, n int not null);
  insert into counters select i, 0 from generate_series(1, ${ROWS}) as i;
  create table duty (team int, person int, present boolean not null, primary key (team, person));
  insert into duty select t, p, true from generate_series(1, 4) as t, generate_series(1, 2) as p;
  create view pause as select pg_sleep(0.002)::text as slept;
  grant all on all tables in schema public to ${ROLE};`

interface Storm {
  readonly name: string
  readonly prefer: string
  /** Numbers from 0 to 1 in, a batch out. */
  readonly batch: (random: () => number) => readonly object[]
  /** How much the sum of the counters grows by each batch that is answered 200. */
  readonly adds: number
}

const increment = (id: number): object => ({
  id: `c${id}`,
  op: 'update',
  table: 'counters',
  set: { n: { $inc: 1 } },
  where: { id: { eq: id } },
  returning: []
})
const pause = { id: 'p', op: 'select', table: 'pause' }
const pick = (random: () => number, most: number): number => 1 + Math.floor(random() * most)

const storms: readonly Storm[] = [
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
    // Somebody may leave when two are there; who is back may always be.
    batch: random => {
      const [team, person, leaves] = [pick(random, 4), pick(random, 2), random() < 0.5]
      const set = {
        id: 'u',
        op: 'update',
        table: 'duty',
        set: { present: !leaves },
        where: { team: { eq: team }, person: { eq: person } },
        returning: []
      }
      return leaves
        ? [
            {
              id: 's',
              op: 'select',
              table: 'duty',
              where: { team: { eq: team }, present: { eq: true } },
              expect: { min: 2 }
            },
            pause,
            set
          ]
        : [set]
    }
  }
]

export const conflicts: Scenario = {
  name: 'conflicts',
  run: setting =>
    onStage(async stage => {
      const server = await useServer(stage, {
        schema,
        settings: { fsync: 'off', log_line_prefix: '%e ', log_min_error_statement: 'panic' }
      })
      // A queue for all: nobody is refused for want of a place, and no retry for want of a
      // connection.
      const service = await useServiceProcess(stage, server.loginUrl, {
        POOL_SIZE: '10',
        QUEUE_TIMEOUT_MS: '30000'
      })
      const answers: Answers[] = []
      for (const storm of storms) {
        answers.push(await raise(storm, service, setting))
        setting.say(`${storm.name}: ${JSON.stringify(answers.at(-1))}`)
      }
      return await account(server, service, answers, setting)
    })
}

/**
 * Answers by what they say: `ok`, `refused` (412: the batch was run and said no), `conflict`,
 * `other`.
 */
interface Answers {
  ok: number
  refused: number
  conflict: number
  other: number
}

/** Clients that post as fast as they are answered. */
async function raise (
  { prefer, batch }: Storm,
  service: ServiceProcess,
  { long, random }: Setting
): Promise<Answers> {
  const answers: Answers = { ok: 0, refused: 0, conflict: 0, other: 0 }
  const authorization = bearer()
  let left = long ? 10_000 : 400
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    const connection = await openConnection(service.url)
    while (left-- > 0) {
      const { status, text } = await connection.ask(
        encodeBatch(authorization, batch(random), { prefer })
      )
      answers[
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
  return answers
}

/** Holds what the service says against what the database says. */
async function account (
  server: OwnServer,
  service: ServiceProcess,
  answers: readonly Answers[],
  { say }: Setting
): Promise<readonly Figure[]> {
  const retried = async (reason: string): Promise<number> =>
    readMetric(service, 'service_txn_retry_count', reason)
  const retries = {
    serialization: await retried('serialization_failure'),
    deadlock: await retried('deadlock_detected'),
    all: await retried('')
  }
  const counted = await readMetric(service, 'service_txn_count', 'outcome="ok"')
  // Backends tell what they counted when they end.
  process.kill(service.pid, 'SIGTERM')
  await until(async () =>
    (await server.sql`select from pg_stat_activity where usename = 'oneflight'`).length === 0
  )
  const log = await readFile(join(server.server().socketDir, 'server.log'), 'utf8')
  const raised = (code: string): number =>
    log.split('\n').filter(line => line.startsWith(`${code} ERROR:`)).length
  const [serializations, deadlocks] = [raised('40001'), raised('40P01')]
  await until(async () => await deadlocksOf(server) >= deadlocks)
  const [state] = await server
    .sql`select (select sum(n)::int from counters) as sum, (select count(*)::int from (select
      from duty group by team having not bool_or(present)) as x) as empty`
  say(
    `${serializations} serialization failures, ${deadlocks} deadlocks; retries ${
      JSON.stringify(retries)
    }`
  )
  const total = (name: keyof Answers): number => answers.reduce((sum, one) => sum + one[name], 0)
  const through = answers.map(({ ok, refused, conflict, other }) =>
    (ok + refused) / (ok + refused + conflict + other)
  )
  const added = answers.reduce((sum, { ok }, i) => sum + ok * (storms[i]?.adds ?? 0), 0)
  const zero = (name: string, value: number, promises: readonly number[] = [15]): Figure => ({
    name,
    value,
    unit: '',
    goal: { exactly: 0 },
    promises
  })
  return [
    {
      name: 'batches',
      value: total('ok') + total('refused') + total('conflict') + total('other'),
      unit: '',
      promises: [15]
    },
    {
      name: 'serialization failures that the database raised',
      value: serializations,
      unit: '',
      goal: { atLeast: 1 },
      promises: [15]
    },
    {
      name: 'deadlocks that the database raised',
      value: deadlocks,
      unit: '',
      goal: { atLeast: 1 },
      promises: [15]
    },
    {
      name: 'batches that got through, the worst storm',
      value: Math.min(...through),
      unit: '%',
      goal: { atLeast: 0.995 },
      promises: [15]
    },
    zero(
      'answers other than success, a refusal by `expect`, or a conflict that is retryable',
      total('other')
    ),
    zero(
      'conflicts that were neither tried again nor told',
      serializations + deadlocks - retries.all - total('conflict')
    ),
    zero(
      'retries counted under a wrong reason',
      Math.max(0, retries.serialization - serializations) +
        Math.max(0, retries.deadlock - deadlocks) + retries.all - retries.serialization -
        retries.deadlock
    ),
    zero(
      'deadlocks in the log less those in the statistics',
      deadlocks - await deadlocksOf(server)
    ),
    zero('transactions counted as ok less answers 200', counted - total('ok')),
    zero('sum of the counters less what was acknowledged', Number(state?.['sum']) - added, [
      1,
      2,
      15
    ]),
    zero('teams with nobody there', Number(state?.['empty']), [15])
  ]
}

async function deadlocksOf ({ sql }: OwnServer): Promise<number> {
  const [row] = await sql`select deadlocks::int from pg_stat_database where datname = 'shop'`
  return row?.['deadlocks'] as number
}
