/**
 * The workers of a primary process: spawns them, replaces those that exit, and stops them.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { BatchFiles } from '../named/read-files.ts'
import type { ClusterMetrics } from './metrics.ts'
import { WorkerProcess } from './spawned-worker.ts'

/**
 * Pause before the replacement of a worker that exited without having served; doubled each time up
 * to the maximum.
 */
const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 10_000

export function createWorkerSet (
  logger: FastifyBaseLogger,
  metrics: ClusterMetrics,
  batches: () => BatchFiles
) {
  const workers = new Set<WorkerProcess>()
  const stopping = new AbortController()
  const { signal } = stopping
  let clean = true

  const spawn = (): WorkerProcess => {
    const worker = new WorkerProcess(metrics.take, batches)
    workers.add(worker)
    worker.ended.then(exit => {
      workers.delete(worker)
      metrics.end(worker.id)
      // A worker that has not served yet has left nothing unfinished, however it exits.
      if (signal.aborted && (exit.code === 0 || !worker.served)) return
      clean &&= !signal.aborted
      logger.error(
        { worker: worker.id, ...exit },
        signal.aborted ? 'worker did not stop cleanly' : 'worker exited unexpectedly'
      )
    })
    return worker
  }

  return {
    /** Starts `count` workers; resolves when one serves. Throws when the first cannot start. */
    async start (count: number): Promise<void> {
      const first = spawn()
      // If it cannot start, neither can the others, and it has logged the reason. If a signal ended
      // it, this process receives the signal, too.
      const exit = await first.started
      if (exit !== undefined && exit.code !== 0 && exit.signal === null) {
        throw new Error('the first worker could not start')
      }
      const others = Array.from({ length: count - 1 }, spawn)
      for (const worker of [first, ...others]) keepReplacing(worker, spawn, signal)
    },
    serving: () => [...workers].filter(worker => worker.serves),
    isStopping: () => signal.aborted,
    /** Stops all workers; resolves to false if one of them did not stop cleanly. */
    async stop (): Promise<boolean> {
      stopping.abort()
      const all = [...workers]
      for (const worker of all) worker.stop()
      await Promise.all(all.map(worker => worker.ended))
      return clean
    }
  }
}

/** Replaces a worker when it leaves: at once if it has served, otherwise after a pause. */
async function keepReplacing (
  first: WorkerProcess,
  spawn: () => WorkerProcess,
  signal: AbortSignal
): Promise<void> {
  let pause = FIRST_PAUSE_MS
  for (let worker = first; ; worker = spawn()) {
    await worker.left
    const { served } = worker
    await delay(served ? 0 : pause, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    pause = served ? FIRST_PAUSE_MS : Math.min(2 * pause, MAX_PAUSE_MS)
  }
}
