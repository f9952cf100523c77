/**
 * The main server: registers the plugins in the order of their dependencies, and starts it. A
 * worker process has no other server, so it loads this file and not service.ts.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { TracerProvider } from '@opentelemetry/api'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import auth from '../../plugins/auth.ts'
import clientErrors from '../../plugins/client-errors.ts'
import connections from '../../plugins/connections.ts'
import cors from '../../plugins/cors.ts'
import database from '../../plugins/database.ts'
import errors, { sendFrameworkError } from '../../plugins/errors.ts'
import metrics from '../../plugins/metrics.ts'
import requestLog, { requestId } from '../../plugins/request-log.ts'
import batch from '../../plugins/routes/batch.ts'
import health from '../../plugins/routes/health.ts'
import openapi from '../../plugins/routes/openapi.ts'
import tables from '../../plugins/routes/tables.ts'
import tracing from '../../plugins/tracing.ts'
import type { Settings } from '../config/config.ts'
import { openBatchSet, type BatchSet } from '../named/read-files.ts'
import { createHttpServer, listen, originForm } from './http-server.ts'

export interface RouteOptions extends Settings {
  /** Creates the spans of requests, batches and operations. Without it there are no spans. */
  readonly tracerProvider?: TracerProvider | undefined
  /** By default those of BATCHES_DIR, read once. */
  readonly batches?: Pick<BatchSet, 'current'> | undefined
}

export interface AppOptions extends RouteOptions {
  readonly logger: FastifyBaseLogger
}

/**
 * Builds the main server. `app.ready()` starts to open database connections; it does not fail
 * without a database.
 */
export async function buildApp (options: AppOptions): Promise<FastifyInstance> {
  const app = createFastify(options)
  await app.register(connections, { config: options.config })
  await app.register(clientErrors, { requestId })
  await registerRoutes(app, options)
  return app
}

export async function registerRoutes (app: FastifyInstance, options: RouteOptions): Promise<void> {
  const { config, database: target, replica, keys, tracerProvider } = options
  const { batches: { current: batches } = openBatchSet(config) } = options
  await app.register(requestLog)
  await app.register(tracing, { tracerProvider, database: target })
  await app.register(cors, { config })
  await app.register(errors, { config })
  await app.register(metrics)
  await app.register(database, { config, database: target, replica })
  await app.register(auth, { config, keys, loginRole: target.user })
  await app.register(health)
  await app.register(openapi, {
    config: { ...config, hasHostKeys: keys === undefined && app.hasRequestDecorator('jwtVerify') },
    server: () => app.prefix === '' ? '/' : app.prefix,
    batches
  })
  if (config.API_TABLES === 'on') await app.register(tables, { config })
  await app.register(batch, { config, batches })
}

function createFastify ({ config, logger }: AppOptions): FastifyInstance {
  return Fastify({
    loggerInstance: logger,
    // The request-log plugin writes one line per request instead.
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'request_id'
    }),
    genReqId: requestId,
    rewriteUrl: originForm,
    // While the service stops, requests on open connections are served.
    return503OnClosing: false,
    frameworkErrors: sendFrameworkError,
    // For the host name localhost Fastify would open more servers, which the connections plugin
    // does not see.
    serverFactory: handler => createHttpServer(handler, config.REQUEST_TIMEOUT_MS)
  })
}

export interface StartedServer {
  readonly app: FastifyInstance
  /** URL of the main server, for example `http://127.0.0.1:4000`. */
  readonly url: string
  /**
   * Stops the service. It is not ready from now on, and accepts connections for another
   * `SHUTDOWN_DELAY_MS`, or not at all with `now`. Running batches are finished, then all database
   * connections are closed.
   */
  stop(now?: 'now'): Promise<void>
}

/** Starts the main server. Throws when it cannot listen, and leaves nothing running. */
export async function startMain (options: AppOptions): Promise<StartedServer> {
  const { config } = options
  const app = await buildApp(options)
  await app.ready()
  try {
    const url = await listen(app, config, 'main')
    return {
      app,
      url,
      async stop (now) {
        app.announceStop()
        // Closing the listening socket resets connections that the kernel has accepted and we have
        // not. Load balancers need this time to stop sending new ones.
        if (now === undefined) await delay(config.SHUTDOWN_DELAY_MS)
        await app.close()
      }
    }
  } catch (error) {
    await app.close()
    throw error
  }
}
