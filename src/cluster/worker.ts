/**
 * One of several workers, seen from inside: it serves the main port, which it shares with the
 * others, and tells the first process how it is. It has no admin server, and does not end the
 * process.
 */
import cluster, { type Worker } from 'node:cluster'
import type { AppOptions } from '../server/app.ts'
import type { ToPrimary, ToWorker } from './messages.ts'
import type { Database } from '../transaction/database.ts'
import type { Observer } from '../transaction/observer.ts'
import { startMain, type Service } from '../server/service.ts'

/**
 * Starts the main server and answers the questions of the first process. Throws when it cannot
 * listen.
 */
export async function startWorker (options: AppOptions): Promise<Pick<Service, 'stop'>> {
  const { app, stop } = await startMain(options)
  const { snapshot } = app.getDecorator<Observer>('observer')
  const { probe } = app.getDecorator<Database>('database')
  self().on('message', async (message: ToWorker) => {
    if (message.word === 'metrics') {
      tell({ word: 'metrics', id: message.id, metrics: await snapshot() })
    }
    if (message.word === 'reachable') {
      tell({ word: 'reachable', id: message.id, reachable: await probe.reachable() })
    }
  })
  await tell({ word: 'serving' })
  return {
    async stop (now) {
      await tell({ word: 'leaving' })
      await stop(now)
      // Sums shall not shrink when it is gone.
      await tell({ word: 'metrics', metrics: await snapshot() })
    }
  }
}

/** Calls `stop` when the first process is gone. */
export function onOrphaned (stop: () => void): void {
  const worker = self()
  worker.once('disconnect', () => {
    // Node would end this process at once, in the middle of its batches.
    worker.exitedAfterDisconnect = true
    stop()
  })
}

/** Resolves when it is sent; or when nobody is there to hear it, which `disconnect` tells. */
async function tell (message: ToPrimary): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  self().send(message, () => resolve())
  await promise
}

function self (): Worker {
  return cluster.worker as Worker
}
