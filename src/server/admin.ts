/**
 * The admin server: metrics, liveness, readiness, the running configuration, and a page to try
 * batches. Never public; without authentication.
 */
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import openapi from '../../plugins/routes/openapi.ts'
import reference, { tryUrl, type ReferenceOptions } from '../../plugins/routes/api-reference.ts'
import type { Config } from '../../schemas/config.ts'
import { printableConfig } from '../config/config.ts'
import type { Exposition } from '../transaction/observer.ts'

/** Why no batch can be served: told to stop, no database, no process that serves. */
export type NotReadyReason = 'stopping' | 'database' | 'workers'

export interface AdminOptions extends Pick<ReferenceOptions, 'main'> {
  readonly config: Config
  readonly logger: FastifyBaseLogger
  readonly scrape: () => Promise<Exposition>
  /** What keeps the service from serving now; undefined: nothing does. */
  readonly notReadyReason: () => Promise<NotReadyReason | undefined>
}

/**
 * Builds the admin server; what is asked of it is answered by whoever made `scrape`, `hindrance`
 * and `main`.
 */
export function buildAdmin (
  { config, logger, scrape, notReadyReason: hindrance, main }: AdminOptions
): FastifyInstance {
  const admin = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // It is the last to stop: nobody who is silent holds the process.
    forceCloseConnections: true
  })
  admin.get('/metrics', async (_request, reply) => {
    const { text, type } = await scrape()
    return reply.type(type).send(text)
  })
  admin.get('/live', async () => ({ ok: true }))
  admin.get('/ready', async (_request, reply) => {
    const error = await hindrance()
    return error === undefined ? { ok: true } : reply.code(503).send({ ok: false, error })
  })
  admin.setNotFoundHandler(async (_request, reply) =>
    reply.code(404).send({ ok: false, error: 'not found' })
  )
  admin.get('/config', async () => printableConfig(config))
  admin.register(openapi, { config, server: tryUrl })
  admin.register(reference, { config, main })
  return admin
}

/**
 * Listens where the configuration says; answers the URL, e.g. `http://127.0.0.1:9568`. Throws when
 * it cannot.
 */
export function listenAdmin (
  admin: FastifyInstance,
  { ADMIN_HTTP_HOST: host, ADMIN_HTTP_PORT: port }: Config
): Promise<string> {
  return admin.listen({ host, port, listenTextResolver: address => `admin server: ${address}` })
}
