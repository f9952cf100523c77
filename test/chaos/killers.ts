/**
 * Those who kill while others work: sessions by pg_terminate_backend without pause; and one after
 * the other, spread over the run, single processes of PostgreSQL, the whole of PostgreSQL, and the
 * service.
 *
 * In charge of: who dies when, by the seed; starting again what died; the time until there is a 200
 * again. Refuses to: judge what became of the batches.
 */
import { execFile } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { isAlive } from '../support/process/alive.ts'
import { until } from '../support/until.ts'
import { createAsker, inTime, type Asker } from './asker.ts'
import type { Crowd } from './crowd.ts'
import type { OwnServer } from './own-server.ts'
import type { RestartableService } from './service-process.ts'

const run = promisify(execFile)

/** `both`: the service while PostgreSQL is down. */
export type Blow = 'backend' | 'postmaster' | 'service' | 'both'

export interface Kills {
  /** Sessions that pg_terminate_backend ended. */
  terminated: number
  readonly blows: Record<Blow, number>
  /**
   * From PostgreSQL taking connections again to the next 200, in milliseconds, after each blow to
   * PostgreSQL alone.
   */
  readonly pauses: number[]
}

export interface Targets {
  readonly server: OwnServer
  readonly service: RestartableService
  readonly crowd: Crowd
}

export interface Plan {
  /** How often each. */
  readonly blows: Readonly<Record<Blow, number>>
  /** Over how many batches they are spread. */
  readonly batches: number
  readonly random: () => number
}

/**
 * Carries the plan out; resolves when the last blow was survived. Throws when something did not
 * come back.
 */
export async function killAll (targets: Targets, { blows, batches, random }: Plan): Promise<Kills> {
  const kills: Kills = {
    terminated: 0,
    blows: { backend: 0, postmaster: 0, service: 0, both: 0 },
    pauses: []
  }
  const asker = createAsker(targets.server.url)
  const over = new AbortController()
  const terminator = terminate(asker, kills, over.signal, random)
  try {
    const deck = shuffle(
      (Object.keys(blows) as Blow[]).flatMap(blow => new Array<Blow>(blows[blow]).fill(blow)),
      random
    )
    for (const [i, blow] of deck.entries()) {
      await until(() => targets.crowd.finished() >= batches * (i + 1) / (deck.length + 1))
      const back = await strike[blow](targets, random)
      const next = await inTime(
        targets.crowd.next(),
        20_000,
        `no batch was committed within 20 s after ${blow} was killed`
      )
      if (back !== undefined) kills.pauses.push(next - back)
      kills.blows[blow]++
    }
  } finally {
    over.abort()
    await terminator
    asker.close()
  }
  return kills
}

/** Each answers when PostgreSQL took connections again, where that alone was hit. */
const strike: Readonly<
  Record<Blow, (targets: Targets, random: () => number) => Promise<number | undefined>>
> = {
  backend: ({ server }, random) => crashBackend(server, random),
  postmaster: ({ server }) => crashServer(server),
  async service ({ service }) {
    await service.kill()
    await service.start()
    return undefined
  },
  async both ({ server, service }) {
    const down = service.kill()
    await Promise.all([crashServer(server), down.then(() => service.start())])
    return undefined
  }
}

/**
 * SIGKILL of a session's process: PostgreSQL ends all others and recovers, for the shared memory
 * may be damaged.
 */
async function crashBackend ({ url }: OwnServer, random: () => number): Promise<number> {
  const [chooser, witness] = [createAsker(url), createAsker(url)]
  try {
    await until(() => witness.ask('select').then(() => true, () => false))
    // Ends with the crash, which comes a moment after the signal.
    const crashed = witness.ask('select pg_sleep(60)', 60_000).catch(() => {}).then(() => true)
    // One that was chosen may have ended by itself, and be there no more than in name.
    do {
      await until(async () =>
        kill(await until(() => pickSession(chooser, random).catch(() => undefined)))
      )
    } while (!await Promise.race([crashed, delay(2000, false)]))
  } finally {
    witness.close()
    chooser.close()
  }
  return untilAnswering(url)
}

/**
 * SIGKILL of the postmaster: nothing is shut down, its lock file and shared memory stay. Its
 * children leave when they notice.
 */
async function crashServer (server: OwnServer): Promise<number> {
  const { pid } = server.server()
  const { stdout } = await run('ps', ['-A', '-o', 'ppid=,pid='])
  const children = stdout.split('\n').map(line => line.trim().split(/\s+/).map(Number)).filter((
    [parent]
  ) => parent === pid).map(([, child]) => child as number)
  kill(pid)
  // A new one refuses to start beside them. One that hangs would be a fault of its own, and is not
  // ours.
  await inTime(
    until(() => children.every(child => !isAlive(child))),
    10_000,
    'processes of PostgreSQL outlive it'
  )
  await server.server().stop()
  const answering = untilAnswering(server.url)
  for (let tries = 3; ; tries--) {
    try {
      await server.start()
      return await answering
    } catch (error) {
      if (tries === 1) throw error
      await delay(200)
    }
  }
}

/** Ends a session of the service every 20 to 60 ms, as far as there is a server. */
async function terminate (
  asker: Asker,
  kills: Kills,
  over: AbortSignal,
  random: () => number
): Promise<void> {
  while (!over.aborted) {
    await delay(20 + 40 * random())
    const rows = await asker.ask(
      `select pg_terminate_backend(pid) as done from (${sessions(random)}) as chosen`
    ).catch(() => [])
    if (rows[0]?.['done'] === true) kills.terminated++
  }
}

async function pickSession (asker: Asker, random: () => number): Promise<number | undefined> {
  const [row] = await asker.ask(sessions(random))
  return row?.['pid'] as number | undefined
}

/**
 * One session of the service. Half of the time, where there is one, such as is at its COMMIT: there
 * the answer matters most, and a moment is short.
 */
function sessions (random: () => number): string {
  const first = random() < 0.5
    ? "query ilike 'commit%' and state = 'active' desc, state = 'active' desc, "
    : ''
  return `select pid from pg_stat_activity where usename = 'oneflight'
    order by ${first}hashint4extended(pid, ${Math.floor(random() * 2 ** 31)}) limit 1`
}

/** The time when the server takes connections and answers. */
async function untilAnswering (url: string): Promise<number> {
  await until(async () => {
    const asker = createAsker(url)
    try {
      return await asker.ask('select 1').then(() => true, () => false)
    } finally {
      asker.close()
    }
  })
  return performance.now()
}

/** false: it was gone already. */
function kill (pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}

function shuffle<T> (list: readonly T[], random: () => number): T[] {
  return list.map(item => ({ item, at: random() })).sort((a, b) => a.at - b.at).map(({ item }) =>
    item
  )
}
