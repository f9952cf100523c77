/**
 * OpenTelemetry's SDK: who makes spans and sends them. Everything about where, how often and how
 * many is said by the standard OTEL_* variables, which it reads itself. In charge of starting and
 * ending it, and of telling the log what it complains of, each thing once.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { diag, DiagLogLevel, type TracerProvider } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes
} from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import type { FastifyBaseLogger } from 'fastify'

export interface OpenTelemetry {
  readonly tracerProvider: TracerProvider
  /** Sends what is left, and ends. */
  stop(): Promise<void>
}

/** Longest wait for the last traces to be sent. */
const STOP_MS = 3000

/**
 * Starts the SDK for this process. The service is called `oneflight` unless OTEL_SERVICE_NAME or
 * OTEL_RESOURCE_ATTRIBUTES says otherwise.
 */
export function startOpenTelemetry (logger: FastifyBaseLogger): OpenTelemetry {
  const report = reportOnce(logger)
  diag.setLogger({ error: report, warn: report, info: report, debug: report, verbose: report }, {
    logLevel: DiagLogLevel.WARN,
    suppressOverrideMessage: true
  })
  const resource = defaultResource().merge(resourceFromAttributes({ 'service.name': 'oneflight' }))
    .merge(detectResources({ detectors: [envDetector] }))
  const provider = new NodeTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())]
  })
  // Contexts are handed on by name: nothing has to be found by the way of asynchronous calls, which
  // costs each of them.
  provider.register({ contextManager: null })
  return {
    tracerProvider: provider,
    async stop () {
      const sent = provider.shutdown().catch((error: unknown) => report((error as Error).message))
      // A collector that is silent must not make the end of the service a late one.
      await Promise.race([sent, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}

/** The SDK tells the same failure of every export. */
function reportOnce (logger: FastifyBaseLogger): (message: string) => void {
  const told = new Set<string>()
  return message => {
    const reason = readReason(message)
    if (!told.has(reason)) logger.warn({ reason }, 'OpenTelemetry has a problem')
    told.add(reason)
  }
}

/** Errors come as JSON texts with their stack, what is wrong with a variable as plain text. */
function readReason (message: string): string {
  try {
    return (JSON.parse(message) as { readonly message: string }).message
  } catch {
    return message
  }
}
