/**
 * The server is restarted under light load: how long it takes from the moment that it accepts
 * connections until a batch is served.
 *
 * In charge of: restarts in order and by SIGKILL of the postmaster, and of holding every answer
 * against the table afterwards. Refuses to: count the time that the server itself takes to start.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import { onStage } from '../../src/dev/stage.ts'
import { isAlive } from '../support/process/alive.ts'
import { until } from '../support/until.ts'
import { encodeBatch, openConnection, quantile } from './client.ts'
import {
  bearer,
  ROLE,
  useServer,
  useServiceProcess,
  type OwnServer,
  type ServiceProcess
} from './own-server.ts'
import type { Figure, Scenario } from './scenario.ts'

const CLIENTS = 4

const schema = `
  create table kept (id int);
  grant all on all tables in schema public to ${ROLE};`

type How = 'stop' | 'kill'

export const restart: Scenario = {
  name: 'restart',
  run: ({ long, random, say }) =>
    onStage(async stage => {
      const server = await useServer(stage, { schema })
      const service = await useServiceProcess(stage, server.loginUrl)
      const load = startLoad(service)
      const times: Record<How, number[]> = { stop: [], kill: [] }
      for (
        const how of Array.from({ length: long ? 10 : 1 }, (): How[] => ['stop', 'kill']).flat()
      ) {
        await load.served(performance.now())
        // Connections may be at any point of a batch.
        await delay(random() * 100)
        await end(server, how)
        const [up] = await Promise.all([accepts(server), server.start()])
        const back = await load.served(up)
        times[how].push(back - up)
        say(`${how}: ${(back - up).toFixed(0)} ms`)
      }
      const answers = await load.stop()
      const kept = (await server.sql`select id, count(*)::int as times from kept group by id`).map((
        { id, times }
      ) => [id as number, times as number] as const)
      const there = new Map(kept)
      const wrong = [...answers].filter(([id, { status, text }]) =>
        status === 200
          ? there.get(id) !== 1
          : !text.includes('"committed":"unknown"') && there.has(id)
      )
      return [
        ...(['stop', 'kill'] as const).flatMap((how): readonly Figure[] => [
          {
            name: `restarts (${how})`,
            value: times[how].length,
            unit: '',
            goal: { atLeast: long ? 10 : 1 },
            promises: [11]
          },
          {
            name: `from the server's first answer to the first 200, median (${how})`,
            value: quantile(times[how], 0.5),
            unit: 'ms',
            promises: [11]
          },
          {
            name: `from the server's first answer to the first 200, longest (${how})`,
            value: Math.max(...times[how]),
            unit: 'ms',
            goal: { atMost: 1000 },
            promises: [11]
          }
        ]),
        { name: 'batches', value: answers.size, unit: '', promises: [11] },
        {
          name: 'answers that were not true',
          value: wrong.length,
          unit: '',
          goal: { exactly: 0 },
          promises: [2, 3]
        },
        {
          name: 'batches that were applied twice',
          value: kept.filter(([, times]) => times > 1).length,
          unit: '',
          goal: { exactly: 0 },
          promises: [1]
        }
      ]
    })
}

interface Answer {
  readonly status: number
  readonly text: string
}

interface Load {
  /**
   * Waits for a 200 to a batch that was sent at `since` or later, or was answered then; the time of
   * it (performance.now).
   */
  served(since: number): Promise<number>
  stop(): Promise<ReadonlyMap<number, Answer>>
}

/** A few clients, each with a short pause between its batches, as a quiet service has them. */
function startLoad (service: ServiceProcess): Load {
  const answers = new Map<number, Answer>()
  const over = new AbortController()
  const authorization = bearer()
  let next = 0
  let last = 0
  const done = Promise.all(Array.from({ length: CLIENTS }, async () => {
    const connection = await openConnection(service.url)
    while (!over.signal.aborted) {
      const id = next++
      const { status, text } = await connection.ask(
        encodeBatch(authorization, [{ id: 'k', op: 'insert', table: 'kept', values: [{ id }] }])
      )
      answers.set(id, { status, text })
      if (status === 200) last = performance.now()
      await delay(10)
    }
    connection.close()
  }))
  return {
    async served (since) {
      await until(() => last >= since)
      return last
    },
    async stop () {
      over.abort()
      await done
      return answers
    }
  }
}

/** Ends the server; resolves when none of its processes is left. */
async function end ({ server, sql }: OwnServer, how: How): Promise<void> {
  const running = server()
  if (how === 'kill') {
    const pids = (await sql`select pid from pg_stat_activity`).map(({ pid }) => pid as number)
    process.kill(running.pid, 'SIGKILL')
    await until(() => !pids.some(isAlive))
  }
  await running.stop()
}

/** When the server answered its first client; a time of performance.now(). */
async function accepts ({ url }: OwnServer): Promise<number> {
  for (;;) {
    const sql = postgres(url, { max: 1, connect_timeout: 1, fetch_types: false })
    const answered = await sql`select`.then(() => performance.now(), () => undefined)
    await sql.end({ timeout: 0 })
    if (answered !== undefined) return answered
    await delay(2)
  }
}
