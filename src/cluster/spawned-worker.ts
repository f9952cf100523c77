/**
 * One of several workers, seen from the first process: its life from fork to end, and questions to
 * it. Whether it is replaced is not decided here.
 */
import cluster, { type Worker } from 'node:cluster'
import type { Question, ToPrimary, ToWorker } from './messages.ts'
import type { Snapshot } from '../transaction/observer.ts'

export interface WorkerProcess {
  /** 1, 2, …; never given twice. */
  readonly id: number
  readonly state: { readonly serves: boolean, readonly served: boolean }
  /** Resolves when it serves; when it ends before, with its end. */
  readonly started: Promise<WorkerExit | undefined>
  /** Resolves when it takes no connections any longer. */
  readonly left: Promise<unknown>
  /** Resolves when nothing is left of it and everything that it said was heard. */
  readonly ended: Promise<WorkerExit>
  /**
   * Resolves when it has answered: whether the database answers it, for `metrics` true; undefined
   * when there is no answer in time.
   */
  ask(question: Question): Promise<boolean | undefined>
  /**
   * Tells it to finish its batches and end. It may be told again, or by others: a signal often goes
   * to all processes of a group.
   */
  stop(): void
}

/** How a process ended; both are null when it could not even be made. */
export interface WorkerExit {
  readonly code: number | null
  readonly signal: string | null
}

/** Longest wait for an answer. Less than a scrape is given, and long enough for a busy worker. */
const PATIENCE_MS = 2000

/** Makes a worker. `onMetrics` hears its counts whenever it tells them. */
export function spawnWorker (
  onMetrics: (member: number, metrics: Snapshot) => void
): WorkerProcess {
  const worker = cluster.fork()
  const state = { serves: false, served: false }
  const serving = Promise.withResolvers<undefined>()
  const leaving = Promise.withResolvers<void>()
  const waiting = new Map<number, (answer: boolean | undefined) => void>()
  let asked = 0
  worker.on('message', (message: ToPrimary) => {
    switch (message.word) {
      case 'serving':
        state.serves = state.served = true
        serving.resolve(undefined)
        break
      case 'leaving':
        state.serves = false
        leaving.resolve()
        break
      case 'metrics':
        onMetrics(worker.id, message.metrics)
        if (message.id !== undefined) waiting.get(message.id)?.(true)
        break
      case 'reachable':
        waiting.get(message.id)?.(message.reachable)
    }
  })
  const ended = endOf(worker)
  ended.then(() => {
    state.serves = false
    for (const resolve of waiting.values()) resolve(undefined)
  })
  return {
    id: worker.id,
    state,
    started: Promise.race([serving.promise, ended]),
    left: Promise.race([leaving.promise, ended]),
    ended,
    async ask (question) {
      const id = ++asked
      const { promise, resolve } = Promise.withResolvers<boolean | undefined>()
      waiting.set(id, resolve)
      const timer = setTimeout(() => resolve(undefined), PATIENCE_MS)
      worker.send({ word: question, id } satisfies ToWorker, () => {})
      return promise.finally(() => {
        clearTimeout(timer)
        waiting.delete(id)
      })
    },
    stop: () => worker.kill('SIGTERM')
  }
}

async function endOf (worker: Worker): Promise<WorkerExit> {
  // Told when it could not be made, and when a connection cannot be handed to it because it has
  // just ended.
  worker.on('error', () => {})
  const { pid } = worker.process
  if (pid === undefined) return { code: null, signal: null }
  const exit = Promise.withResolvers<WorkerExit>()
  const silence = Promise.withResolvers<void>()
  worker.once('exit', (code, signal) => exit.resolve({ code, signal }))
  // What it said last may be heard after its exit, but not after this.
  worker.once('disconnect', silence.resolve)
  await silence.promise
  return exit.promise
}

/** Ends what is left of all workers, at once. */
export function killWorkers (): void {
  for (const worker of Object.values(cluster.workers as Readonly<Record<string, Worker>>)) {
    worker.kill('SIGKILL')
  }
}
