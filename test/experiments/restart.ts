/**
 * The restart scenario: restarts PostgreSQL under light load, by a fast shutdown or by SIGKILL of
 * the postmaster. Measures the time from the server accepting connections to the next 200; the
 * start of the server itself does not count. Afterwards compares every response with the table.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import { onStage } from '../../scripts/dev/stage.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import { until } from '../support/until.ts'
import { encodeBatch, openConnection, quantile } from './client.ts'
import { bearer, ROLE, useServer, type OwnServer } from './own-server.ts'
import { figureFor, mustBeZero, type Figure, type Scenario } from './scenario.ts'

const CLIENTS = 4

const schema = `
  create table kept (id int);
  grant all on all tables in schema public to ${ROLE};`

type StopMode = 'stop' | 'kill'

export const restart: Scenario = {
  name: 'restart',
  run: ({ long, random, log }) =>
    onStage(async stage => {
      const server = await useServer(stage, { schema })
      const service = await useRestartableService(stage, { DATABASE_URL: server.loginUrl })
      const load = startLoad(service)
      const times: Record<StopMode, number[]> = { stop: [], kill: [] }
      const rounds = Array.from({ length: long ? 10 : 1 }, (): StopMode[] => ['stop', 'kill'])
      for (const mode of rounds.flat()) {
        await load.served(performance.now())
        // A random delay, so that connections are at any point of a batch.
        await delay(random() * 100)
        await server[mode]()
        const [up] = await Promise.all([waitUntilAccepting(server), server.start()])
        const recoveryMs = await load.served(up) - up
        times[mode].push(recoveryMs)
        log(`${mode}: ${recoveryMs.toFixed(0)} ms`)
      }
      const responses = await load.stop()
      const rows = await server.sql<Array<{ id: number, times: number }>>`
        select id, count(*)::int as times from kept group by id`
      const applied = new Map(rows.map(({ id, times }) => [id, times]))
      const wrong = [...responses].filter(([id, { status, text }]) =>
        status === 200
          ? applied.get(id) !== 1
          : !text.includes('"committed":"unknown"') && applied.has(id)
      )
      return [
        ...(['stop', 'kill'] as const).flatMap((mode): readonly Figure[] => [
          figureFor(11)(`restarts (${mode})`, times[mode].length, { atLeast: long ? 10 : 1 }),
          figureFor(11)(
            `time from the server's first response to the first 200, median (${mode})`,
            quantile(times[mode], 0.5),
            { unit: 'ms' }
          ),
          figureFor(11)(
            `time from the server's first response to the first 200, longest (${mode})`,
            Math.max(...times[mode]),
            { unit: 'ms', atMost: 1000 }
          )
        ]),
        figureFor(11)('batches', responses.size),
        mustBeZero(2, 3)('batches reported wrong', wrong.length),
        mustBeZero(1)('batches applied twice', rows.filter(({ times }) => times > 1).length)
      ]
    })
}

interface BatchResponse {
  readonly status: number
  readonly text: string
}

interface Load {
  /**
   * Waits until a 200 has arrived at `since` or later. Resolves with its time (performance.now).
   */
  served(since: number): Promise<number>
  stop(): Promise<ReadonlyMap<number, BatchResponse>>
}

/** Starts a few clients that pause briefly between batches, like a lightly loaded service. */
function startLoad (service: RestartableService): Load {
  const responses = new Map<number, BatchResponse>()
  const stopped = new AbortController()
  const authorization = bearer()
  let next = 0
  let last = 0
  const done = Promise.all(Array.from({ length: CLIENTS }, async () => {
    const connection = await openConnection(service.url)
    while (!stopped.signal.aborted) {
      const id = next++
      const { status, text } = await connection.send(
        encodeBatch(authorization, [{ id: 'k', op: 'insert', table: 'kept', values: [{ id }] }])
      )
      responses.set(id, { status, text })
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
      stopped.abort()
      await done
      return responses
    }
  }
}

/** Waits until the server answers a query. Resolves with the time (performance.now). */
async function waitUntilAccepting ({ url }: OwnServer): Promise<number> {
  for (;;) {
    const sql = postgres(url, { max: 1, connect_timeout: 1, fetch_types: false })
    const accepted = await sql`select`.then(() => performance.now(), () => undefined)
    await sql.end({ timeout: 0 })
    if (accepted !== undefined) return accepted
    await delay(2)
  }
}
