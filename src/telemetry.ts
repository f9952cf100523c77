/**
 * OpenTelemetry's SDK: who makes spans and sends them. Everything about where, how often and how many is said by the standard OTEL_* variables, which it reads
 * itself. In charge of starting and ending it, and of telling the log when traces cannot be sent, each reason once.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { diag, DiagLogLevel, type TracerProvider } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import type { FastifyBaseLogger } from 'fastify'

export interface Telemetry {
  readonly tracerProvider: TracerProvider
  /** Sends what is left, and ends. */
  stop (): Promise<void>
}

/** Longest wait for the last traces to be sent. */
const STOP_MS = 3000

/** Starts the SDK for this process. The service is called `oneflight` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES says otherwise. */
export function startTelemetry (logger: FastifyBaseLogger): Telemetry {
  const report = reportOnce(logger)
  diag.setLogger({ error: report, warn: report, info () {}, debug () {}, verbose () {} }, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  const resource = defaultResource().merge(resourceFromAttributes({ 'service.name': 'oneflight' })).merge(detectResources({ detectors: [envDetector] }))
  const provider = new NodeTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] })
  // Contexts are handed on by name: nothing has to be found by the way of asynchronous calls, which costs each of them.
  provider.register({ contextManager: null })
  return {
    tracerProvider: provider,
    async stop () {
      const late = new AbortController()
      const sent = provider.shutdown().catch((error: unknown) => report((error as Error).message)).finally(() => late.abort())
      // A collector that is silent must not make the end of the service a late one.
      await Promise.race([sent, delay(STOP_MS, undefined, { signal: late.signal, ref: false }).catch(() => {})])
    }
  }
}

/** The SDK tells the same failure of every export. */
function reportOnce (logger: FastifyBaseLogger): (message: string) => void {
  const told = new Set<string>()
  return message => {
    const reason = readReason(message)
    if (!told.has(reason)) logger.warn({ reason }, 'traces cannot be sent')
    told.add(reason)
  }
}

/** Errors come as JSON texts with their stack. */
function readReason (message: string): string {
  try {
    return String((JSON.parse(message) as { message?: unknown }).message ?? message)
  } catch {
    return message
  }
}
