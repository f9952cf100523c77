/**
 * The primary process (`WORKERS` from 2 on): supervises the workers and runs the admin server. It
 * runs no batch and connects to no database.
 *
 * Workers let one container use several cores without a load balancer in front of it, and one admin
 * server report their metrics as one sum. Replicas need both a balancer and a scrape of each
 * process; with an orchestrator that provides them, `WORKERS=1` is enough.
 */
import cluster, { type Address } from 'node:cluster'
import type { BatchSet } from '../named/read-files.ts'
import { buildAdmin, type NotReadyReason } from '../server/admin.ts'
import { listen } from '../server/http-server.ts'
import type { AppOptions } from '../server/app.ts'
import type { Service } from '../server/service.ts'
import { createClusterMetrics } from './metrics.ts'
import type { WorkerProcess } from './spawned-worker.ts'
import { createWorkerSet } from './worker-set.ts'

/**
 * Connections of a worker beside POOL_SIZE: one for the health check, one to delete expired keys,
 * two to look up the outcome of lost batches.
 */
const EXTRA_CONNECTIONS = 4

/**
 * Starts the admin server and the workers; resolves when one worker serves. Throws when the admin
 * server or the first worker cannot start.
 */
export async function startPrimary (
  { config, logger, batches }: AppOptions & { readonly batches: BatchSet }
): Promise<Pick<Service, 'stop'>> {
  const metrics = createClusterMetrics()
  const workers = createWorkerSet(logger, metrics, batches.files)
  /** The address of the last worker that has started to listen; all workers share it. */
  let main: Address | undefined
  cluster.on('listening', (_worker, address) => {
    main = address
  })
  const admin = buildAdmin({
    config,
    logger,
    batches: batches.current,
    async scrape () {
      await Promise.all(workers.serving().map(worker => worker.ask('metrics')))
      return metrics.scrape()
    },
    main: () => main,
    notReadyReason: async () =>
      workers.isStopping() ? 'stopping' : notReadyReason(workers.serving())
  })
  try {
    await listen(admin, config, 'admin')
    // Messages are structured clones, because JSON has no NaN, which a metric may be.
    cluster.setupPrimary({ serialization: 'advanced' })
    await workers.start(config.WORKERS)
  } catch (error) {
    await admin.close()
    throw error
  }
  const connections = config.WORKERS * (config.POOL_SIZE + EXTRA_CONNECTIONS)
  logger.info(
    {
      workers: config.WORKERS,
      pool_size: config.POOL_SIZE,
      connections
    },
    'limits apply to each worker; connections is the maximum of all workers together'
  )
  return {
    async stop () {
      const clean = await workers.stop()
      // The admin server stops last, as in a single process.
      await admin.close()
      if (!clean) throw new Error('worker did not stop cleanly')
    }
  }
}

/** Ready as soon as one worker can run batches. Workers that hang do not delay that answer. */
async function notReadyReason (
  workers: readonly WorkerProcess[]
): Promise<NotReadyReason | undefined> {
  const answers = workers.map(worker => worker.ask('ready'))
  const reason = Promise.all(answers).then(replies => replies.includes(true)
    ? undefined
    : replies.find(reply => typeof reply === 'string') ?? 'workers')
  const first = answers.map(async answer => await answer === true ? undefined : reason)
  return Promise.race([reason, ...first])
}
