/**
 * `POST /` runs a batch, `POST /batches/<name>` a named one. Hooks check the headers before the
 * body is read.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../schemas/config.ts'
import type { Pieces } from '../../src/json/parse.ts'
import { checkParameters, readParameters, type NamedBatch } from '../../src/named/named-batch.ts'
import { batchLimits, readBatch } from '../../src/plan/check/read-batch.ts'
import { BatchPlanner, type PlannedBatch } from '../../src/plan/plan-batch.ts'
import { Turns } from '../../src/plan/work.ts'
import type { Databases } from '../../src/transaction/database.ts'
import type { Observer, Spans } from '../../src/transaction/observer.ts'
import { batchSettings, runBatch, type BatchResult } from '../../src/transaction/run-batch.ts'
import { clientClosed, compression, respond } from './respond.ts'

interface BatchOptions {
  readonly config: Config
}

/** Reads and plans a body. */
type Planning = (bytes: Buffer) => Pieces<PlannedBatch>

async function batch (app: FastifyInstance, { config }: BatchOptions): Promise<void> {
  const observer = app.getDecorator<Observer>('observer')
  const spans = app.getDecorator<Spans>('spans')
  const databases = app.getDecorator<Databases>('databases')
  const mayBegin = app.getDecorator<() => boolean>('mayBegin')
  const settings = batchSettings(config)
  const limits = batchLimits(config)
  const planner = new BatchPlanner(limits)
  const turns = new Turns()
  // Alerts and dashboards count all routes of this plugin.
  app.addHook('onRoute', route => {
    route.config = { ...route.config, kind: 'batch' }
  })
  // Fastify's own parsers would also accept text/plain.
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: config.MAX_BODY_BYTES } as const
  app.addContentTypeParser('application/json', options, app.getDecorator('keepBody'))

  if (config.COMPRESSION === 'on') await app.register(import('@fastify/compress'), compression)

  const run = async (
    request: FastifyRequest,
    reply: FastifyReply,
    plan: Planning
  ): Promise<FastifyReply> => {
    const received = performance.now() - reply.elapsedTime
    const bytes = request.body as Buffer
    const turn = await turns.take(bytes.length)
    const times = { received, read: performance.now() }
    const batch = await turn.finish(plan(bytes))
    request.access.operations = batch.genericPlan.operations.length
    const result = await runBatch(batch, request, {
      database: databases.of(request.identity),
      settings,
      deadline: times.received + config.REQUEST_TIMEOUT_MS,
      clientClosed: clientClosed(reply),
      mayBegin,
      turn,
      onReplicaBehind: () => observer.replicaBehind(),
      onRetry (reason) {
        observer.retry(reason)
        spans.retry(request, reason)
      }
    })
    observe(request, result, { observer, spans })
    return respond(reply, { plan: batch.genericPlan, result, times })
  }

  app.post('/', { onRequest: hooksOf(app, 'admitAdhoc') }, (request, reply) =>
    run(request, reply, function * (bytes) {
      const operations = yield * readBatch(bytes, limits)
      // Also logged if they are invalid.
      request.access.operations = operations.length
      yield
      return yield * planner.plan(operations)
    }))
  app.post('/batches/:name', { onRequest: hooksOf(app, 'findNamedBatch') }, (request, reply) =>
    run(request, reply, bytes => planNamed(request.namedBatch as NamedBatch, bytes)))
}

function hooksOf (app: FastifyInstance, admission: string): onRequestHookHandler[] {
  return [
    'requireJson',
    'authenticate',
    admission,
    'readPreferences',
    'readIdempotencyKey',
    'readPosition',
    'admit'
  ].map(name => app.getDecorator<onRequestHookHandler>(name))
}

function * planNamed (named: NamedBatch, bytes: Buffer): Pieces<PlannedBatch> {
  const given = yield * readParameters(bytes)
  yield
  const values = yield * checkParameters(named, given, bytes.length)
  yield
  return named.planner.plan(values)
}

/** Tells the log, the metrics and the trace how a batch ended. */
function observe (
  request: FastifyRequest,
  { mayCommit, report, isQueryPlan, failure }: BatchResult,
  { observer, spans }: { readonly observer: Observer, readonly spans: Spans }
): void {
  request.access.committed = mayCommit && failure === undefined
  if (report === undefined) return
  const { namedBatch, identity } = request
  if (!isQueryPlan) {
    observer.batch(report, { batch: namedBatch?.name, route: identity.route?.name })
  }
  spans.batch(request, report, failure)
}

export default fp(batch, {
  name: 'batch',
  fastify: '5.x',
  encapsulate: true,
  dependencies: [
    'media-type',
    'auth',
    'named-batches',
    'prefer',
    'idempotency-key',
    'position',
    'admission',
    'database',
    'metrics',
    'tracing'
  ]
})
