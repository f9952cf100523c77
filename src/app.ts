/**
 * The main server: composition of the plugins, in the order of what they need. Nothing else happens here; it does not listen.
 */
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import auth from '../plugins/auth.ts'
import batch from '../plugins/batch.ts'
import db from '../plugins/db.ts'
import errors, { sendClientError, sendFrameworkError } from '../plugins/errors.ts'
import health from '../plugins/health.ts'
import metrics from '../plugins/metrics.ts'
import tracing, { requestId } from '../plugins/tracing.ts'
import type { Config } from '../schemas/config.ts'
import type { DatabaseTarget } from '../schemas/database.ts'

export interface AppOptions {
  readonly config: Config
  /** DATABASE_URL of `config`, understood. */
  readonly database: DatabaseTarget
  readonly logger: FastifyBaseLogger
}

/** Builds the main server. The database is not touched before the first request. */
export async function buildApp ({ config, database, logger }: AppOptions): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: logger,
    // One line a request, written by the tracing plugin.
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: requestId,
    requestTimeout: config.REQUEST_TIMEOUT_MS,
    // A request on a connection that is still open while the service stops is served, not refused.
    return503OnClosing: false,
    clientErrorHandler: sendClientError,
    frameworkErrors: sendFrameworkError,
    http: {
      // Node would answer a missing Host by itself, without a request id.
      requireHostHeader: false,
      headersTimeout: config.REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: 1000
    }
  })
  // 0 stands for no limit: Node drops headers past the limit silently. Their size is bounded all the same (16 KiB).
  app.server.maxHeadersCount = 0
  await app.register(tracing)
  await app.register(errors, { requestId })
  await app.register(metrics)
  await app.register(db, { config, database })
  await app.register(auth, { config, loginRole: database.user })
  await app.register(health)
  await app.register(batch, { config })
  return app
}
