/**
 * The first of several processes (`WORKERS` from 2 on): it makes the workers, replaces them, stops
 * them, and has the one admin server. It runs no batch and knows no database. How it hears of
 * signals, and how it ends, is not known here.
 */
import cluster, { type Address } from 'node:cluster'
import { setTimeout as delay } from 'node:timers/promises'
import { buildAdmin, listenAdmin, type NotReadyReason } from '../server/admin.ts'
import type { AppOptions } from '../server/app.ts'
import { spawnWorker, type WorkerProcess } from './spawned-worker.ts'
import { createClusterMetrics } from './metrics.ts'
import type { Service } from '../server/service.ts'

/**
 * Connections of a worker beside POOL_SIZE: the probe, the deletion of expired keys, two to ask
 * what became of lost batches.
 */
const BESIDE_POOL = 4

/**
 * From a worker that ended without ever having served to the next; it doubles each time, up to the
 * longest.
 */
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

/**
 * Starts the admin server and the workers; resolves when one of them serves. Throws when the admin
 * server or the first worker cannot start.
 */
export async function startPrimary (
  { config, logger }: AppOptions
): Promise<Pick<Service, 'stop'>> {
  const totals = await createClusterMetrics()
  const members = new Set<WorkerProcess>()
  const halt = new AbortController()
  const { signal: halted } = halt
  let failed = false
  /** Of the last worker that listens: all of them share it. */
  let main: Address | undefined
  cluster.on('listening', (_worker, address) => {
    main = address
  })

  const employ = (): WorkerProcess => {
    const member = spawnWorker(totals.take)
    members.add(member)
    member.ended.then(end => {
      members.delete(member)
      totals.end(member.id)
      // One that has not served yet ends in any way, and has left nothing undone.
      const well = halted.aborted && (end.code === 0 || !member.state.served)
      failed ||= halted.aborted && !well
      if (!well) {
        logger.error(
          { worker: member.id, ...end },
          halted.aborted ? 'a worker did not stop as it should' : 'a worker has ended'
        )
      }
    })
    return member
  }
  /** Replaces a worker whenever it leaves: at once, unless it never served. */
  const keep = async (first: WorkerProcess): Promise<void> => {
    let pause = FIRST_PAUSE_MS
    for (let member = first; ; member = employ()) {
      await member.left
      const { served } = member.state
      await delay(served ? 0 : pause, undefined, { signal: halted }).catch(() => {})
      if (halted.aborted) return
      pause = served ? FIRST_PAUSE_MS : Math.min(2 * pause, LONGEST_PAUSE_MS)
    }
  }

  const admin = buildAdmin({
    config,
    logger,
    async scrape () {
      await Promise.all(serving(members).map(member => member.ask('metrics')))
      return totals.scrape()
    },
    main: () => main,
    notReadyReason: async () => halted.aborted ? 'stopping' : hindranceOf(serving(members))
  })
  try {
    await listenAdmin(admin, config)
    // Structured clones: JSON has no NaN, which a metric may be.
    cluster.setupPrimary({ serialization: 'advanced' })
    const first = employ()
    // When it cannot start, neither can the others; it has said why. Had it been ended by a signal,
    // this process will hear of it, too.
    const end = await first.started
    if (end !== undefined && end.code !== 0 && end.signal === null) {
      throw new Error('the first worker cannot start')
    }
    const others = Array.from({ length: config.WORKERS - 1 }, employ)
    for (const member of [first, ...others]) keep(member)
  } catch (error) {
    await admin.close()
    throw error
  }
  const connections = config.WORKERS * (config.POOL_SIZE + BESIDE_POOL)
  logger.info(
    { workers: config.WORKERS, pool_size: config.POOL_SIZE, connections },
    'limits are those of each worker; connections is what the database has to allow'
  )
  return {
    async stop () {
      halt.abort()
      const all = [...members]
      for (const member of all) member.stop()
      await Promise.all(all.map(member => member.ended))
      // The last one, as in a single process.
      await admin.close()
      if (failed) throw new Error('a worker did not stop as it should')
    }
  }
}

function serving (members: ReadonlySet<WorkerProcess>): readonly WorkerProcess[] {
  return [...members].filter(({ state }) => state.serves)
}

/**
 * Nothing, as long as one worker has a database. One that hangs does not delay the answer of the
 * others.
 */
async function hindranceOf (
  workers: readonly WorkerProcess[]
): Promise<NotReadyReason | undefined> {
  const { promise, resolve } = Promise.withResolvers<NotReadyReason | undefined>()
  const answers = workers.map(member => member.ask('reachable'))
  for (const answer of answers) {
    answer.then(reachable => {
      if (reachable === true) resolve(undefined)
    })
  }
  Promise.all(answers).then(all => resolve(all.includes(false) ? 'database' : 'workers'))
  return promise
}
