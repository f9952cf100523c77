/**
 * Kills processes while clients run: terminates sessions with pg_terminate_backend continuously.
 * One after the other, spread over the run, it kills PostgreSQL backends, the postmaster and the
 * service, and shuts PostgreSQL down. The seed determines what happens when. Restarts what was
 * stopped and measures the time to the next 200.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { RestartableService } from '../support/process/restartable-service.ts'
import { until } from '../support/until.ts'
import { createQueryClient, withTimeout, type QueryClient } from './query-client.ts'
import type { Crowd } from './crowd.ts'
import type { OwnServer } from './own-server.ts'

/**
 * `shutdown`: a fast shutdown of PostgreSQL. `both`: the postmaster, and the service while
 * PostgreSQL is down.
 */
export type KillKind = 'backend' | 'postmaster' | 'shutdown' | 'service' | 'both'

export interface Kills {
  /** Number of sessions that pg_terminate_backend ended. */
  terminated: number
  readonly counts: Record<KillKind, number>
  /**
   * Milliseconds from PostgreSQL accepting connections to the next 200. None if the service was
   * killed.
   */
  readonly pauses: number[]
}

export interface Targets {
  readonly server: OwnServer
  readonly service: RestartableService
  /** The clients whose progress determines when something is killed. */
  readonly crowd: Pick<Crowd, 'finished' | 'next'>
}

export interface Plan {
  /** The number of kills of each kind. */
  readonly kills: Readonly<Partial<Record<KillKind, number>>>
  /** The number of batches over which they are spread. */
  readonly batches: number
  readonly random: () => number
}

/** Executes the plan. Resolves after the last recovery. Throws if something does not recover. */
export async function killAll (targets: Targets, plan: Plan): Promise<Kills> {
  const { batches, random } = plan
  const kills: Kills = {
    terminated: 0,
    counts: { backend: 0, postmaster: 0, shutdown: 0, service: 0, both: 0 },
    pauses: []
  }
  const client = createQueryClient(targets.server.url)
  const over = new AbortController()
  const terminator = terminate(client, kills, over.signal, random)
  try {
    const kinds = Object.keys(plan.kills) as KillKind[]
    const sequence = shuffle(
      kinds.flatMap(kind => new Array<KillKind>(plan.kills[kind] ?? 0).fill(kind)),
      random
    )
    for (const [i, kind] of sequence.entries()) {
      await until(() => targets.crowd.finished() >= batches * (i + 1) / (sequence.length + 1))
      const accepting = await killers[kind](targets, random)
      const next = await withTimeout(
        targets.crowd.next(),
        20_000,
        `no batch was committed within 20 s after a kill of kind ${kind}`
      )
      if (accepting !== undefined) kills.pauses.push(next - accepting)
      kills.counts[kind]++
    }
  } finally {
    over.abort()
    await terminator
    client.close()
  }
  return kills
}

/**
 * Each resolves with the time when PostgreSQL accepted connections; undefined if the service was
 * killed.
 */
const killers: Readonly<
  Record<KillKind, (targets: Targets, random: () => number) => Promise<number | undefined>>
> = {
  backend: ({ server }, random) => crashBackend(server, random),
  postmaster: ({ server }) => restartServer(server, 'kill'),
  shutdown: ({ server }) => restartServer(server, 'stop'),
  async service ({ service }) {
    await service.end('SIGKILL')
    await service.start()
    return undefined
  },
  async both ({ server, service }) {
    const down = service.end('SIGKILL')
    await Promise.all([restartServer(server, 'kill'), down.then(() => service.start())])
    return undefined
  }
}

/**
 * Sends SIGKILL to one backend. PostgreSQL then ends all other sessions and recovers, because the
 * shared memory may be damaged.
 */
async function crashBackend ({ url }: OwnServer, random: () => number): Promise<number> {
  const [chooser, witness] = [createQueryClient(url), createQueryClient(url)]
  try {
    await until(() => witness.query('select').then(() => true, () => false))
    // Rejects when the server crashes, shortly after the signal.
    const crashed = witness.query('select pg_sleep(60)', 60_000).catch(() => {}).then(() => true)
    // The chosen backend may have exited before the signal; then another one is chosen.
    do {
      await until(async () =>
        kill(await until(() => pickSession(chooser, random).catch(() => undefined)))
      )
    } while (!await Promise.race([crashed, delay(2000, false)]))
  } finally {
    witness.close()
    chooser.close()
  }
  return waitUntilAccepting(url)
}

/** Kills the postmaster or stops the server, and starts it again. */
async function restartServer (server: OwnServer, how: 'kill' | 'stop'): Promise<number> {
  await withTimeout(server[how](), 20_000, 'processes of PostgreSQL survive their postmaster')
  const accepting = waitUntilAccepting(server.url)
  for (let tries = 3; ; tries--) {
    try {
      await server.start()
      return await accepting
    } catch (error) {
      if (tries === 1) throw error
      await delay(200)
    }
  }
}

/** Terminates a session of the service every 20 to 60 ms while the server is running. */
async function terminate (
  client: QueryClient,
  kills: Kills,
  over: AbortSignal,
  random: () => number
): Promise<void> {
  while (!over.aborted) {
    await delay(20 + 40 * random())
    const rows = await client.query(
      `select pg_terminate_backend(pid) as done from (${sessionQuery(random)}) as chosen`
    ).catch(() => [])
    if (rows[0]?.['done'] === true) kills.terminated++
  }
}

async function pickSession (
  client: QueryClient,
  random: () => number
): Promise<number | undefined> {
  const [row] = await client.query(sessionQuery(random))
  return row?.['pid'] as number | undefined
}

/**
 * Returns a query for one session of the service. Every other time it prefers a session that is in
 * its COMMIT: that moment is short and its outcome matters most.
 */
function sessionQuery (random: () => number): string {
  const preference = random() < 0.5
    ? "query ilike 'commit%' and state = 'active' desc, state = 'active' desc, "
    : ''
  return `select pid from pg_stat_activity where usename = 'oneflight'
    order by ${preference}hashint4extended(pid, ${Math.floor(random() * 2 ** 31)}) limit 1`
}

/** Waits until the server answers a query. Resolves with the time. */
async function waitUntilAccepting (url: string): Promise<number> {
  await until(async () => {
    const client = createQueryClient(url)
    try {
      return await client.query('select 1').then(() => true, () => false)
    } finally {
      client.close()
    }
  })
  return performance.now()
}

/** Sends SIGKILL. False if the process does not exist. */
function kill (pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}

function shuffle<T> (list: readonly T[], random: () => number): T[] {
  const numbered = list.map(item => ({ item, at: random() }))
  return numbered.sort((a, b) => a.at - b.at).map(({ item }) => item)
}
