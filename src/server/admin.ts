/**
 * The admin server: metrics, liveness, readiness, the running configuration and the API reference.
 * It has no authentication and must not be public.
 */
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import apiReference, {
  mainUrl,
  type ApiReferenceOptions
} from '../../plugins/routes/api-reference.ts'
import openapi from '../../plugins/routes/openapi.ts'
import type { Config } from '../../schemas/config.ts'
import { printableConfig } from '../config/config.ts'
import type { NamedBatches } from '../named/named-batch.ts'
import type { DatabaseProblem, Exposition } from '../transaction/decorators.ts'

/** Why the service is not ready: it is stopping, has no database, or no worker is running. */
export type NotReadyReason = 'stopping' | DatabaseProblem | 'workers'

export interface AdminRouteOptions {
  readonly config: Config
  readonly scrape: () => Promise<Exposition>
  /** Resolves to undefined when the service is ready. */
  readonly notReadyReason: () => Promise<NotReadyReason | undefined>
}

export interface AdminOptions extends AdminRouteOptions, Pick<ApiReferenceOptions, 'main'> {
  readonly logger: FastifyBaseLogger
  readonly batches: () => NamedBatches
}

/** Builds the admin server. It does not listen. */
export function buildAdmin (options: AdminOptions): FastifyInstance {
  const { config, logger, batches, main } = options
  const admin = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // It stops last: idle connections must not keep the process running.
    forceCloseConnections: true
  })
  admin.register(adminRoutes, options)
  admin.setNotFoundHandler(async (_request, reply) =>
    reply.code(404).send({ ok: false, error: 'not found' })
  )
  admin.register(openapi, {
    config,
    batches,
    server: ({ hostname }) =>
      mainUrl(main() ?? { address: config.HTTP_HOST, port: config.HTTP_PORT }, hostname)
  })
  admin.register(apiReference, { config, main })
  return admin
}

export async function adminRoutes (
  admin: FastifyInstance,
  { config, scrape, notReadyReason }: AdminRouteOptions
): Promise<void> {
  admin.get('/metrics', async (_request, reply) => {
    const { text, type } = await scrape()
    return reply.type(type).send(text)
  })
  admin.get('/live', async () => ({ ok: true }))
  admin.get('/ready', async (_request, reply) => {
    const error = await notReadyReason()
    return error === undefined ? { ok: true } : reply.code(503).send({ ok: false, error })
  })
  admin.get('/config', async () => printableConfig(config))
}
