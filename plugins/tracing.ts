/**
 * Distributed tracing (W3C Trace Context, OpenTelemetry): spans for requests, batches and
 * operations. Without a tracer provider there are no spans, but the trace id of a client's
 * `traceparent` is still logged. As in the log, spans contain no values and no error messages.
 */
import {
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Span,
  type Tracer,
  type TracerProvider
} from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { DatabaseTarget } from '../schemas/database.ts'
import { readTraceparent, renderTraceparent, type Trace } from '../schemas/http.ts'
import type { Failure } from '../src/errors/catalogue.ts'
import type { Spans } from '../src/transaction/decorators.ts'

interface TracingOptions {
  /** Creates the spans; undefined turns tracing off. */
  readonly tracerProvider: TracerProvider | undefined
  readonly database: DatabaseTarget
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The request's span, or the client's `traceparent` when tracing is off. */
    trace: Trace | undefined
  }
}

async function tracing (
  app: FastifyInstance,
  { tracerProvider, database }: TracingOptions
): Promise<void> {
  app.decorateRequest('trace', undefined)
  if (tracerProvider !== undefined) await traceRequests(app, tracerProvider)
  const spans = tracerProvider === undefined
    ? { batch () {}, retry () {} }
    : createSpans(tracerProvider.getTracer('oneflight'), database)
  app.decorate('spans', spans satisfies Spans)
  app.addHook('onRequest', (request, reply, done) => {
    const span = tracerProvider === undefined ? null : spanOf(request)
    request.trace = span === null ? readTraceparent(request.headers['traceparent']) : toTrace(span)
    if (request.trace !== undefined) {
      if (span !== null) reply.header('traceparent', renderTraceparent(request.trace))
      request.log = request.log.child({
        trace_id: request.trace.traceId,
        ...span === null ? {} : { span_id: request.trace.spanId }
      })
    }
    done()
  })
}

/** Creates a span for each request, unless a host does. */
async function traceRequests (app: FastifyInstance, provider: TracerProvider): Promise<void> {
  app.addHook('onSend', async request => describeResult(spanOf(request), request))
  if (app.hasRequestDecorator('opentelemetry')) return
  // Loaded only where tracing is on.
  const { default: FastifyOtel } = await import('@fastify/otel')
  const instrumentation = new FastifyOtel.FastifyOtelInstrumentation({
    // Spans for our own hooks would carry no information.
    instrumentHooks: false,
    instrumentHandler: false,
    // Messages can contain data of the database.
    recordExceptions: false,
    requestHook (span, { method, url, routeOptions }) {
      span.updateName(routeOptions.url === undefined ? method : `${method} ${routeOptions.url}`)
      // The query string is the client's text and is left out.
      span.setAttribute('url.path', url.split('?', 1)[0] as string)
    }
  })
  instrumentation.setTracerProvider(provider)
  await app.register(instrumentation.plugin())
}

/** Creates the spans of a batch and its operations after the batch has ended. */
function createSpans (tracer: Tracer, target: DatabaseTarget): Spans {
  return {
    batch (request, report, failure) {
      const context = recordingContext(request)
      if (context === null) return
      const { since, ms, operations } = report
      const { batch } = request.access
      const system = { 'db.system.name': 'postgresql', 'db.namespace': target.database }
      const span = tracer.startSpan(
        batch === undefined ? 'batch' : `batch ${batch}`,
        {
          startTime: since,
          attributes: {
            ...system,
            'oneflight.batch': batch,
            'oneflight.operations': operations.length,
            'oneflight.role': report.role
          }
        },
        context
      )
      const parent = trace.setSpan(context, span)
      for (const [index, { op, table, outcome, since, ms }] of operations.entries()) {
        // Names follow the semantic conventions of OpenTelemetry for database clients.
        const attributes = {
          ...system,
          'oneflight.operation.index': index,
          'db.operation.name': op.toUpperCase(),
          'oneflight.operation.skipped': outcome === 'skipped' || undefined,
          'db.collection.name': table
        }
        const step = tracer.startSpan(
          table === undefined ? op : `${op} ${table}`,
          { kind: SpanKind.CLIENT, startTime: since, attributes },
          parent
        )
        endSpan(step, outcome === 'error' ? failure : undefined, since + ms)
      }
      endSpan(span, failure, since + ms)
    },
    retry (request, reason) {
      spanOf(request)?.addEvent('retry', { reason })
    }
  }
}

function endSpan (span: Span, failure: Failure | undefined, end: number): void {
  if (failure !== undefined) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: failure.code })
    span.setAttributes({
      'error.type': failure.code,
      'db.response.status_code': failure.details.sqlstate
    })
  }
  span.end(end)
}

/** Sets the error code as status: the instrumentation would use the message of the error. */
function describeResult (span: Span | null, request: FastifyRequest): void {
  const { failure, role, batch } = request.access
  span?.setAttributes({
    'oneflight.request_id': request.id,
    // Only names of existing batches are recorded, no text of a client.
    'oneflight.batch': batch,
    'oneflight.role': role
  })
  if (failure === undefined) return
  span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.code })
  span?.setAttribute('error.type', failure.code)
}

/** Returns null when the span has ended. */
function spanOf (request: FastifyRequest): Span | null {
  return request.opentelemetry().span
}

function toTrace (span: Span): Trace {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return { traceId, spanId, flags: traceFlags.toString(16).padStart(2, '0') }
}

/** Returns null when the trace of the request is not sampled. */
function recordingContext (request: FastifyRequest): Context | null {
  const { span, context } = request.opentelemetry()
  return span?.isRecording() === true ? context : null
}

export default fp(tracing, { name: 'tracing', dependencies: ['request-log'] })
