/**
 * A worker process as the primary sees it: its state from fork to exit, and questions to it.
 */
import cluster, { type Worker } from 'node:cluster'
import type { BatchFiles } from '../named/read-files.ts'
import type { DatabaseProblem, Snapshot } from '../transaction/decorators.ts'
import type { Question, ToPrimary, ToWorker } from './worker.ts'

type Reply = true | DatabaseProblem

export interface WorkerProcess {
  /** 1, 2, …; never reused. */
  readonly id: number
  readonly state: WorkerState
  /** Resolves when the worker serves; with its exit if it exits before. */
  readonly started: Promise<WorkerExit | undefined>
  /** Resolves when the worker accepts no more connections. */
  readonly left: Promise<unknown>
  /** Resolves after the exit, when the worker's last message was received. */
  readonly ended: Promise<WorkerExit>
  /**
   * Resolves to true for `metrics` and for `ready`, or to the problem, and to undefined when the
   * worker does not answer in time.
   */
  ask(question: Question): Promise<Reply | undefined>
  /**
   * Tells the worker to finish its batches and exit. A worker may receive the signal twice, because
   * signals often go to a whole process group.
   */
  stop(): void
}

interface WorkerState {
  readonly serves: boolean
  /** True once the worker has served. */
  readonly served: boolean
}

/** Both are null when the process could not be created. */
export interface WorkerExit {
  readonly code: number | null
  readonly signal: string | null
}

/**
 * Maximum time, in milliseconds, to wait for an answer: less than the timeout of a scrape, and
 * enough for a busy worker.
 */
const ANSWER_TIMEOUT_MS = 2000

/**
 * Spawns a worker, which gets the files of the named batches. `onMetrics` receives each metrics
 * snapshot that it sends.
 */
export function spawnWorker (
  onMetrics: (worker: number, metrics: Snapshot) => void,
  batches: () => BatchFiles
): WorkerProcess {
  const worker = cluster.fork()
  const state = { serves: false, served: false }
  const serving = Promise.withResolvers<undefined>()
  const leaving = Promise.withResolvers<void>()
  const questions = createQuestions(worker)
  let sent: BatchFiles | undefined
  const sendCurrent = (): void => {
    if (sent === batches()) return
    sent = batches()
    worker.send({ type: 'batches', files: sent } satisfies ToWorker, () => {})
  }
  worker.on('message', (message: ToPrimary) => {
    switch (message.type) {
      case 'starting':
        sendCurrent()
        break
      case 'serving':
        // A reload while the worker was starting has not reached it.
        sendCurrent()
        state.serves = state.served = true
        serving.resolve(undefined)
        break
      case 'leaving':
        state.serves = false
        leaving.resolve()
        break
      case 'metrics':
        onMetrics(worker.id, message.metrics)
        if (message.id !== undefined) questions.answer(message.id, true)
        break
      case 'ready':
        questions.answer(message.id, message.problem ?? true)
    }
  })
  const ended = waitForEnd(worker)
  ended.then(() => {
    state.serves = false
    questions.abandon()
  })
  return {
    id: worker.id,
    state,
    started: Promise.race([serving.promise, ended]),
    left: Promise.race([leaving.promise, ended]),
    ended,
    ask: questions.ask,
    stop: () => worker.kill('SIGTERM')
  }
}

interface Questions extends Pick<WorkerProcess, 'ask'> {
  answer(id: number, answer: Reply): void
  abandon(): void
}

function createQuestions (worker: Worker): Questions {
  const open = new Map<number, (answer: Reply | undefined) => void>()
  let lastId = 0
  return {
    async ask (question) {
      const id = ++lastId
      const { promise, resolve } = Promise.withResolvers<Reply | undefined>()
      open.set(id, resolve)
      const timer = setTimeout(() => resolve(undefined), ANSWER_TIMEOUT_MS)
      worker.send({ type: question, id } satisfies ToWorker, () => {})
      return promise.finally(() => {
        clearTimeout(timer)
        open.delete(id)
      })
    },
    answer: (id, answer) => open.get(id)?.(answer),
    abandon () {
      for (const resolve of open.values()) resolve(undefined)
    }
  }
}

async function waitForEnd (worker: Worker): Promise<WorkerExit> {
  // Emitted when the process cannot be created, and when a connection cannot be passed to it
  // because it has just exited.
  worker.on('error', () => {})
  const { pid } = worker.process
  if (pid === undefined) return { code: null, signal: null }
  const exit = Promise.withResolvers<WorkerExit>()
  const disconnected = Promise.withResolvers<void>()
  worker.once('exit', (code, signal) => exit.resolve({ code, signal }))
  // The last message may arrive after 'exit', but not after 'disconnect'.
  worker.once('disconnect', disconnected.resolve)
  await disconnected.promise
  return exit.promise
}

export function sendBatches (files: BatchFiles): void {
  for (const worker of Object.values(cluster.workers as Readonly<Record<string, Worker>>)) {
    worker.send({ type: 'batches', files } satisfies ToWorker, () => {})
  }
}

export function killWorkers (): void {
  for (const worker of Object.values(cluster.workers as Readonly<Record<string, Worker>>)) {
    worker.kill('SIGKILL')
  }
}
