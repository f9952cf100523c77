/**
 * The part of a service that runs in a worker process: the main server, on a port that all workers
 * share. The primary process has the admin server. This file does not end the process.
 */
import cluster, { type Worker } from 'node:cluster'
import { openBatchSet, type BatchFiles, type BatchSet } from '../named/read-files.ts'
import type { AppOptions } from '../server/app.ts'
import type { Service } from '../server/service.ts'
import {
  findProblem,
  type Database,
  type DatabaseProblem,
  type Observer,
  type Snapshot
} from '../transaction/decorators.ts'

export type ToWorker =
  | { readonly type: Question, readonly id: number }
  /** The files of the named batches: when the worker starts, and after each reload. */
  | { readonly type: 'batches', readonly files: BatchFiles }

/** Asks for the worker's metrics, or whether it can run batches. */
export type Question = 'metrics' | 'ready'

export type ToPrimary =
  | { readonly type: 'starting' }
  | { readonly type: 'serving' }
  /** The worker accepts no more connections. */
  | { readonly type: 'leaving' }
  /** With the id of the question, or without one before the worker exits. */
  | { readonly type: 'metrics', readonly id?: number, readonly metrics: Snapshot }
  | { readonly type: 'ready', readonly id: number, readonly problem: DatabaseProblem | undefined }

/**
 * Asks the primary for the files of the named batches, and opens them. Later ones replace them. A
 * message without a listener is lost. Throws when the primary has ended.
 */
export async function receiveBatches (config: AppOptions['config']): Promise<BatchSet> {
  const { promise, resolve, reject } = Promise.withResolvers<BatchSet>()
  let opened: BatchSet | undefined
  self().on('message', (message: ToWorker) => {
    if (message.type !== 'batches') return
    if (opened !== undefined) return opened.replace(message.files)
    // If the files are invalid, the start fails.
    const open = async (): Promise<BatchSet> => {
      opened = openBatchSet(config, message.files)
      return opened
    }
    resolve(open())
  })
  self().once('disconnect', () => reject(new Error('the primary process has ended')))
  const [batches] = await Promise.all([promise, send({ type: 'starting' })])
  return batches
}

/** Starts the main server and replies to the primary. Throws when it cannot listen. */
export async function startWorker (options: AppOptions): Promise<Pick<Service, 'stop'>> {
  // Imported here, because the primary loads this file, too, but not the app.
  const { startMain } = await import('../server/app.ts')
  const { app, stop } = await startMain(options)
  const { snapshot } = app.getDecorator<Observer>('observer')
  const database = app.getDecorator<Database>('database')
  self().on('message', async (message: ToWorker) => {
    if (message.type === 'metrics') {
      send({ type: 'metrics', id: message.id, metrics: await snapshot() })
    }
    if (message.type === 'ready') {
      send({ type: 'ready', id: message.id, problem: await findProblem(database) })
    }
  })
  await send({ type: 'serving' })
  return {
    async stop (now) {
      await send({ type: 'leaving' })
      await stop(now)
      // The primary keeps them: counters must not decrease when a worker exits.
      await send({ type: 'metrics', metrics: await snapshot() })
    }
  }
}

export function onOrphaned (stop: () => void): void {
  const worker = self()
  // A connection that the primary handed over when it ended cannot be acknowledged.
  worker.on('error', () => {})
  worker.once('disconnect', () => {
    // Otherwise Node ends this process at once, while batches are running.
    worker.exitedAfterDisconnect = true
    stop()
  })
}

/** Resolves when the message is sent, or cannot be sent because the primary has ended. */
async function send (message: ToPrimary): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  self().send(message, () => resolve())
  await promise
}

function self (): Worker {
  return cluster.worker as Worker
}
