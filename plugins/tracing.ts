/**
 * Traces (W3C Trace Context, OpenTelemetry): where a request stands in one, and spans of what it
 * does. Without a provider no span is made; a `traceparent` that the client sent stands in the log
 * all the same. In charge of what a trace may hold: as in the log, nothing that a client or the
 * database said.
 */
import {
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type SpanOptions,
  type TracerProvider
} from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { readTraceparent, renderTraceparent, type Trace } from '../schemas/trace-context.ts'
import type { DatabaseTarget } from '../schemas/database.ts'
import type { Failure } from '../src/errors/catalogue.ts'
import type { Spans } from '../src/transaction/observer.ts'
import type { OperationReport } from '../src/transaction/report.ts'

export interface TelemetryOptions {
  /** Makes the spans; undefined: tracing is off. */
  readonly tracerProvider: TracerProvider | undefined
  readonly database: DatabaseTarget
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Where the work on this request stands: its own span, or the client's when tracing is off. */
    trace: Trace | undefined
  }
}

async function telemetry (
  app: FastifyInstance,
  { tracerProvider, database }: TelemetryOptions
): Promise<void> {
  app.decorateRequest('trace', undefined)
  const spans = tracerProvider === undefined
    ? { batch () {}, retry () {} }
    : await traceRequests(app, tracerProvider, database)
  app.decorate('spans', spans satisfies Spans)
  app.addHook('onRequest', async (request, reply) => {
    const span = tracerProvider === undefined ? null : spanOf(request)
    request.trace = span === null ? readTraceparent(request.headers['traceparent']) : placeOf(span)
    if (request.trace === undefined) return
    if (span !== null) reply.header('traceparent', renderTraceparent(request.trace))
    request.log = request.log.child({
      trace_id: request.trace.traceId,
      ...span === null ? {} : { span_id: request.trace.spanId }
    })
  })
}

async function traceRequests (
  app: FastifyInstance,
  provider: TracerProvider,
  database: DatabaseTarget
): Promise<Spans> {
  // Loaded where it is used alone.
  const { default: FastifyOtel } = await import('@fastify/otel')
  const instrumentation = new FastifyOtel.FastifyOtelInstrumentation({
    // A span for each of our hooks would say nothing.
    instrumentHooks: false,
    instrumentHandler: false,
    // Messages can hold what the database said.
    recordExceptions: false,
    requestHook (span, { method, url, routeOptions }) {
      span.updateName(routeOptions.url === undefined ? method : `${method} ${routeOptions.url}`)
      // A query string is the client's text.
      span.setAttribute('url.path', url.split('?', 1)[0] as string)
    }
  })
  instrumentation.setTracerProvider(provider)
  await app.register(instrumentation.plugin())
  app.addHook('onSend', async request => describeEnd(spanOf(request), request))
  const tracer = provider.getTracer('oneflight')
  const system = { 'db.system.name': 'postgresql', 'db.namespace': database.database }
  return {
    batch (request, { role, since, ms, operations }, failure) {
      const context = recording(request)
      if (context === null) return
      const span = tracer.startSpan('batch', {
        startTime: since,
        attributes: {
          ...system,
          'oneflight.operations': operations.length,
          ...role === undefined ? {} : { 'oneflight.role': role }
        }
      }, context)
      const inside = trace.setSpan(context, span)
      for (const [index, operation] of operations.entries()) {
        const failed = operation.outcome === 'error' ? failure : undefined
        endSpan(
          tracer.startSpan(
            nameOf(operation),
            describeOperation(operation, { ...system, 'oneflight.operation.index': index }),
            inside
          ),
          failed,
          operation.since + operation.ms
        )
      }
      endSpan(span, failure, since + ms)
    },
    retry (request, reason) {
      spanOf(request)?.addEvent('retry', { reason })
    }
  }
}

function nameOf ({ op, table }: OperationReport): string {
  return table === undefined ? op : `${op} ${table}`
}

/** Names by the semantic conventions of OpenTelemetry for database clients. */
function describeOperation (
  { op, table, since }: OperationReport,
  attributes: Attributes
): SpanOptions {
  return {
    kind: SpanKind.CLIENT,
    startTime: since,
    attributes: {
      ...attributes,
      'db.operation.name': op.toUpperCase(),
      ...table === undefined ? {} : { 'db.collection.name': table }
    }
  }
}

function endSpan (span: Span, failure: Failure | undefined, end: number): void {
  if (failure !== undefined) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: failure.code })
    span.setAttributes({
      'error.type': failure.code,
      ...failure.details.sqlstate === undefined
        ? {}
        : { 'db.response.status_code': failure.details.sqlstate }
    })
  }
  span.end(end)
}

/** What the library made of an error is its message; in its place stands the code. */
function describeEnd (span: Span | null, request: FastifyRequest): void {
  const { failure, role } = request.access
  span?.setAttributes({
    'oneflight.request_id': request.id,
    ...role === undefined ? {} : { 'oneflight.role': role }
  })
  if (failure === undefined) return
  span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.code })
  span?.setAttribute('error.type', failure.code)
}

/** null when it has ended. */
function spanOf (request: FastifyRequest): Span | null {
  return request.opentelemetry().span
}

function placeOf (span: Span): Trace {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return { traceId, spanId, flags: traceFlags.toString(16).padStart(2, '0') }
}

/** The context of a request whose trace is recorded. */
function recording (request: FastifyRequest): Context | null {
  const { span, context } = request.opentelemetry()
  return span?.isRecording() === true ? context : null
}

export default fp(telemetry, { name: 'tracing', fastify: '5.x', dependencies: ['request-log'] })
