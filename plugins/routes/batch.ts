/**
 * `POST /`: runs a batch. Hooks check the headers before the body is read.
 */
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../schemas/config.ts'
import { Failure, failure } from '../../src/errors/catalogue.ts'
import { batchLimits, readBatch } from '../../src/plan/read-batch.ts'
import { clientClosed } from '../../src/response/client-closed.ts'
import { compression } from '../../src/response/compression.ts'
import { respond } from '../../src/response/respond.ts'
import type { Database } from '../../src/transaction/database.ts'
import type { Observer, Spans } from '../../src/transaction/observer.ts'
import { batchSettings, runBatch, type BatchResult } from '../../src/transaction/run-batch.ts'

async function batch (app: FastifyInstance, { config }: { config: Config }): Promise<void> {
  const observer = app.getDecorator<Observer>('observer')
  const spans = app.getDecorator<Spans>('spans')
  const database = app.getDecorator<Database>('database')
  const settings = batchSettings(config)
  const limits = batchLimits(config)
  // Fastify's own parsers would also accept text/plain.
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: config.MAX_BODY_BYTES } as const
  app.addContentTypeParser('application/json', options, app.getDecorator('keepBody'))

  if (config.COMPRESSION === 'on') await app.register(import('@fastify/compress'), compression)
  /** Requests whose batch is committed. */
  const committed = new WeakSet<FastifyRequest>()
  // The body may be too large for a buffer, or its compression may fail. That does not undo COMMIT.
  app.setErrorHandler((error, request) => {
    throw error instanceof Failure || !committed.has(request)
      ? error
      : failure('commit_unknown', COMMITTED, undefined, error)
  })

  const hooks = ['requireJson', 'authenticate', 'readPreferences', 'readIdempotencyKey', 'admit']
  const onRequest = hooks.map(name => app.getDecorator<onRequestAsyncHookHandler>(name))

  app.post<{ Body: Buffer }>('/', { onRequest }, async (request, reply) => {
    const times = { received: performance.now() - reply.elapsedTime, read: performance.now() }
    const plan = readBatch(request.body, limits, request.access)
    const result = await runBatch(plan, request, {
      database,
      settings,
      deadline: times.received + config.REQUEST_TIMEOUT_MS,
      clientClosed: clientClosed(reply),
      onRetry (reason) {
        observer.retry(reason)
        spans.retry(request, reason)
      }
    })
    if (result.mayCommit && result.failure === undefined) committed.add(request)
    observe(request, result)
    return respond(reply, { plan, result, times })
  })

  function observe (request: FastifyRequest, { report, isQueryPlan, failure }: BatchResult): void {
    if (report === undefined) return
    if (!isQueryPlan) observer.batch(report)
    spans.batch(request, report, failure)
  }
}

const COMMITTED = 'The batch is committed, but its response could not be created.'

export default fp(batch, {
  name: 'batch',
  fastify: '5.x',
  encapsulate: true,
  dependencies: [
    'media-type',
    'auth',
    'prefer',
    'idempotency-key',
    'admission',
    'database',
    'metrics',
    'tracing'
  ]
})
