/**
 * The admin server: metrics, liveness, readiness and the running configuration. Never public; without authentication.
 */
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import type { Config } from '../schemas/config.ts'
import { printableConfig } from './config.ts'
import type { Database } from './run/database.ts'
import type { Observer } from './run/observer.ts'

export interface AdminOptions {
  readonly config: Config
  readonly logger: FastifyBaseLogger
  /** What is asked here is answered by the main server's own parts. */
  readonly main: FastifyInstance
  /** true from the moment the service is told to stop. */
  readonly stopping: () => boolean
}

/** Builds the admin server for a main server that is ready. */
export function buildAdmin ({ config, logger, main, stopping }: AdminOptions): FastifyInstance {
  const admin = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // It is the last to stop: nobody who is silent holds the process.
    forceCloseConnections: true
  })
  const observer = main.getDecorator<Observer>('observer')
  const { probe } = main.getDecorator<Database>('database')

  admin.get('/metrics', async (_request, reply) => {
    const { text, type } = await observer.scrape()
    return reply.type(type).send(text)
  })
  admin.get('/live', async () => ({ ok: true }))
  admin.get('/ready', async (_request, reply) => {
    if (stopping()) return reply.code(503).send({ ok: false, error: 'stopping' })
    if (!await probe.reachable()) return reply.code(503).send({ ok: false, error: 'database' })
    return { ok: true }
  })
  admin.setNotFoundHandler(async (_request, reply) => reply.code(404).send({ ok: false, error: 'not found' }))
  admin.get('/config', async () => printableConfig(config))
  return admin
}
