/**
 * The main server: composition of the plugins, in the order of what they need. Nothing else happens
 * here; it does not listen.
 */
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import type { TracerProvider } from '@opentelemetry/api'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import admission from '../../plugins/admission.ts'
import auth from '../../plugins/auth.ts'
import batch from '../../plugins/routes/batch.ts'
import cors from '../../plugins/cors.ts'
import db from '../../plugins/database.ts'
import errors, { sendFrameworkError } from '../../plugins/errors.ts'
import health from '../../plugins/routes/health.ts'
import http, { originForm } from '../../plugins/connections.ts'
import idempotency from '../../plugins/idempotency-key.ts'
import metrics from '../../plugins/metrics.ts'
import openapi from '../../plugins/routes/openapi.ts'
import prefer from '../../plugins/prefer.ts'
import telemetry from '../../plugins/tracing.ts'
import tracing, { requestId } from '../../plugins/request-log.ts'
import type { Settings } from '../config/config.ts'

export interface AppOptions extends Settings {
  readonly logger: FastifyBaseLogger
  /** Makes the spans of requests, batches and operations; none are made without it. */
  readonly tracerProvider?: TracerProvider | undefined
}

/** A client that was refused has this long to read the answer before its connection is cut. */
const PATIENCE_MS = 5000

/**
 * Longer than the minute after which most load balancers give up an idle connection: the side that
 * closes must not be this one.
 */
const KEEP_ALIVE_MS = 72_000

/**
 * Builds the main server. When it is ready a first connection to the database is opened; it starts
 * without one, too.
 */
export async function buildApp (
  { config, database, replica, keys, logger, tracerProvider }: AppOptions
): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: logger,
    // One line a request, written by the tracing plugin.
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'request_id'
    }),
    genReqId: requestId,
    rewriteUrl: originForm,
    // A request on a connection that is still open while the service stops is served, not refused.
    return503OnClosing: false,
    frameworkErrors: sendFrameworkError,
    // For the name localhost Fastify would open further servers of its own, out of reach for the
    // http plugin.
    serverFactory: handler => createServer(handler, config.REQUEST_TIMEOUT_MS)
  })
  await app.register(http, {
    requestId,
    maxBodyBytes: config.MAX_BODY_BYTES,
    patienceMs: Math.min(PATIENCE_MS, config.REQUEST_TIMEOUT_MS)
  })
  await app.register(tracing)
  await app.register(telemetry, { tracerProvider, database })
  await app.register(cors, { config })
  await app.register(errors)
  await app.register(metrics)
  await app.register(db, { config, database, replica })
  await app.register(auth, { config, keys, loginRole: database.user })
  await app.register(prefer, { config })
  await app.register(idempotency)
  await app.register(admission, { config })
  await app.register(health)
  await app.register(openapi, { config, server: '/' })
  await app.register(batch, { config })
  return app
}

function createServer (handler: RequestListener, timeoutMs: number): Server {
  const server = createHttpServer({
    // Node would answer a missing Host by itself, without a request id.
    requireHostHeader: false,
    headersTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    connectionsCheckingInterval: Math.min(1000, Math.ceil(timeoutMs / 4)),
    keepAliveTimeout: KEEP_ALIVE_MS
  }, handler)
  // For clients that do not read their answer: longer than any other wait for a client.
  server.timeout = KEEP_ALIVE_MS + timeoutMs
  // 0 stands for no limit: Node drops headers past the limit silently. Their size is bounded all
  // the same (16 KiB).
  server.maxHeadersCount = 0
  return server
}
