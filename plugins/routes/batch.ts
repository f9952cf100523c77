/**
 * `POST /` runs a batch, `POST /batches/<name>` a named one. Hooks check the headers before the
 * body is read. `POST /mcp` is served beside them, if it is served.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../../schemas/config.ts'
import { mediaTypes } from '../../schemas/http.ts'
import {
  planNamed,
  readParameters,
  type NamedBatch,
  type NamedBatches
} from '../../src/named/named-batch.ts'
import { batchLimits, readBatch } from '../../src/plan/check/read-batch.ts'
import { BatchPlanner, type PlannedBatch } from '../../src/plan/plan-batch.ts'
import { createAdmission } from '../hooks/admission.ts'
import { createIdempotencyKeys, readIdempotencyKey } from '../hooks/idempotency-key.ts'
import { createMediaTypeHooks } from '../hooks/media-type.ts'
import { createNamedAccess } from '../hooks/named-batches.ts'
import { createReadPreferences, readPosition } from '../hooks/prefer.ts'
import { compression, respond } from './respond.ts'
import { createRunner, type Exchange } from './run-request.ts'
import { createRowStreams } from './stream-rows.ts'
import { createRunUpload } from './upload.ts'

type Planning = (exchange: Exchange) => Promise<PlannedBatch>

interface BatchOptions extends ConfigOptions {
  readonly batches: () => NamedBatches
}

async function batch (app: FastifyInstance, { config, batches }: BatchOptions): Promise<void> {
  const limits = batchLimits(config)
  const planner = new BatchPlanner(limits)
  const planAdhoc: Planning = async ({ request, bytes, work }) => {
    const operations = readBatch(bytes, limits)
    // Also logged if they are invalid.
    request.access.operations = operations.length
    await work.next()
    return planner.plan(operations)
  }

  const { requireJson, requireJsonOrRows } = createMediaTypeHooks(app, config)
  const authenticate = app.getDecorator<onRequestHookHandler>('authenticate')
  const access = createNamedAccess(app, config, batches)
  const readPreferences = createReadPreferences(app, config)
  const { setKey, keepBody } = createIdempotencyKeys(app, config)
  const { hooks: admit, mayBegin, holdBytes } = createAdmission(app, config)
  const runner = createRunner(app, config, mayBegin)
  const streams = createRowStreams(app, config)
  // Alerts and dashboards count all routes of this plugin.
  app.addHook('onRoute', route => {
    route.config = { ...route.config, kind: 'batch' }
  })
  // Fastify's own parsers would also accept text/plain.
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: config.MAX_BODY_BYTES } as const
  app.addContentTypeParser(mediaTypes.json, options, keepBody)
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

  const read = [readPreferences, readIdempotencyKey, readPosition]
  const { admitAdhoc, findNamedBatch } = access
  const { acceptStreams } = streams
  const ofAdhoc = [requireJson, authenticate, admitAdhoc, ...read, acceptStreams, ...admit]
  app.post('/', { onRequest: ofAdhoc }, (request, reply) =>
    run(request, reply, planAdhoc))
  const runUpload = createRunUpload(app, config, { runner, setKey, holdBytes })
  const ofNamed =
    [requireJsonOrRows, authenticate, findNamedBatch, ...read, acceptStreams, ...admit]
  app.post('/batches/:name', { onRequest: ofNamed }, async (request, reply) =>
    request.upload !== undefined
      ? respond(reply, await runUpload(request, reply))
      : run(request, reply, planRequested))
  if (config.MCP === 'on') {
    // Loading the SDK takes 0.1 s and 24 MB.
    const { mcp } = await import('./mcp.ts')
    const onRequest = [requireJson, authenticate, ...read, ...admit]
    await app.register(mcp, { config, runner, access, setKey, onRequest })
  }
}

async function planRequested ({ request, bytes, work }: Exchange): Promise<PlannedBatch> {
  const given = readParameters(bytes)
  await work.next()
  return planNamed(request.namedBatch as NamedBatch, given, bytes.length)
}

export default fp(batch, {
  name: 'batch',
  encapsulate: true,
  dependencies: ['errors', 'auth', 'database', 'metrics', 'tracing']
})
