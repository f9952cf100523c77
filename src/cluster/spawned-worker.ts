/**
 * A worker process as the primary sees it: its state from fork to exit, and questions to it.
 */
import cluster, { type Worker } from 'node:cluster'
import type { BatchFiles } from '../named/read-files.ts'
import type { DatabaseProblem, Snapshot } from '../transaction/decorators.ts'
import type { Question, ToPrimary, ToWorker } from './worker.ts'

type Reply = true | DatabaseProblem

/** Both are null when the process could not be created. */
interface WorkerExit {
  readonly code: number | null
  readonly signal: string | null
}

/**
 * Maximum time, in milliseconds, to wait for an answer: less than the timeout of a scrape, and
 * enough for a busy worker.
 */
const ANSWER_TIMEOUT_MS = 2000

export class WorkerProcess {
  /** 1, 2, …; never reused. */
  readonly id: number
  serves = false
  /** True once the worker has served. */
  served = false
  /** Resolves when the worker serves; with its exit if it exits before. */
  readonly started: Promise<WorkerExit | undefined>
  /** Resolves when the worker accepts no more connections. */
  readonly left: Promise<unknown>
  /** Resolves after the exit, when the worker's last message was received. */
  readonly ended: Promise<WorkerExit>
  readonly #worker = cluster.fork()
  /** By id, what resolves the questions that are not answered yet. */
  readonly #questions = new Map<number | undefined, (answer: Reply | undefined) => void>()
  #lastId = 0

  /**
   * Spawns a worker, which gets the files of the named batches. `onMetrics` receives each metrics
   * snapshot that it sends.
   */
  constructor (
    onMetrics: (worker: number, metrics: Snapshot) => void,
    batches: () => BatchFiles
  ) {
    const worker = this.#worker
    const serving = Promise.withResolvers<undefined>()
    const leaving = Promise.withResolvers<void>()
    worker.on('message', (message: ToPrimary) => {
      switch (message.type) {
        case 'starting':
          send(worker, { type: 'batches', files: batches() })
          break
        case 'serving':
          this.serves = this.served = true
          serving.resolve(undefined)
          break
        case 'leaving':
          this.serves = false
          leaving.resolve()
          break
        case 'metrics':
          onMetrics(worker.id, message.metrics)
          this.#questions.get(message.id)?.(true)
          break
        case 'ready':
          this.#questions.get(message.id)?.(message.problem ?? true)
      }
    })
    this.id = worker.id
    this.ended = waitForEnd(worker)
    this.ended.then(() => {
      this.serves = false
      for (const resolve of this.#questions.values()) resolve(undefined)
    })
    this.started = Promise.race([serving.promise, this.ended])
    this.left = Promise.race([leaving.promise, this.ended])
  }

  /**
   * Resolves to true for `metrics` and for `ready`, or to the problem, and to undefined when the
   * worker does not answer in time.
   */
  async ask (question: Question): Promise<Reply | undefined> {
    const id = ++this.#lastId
    const { promise, resolve } = Promise.withResolvers<Reply | undefined>()
    this.#questions.set(id, resolve)
    const timer = setTimeout(() => resolve(undefined), ANSWER_TIMEOUT_MS)
    send(this.#worker, { type: question, id })
    return promise.finally(() => {
      clearTimeout(timer)
      this.#questions.delete(id)
    })
  }

  /**
   * Tells the worker to finish its batches and exit. A worker may receive the signal twice, because
   * signals often go to a whole process group.
   */
  stop (): void {
    this.#worker.kill('SIGTERM')
  }
}

/** A message that cannot be sent is lost: then the worker has ended. */
function send (worker: Worker, message: ToWorker): void {
  worker.send(message, () => {})
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

/** A worker that has not asked for the batches yet does not get the message. */
export function sendBatches (files: BatchFiles): void {
  for (const worker of allWorkers()) send(worker, { type: 'batches', files })
}

export function killWorkers (): void {
  for (const worker of allWorkers()) worker.kill('SIGKILL')
}

function allWorkers (): readonly Worker[] {
  return Object.values(cluster.workers as Readonly<Record<string, Worker>>)
}
