/**
 * The main server: registers the plugins in the order of their dependencies. It does not listen.
 */
import type { TracerProvider } from '@opentelemetry/api'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import admission from '../../plugins/admission.ts'
import auth from '../../plugins/auth.ts'
import clientErrors from '../../plugins/client-errors.ts'
import connections from '../../plugins/connections.ts'
import cors from '../../plugins/cors.ts'
import database from '../../plugins/database.ts'
import errors, { sendFrameworkError } from '../../plugins/errors.ts'
import expectContinue from '../../plugins/expect-continue.ts'
import idempotencyKey from '../../plugins/idempotency-key.ts'
import mediaType from '../../plugins/media-type.ts'
import metrics from '../../plugins/metrics.ts'
import namedBatches from '../../plugins/named-batches.ts'
import position from '../../plugins/position.ts'
import prefer from '../../plugins/prefer.ts'
import requestIdPlugin, { requestId } from '../../plugins/request-id.ts'
import requestLog from '../../plugins/request-log.ts'
import batch from '../../plugins/routes/batch.ts'
import health from '../../plugins/routes/health.ts'
import openapi from '../../plugins/routes/openapi.ts'
import tables from '../../plugins/routes/tables.ts'
import tracing from '../../plugins/tracing.ts'
import type { Settings } from '../config/config.ts'
import type { NamedBatches } from '../named/named-batch.ts'
import type { BatchSet } from '../named/read-files.ts'
import { createHttpServer, originForm } from './http-server.ts'

export interface AppOptions extends Settings {
  readonly logger: FastifyBaseLogger
  /** Creates the spans of requests, batches and operations. Without it there are no spans. */
  readonly tracerProvider?: TracerProvider | undefined
  /** The named batches, if the service has any. */
  readonly batches?: Pick<BatchSet, 'current'> | undefined
}

/** Maximum time, in milliseconds, for a client to read the last response on its connection. */
const LINGER_MS = 5000

/**
 * Builds the main server. `app.ready()` starts to open database connections; it does not fail
 * without a database.
 */
export async function buildApp (options: AppOptions): Promise<FastifyInstance> {
  const { config, database: target, replica, routes, keys } = options
  const { tracerProvider } = options
  const named = namedBatchesOf(options)
  const app = createFastify(options)
  await app.register(connections, {
    maxBodyBytes: config.MAX_BODY_BYTES,
    lingerMs: Math.min(LINGER_MS, config.REQUEST_TIMEOUT_MS)
  })
  await app.register(clientErrors, { requestId })
  await app.register(expectContinue, { maxBodyBytes: config.MAX_BODY_BYTES })
  await app.register(requestIdPlugin)
  await app.register(requestLog)
  await app.register(tracing, { tracerProvider, database: target })
  await app.register(cors, { config })
  await app.register(errors, { config })
  await app.register(metrics)
  await app.register(database, { config, database: target, replica, routes })
  await app.register(mediaType)
  await app.register(auth, { config, keys, loginRole: target.user, routes })
  await app.register(namedBatches, { config, batches: named })
  await app.register(prefer, { config })
  await app.register(idempotencyKey, { config })
  await app.register(position)
  await app.register(admission, { config })
  await app.register(health)
  await app.register(openapi, { config, server: () => '/', batches: named })
  if (config.API_TABLES === 'on') await app.register(tables, { config })
  await app.register(batch, { config })
  return app
}

const none: NamedBatches = new Map()

/** Returns a function that returns the current named batches. */
export function namedBatchesOf ({ batches }: Pick<AppOptions, 'batches'>): () => NamedBatches {
  return () => batches?.current() ?? none
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
