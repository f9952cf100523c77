/**
 * `POST /` runs a batch, `POST /batches/<name>` a named one. Hooks check the headers before the
 * body is read. `POST /mcp` is served beside them, if it is served.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../../schemas/config.ts'
import { mediaTypes } from '../../schemas/http.ts'
import { planNamed, readParameters, type NamedBatch } from '../../src/named/named-batch.ts'
import { batchLimits, readBatch } from '../../src/plan/check/read-batch.ts'
import { BatchPlanner, type PlannedBatch } from '../../src/plan/plan-batch.ts'
import { compression, respond } from './respond.ts'
import { createRunner, type Exchange } from './run-request.ts'
import { createRowStreams } from './stream-rows.ts'
import { createRunUpload } from './upload.ts'

type Planning = (exchange: Exchange) => Promise<PlannedBatch>

async function batch (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  const limits = batchLimits(config)
  const planner = new BatchPlanner(limits)
  const planAdhoc: Planning = async ({ request, bytes, work }) => {
    const operations = readBatch(bytes, limits)
    // Also logged if they are invalid.
    request.access.operations = operations.length
    await work.next()
    return planner.plan(operations)
  }

  const runner = createRunner(app, config)
  const streams = createRowStreams(app, config)
  // Alerts and dashboards count all routes of this plugin.
  app.addHook('onRoute', route => {
    route.config = { ...route.config, kind: 'batch' }
  })
  // Fastify's own parsers would also accept text/plain.
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: config.MAX_BODY_BYTES } as const
  app.addContentTypeParser(mediaTypes.json, options, app.getDecorator('keepBody'))
  // The route reads the body itself.
  const { ndjson, csv } = mediaTypes
  app.addContentTypeParser([ndjson, csv], (_request, _body, done) => done(null))

  if (config.COMPRESSION === 'on') await app.register(import('@fastify/compress'), compression)

  const run = async (
    request: FastifyRequest,
    reply: FastifyReply,
    plan: Planning
  ): Promise<FastifyReply> => {
    const exchange = await runner.receive(request, reply)
    return request.rowSink === undefined
      ? respond(reply, await runner.run(exchange, () => plan(exchange)))
      : await streams.respond(reply, () =>
        runner.run(exchange, async () => streams.admit(request, await plan(exchange))))
  }

  const ofAdhoc = hooksOf(app, 'requireJson', 'admitAdhoc', 'acceptStreams')
  app.post('/', { onRequest: ofAdhoc }, (request, reply) =>
    run(request, reply, planAdhoc))
  const runUpload = createRunUpload(app, config, runner)
  const ofNamed = hooksOf(app, 'requireJsonOrRows', 'findNamedBatch', 'acceptStreams')
  app.post('/batches/:name', { onRequest: ofNamed }, async (request, reply) =>
    request.upload !== undefined
      ? respond(reply, await runUpload(request, reply))
      : run(request, reply, planRequested))
  if (config.MCP === 'on') {
    // Loading the SDK takes 0.1 s and 24 MB.
    const { mcp } = await import('./mcp.ts')
    await app.register(mcp, { config, runner, onRequest: hooksOf(app, 'requireJson') })
  }
}

/**
 * The hooks of a route, in their order: `bodies` checks the media type, `access` decides whether
 * the role may run the batch if the headers tell, `answer` decides about the form of the response.
 */
function hooksOf (
  app: FastifyInstance,
  ...[bodies, access, answer]: readonly [bodies: string, access?: string, answer?: string]
): onRequestHookHandler[] {
  return [
    bodies,
    'authenticate',
    access,
    'readPreferences',
    'readIdempotencyKey',
    'readPosition',
    answer,
    app.hasDecorator('limitPrincipal') ? 'limitPrincipal' : undefined,
    'admit'
  ].flatMap(name => name === undefined ? [] : [app.getDecorator<onRequestHookHandler>(name)])
}

async function planRequested ({ request, bytes, work }: Exchange): Promise<PlannedBatch> {
  const given = readParameters(bytes)
  await work.next()
  return planNamed(request.namedBatch as NamedBatch, given, bytes.length)
}

export default fp(batch, {
  name: 'batch',
  encapsulate: true,
  dependencies: [
    'media-type',
    'auth',
    'named-batches',
    'prefer',
    'idempotency-key',
    'admission',
    'database',
    'metrics',
    'tracing'
  ]
})
