/**
 * The OpenTelemetry SDK: creates spans and exports them. The standard OTEL_* variables configure
 * it, and the SDK reads them itself. Each of its problems is logged once.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { diag, DiagLogLevel } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes
} from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import type { FastifyBaseLogger } from 'fastify'

const STOP_MS = 3000

/**
 * Starts the SDK for this process. The service name is `oneflight` unless OTEL_SERVICE_NAME or
 * OTEL_RESOURCE_ATTRIBUTES sets another.
 */
export function startOpenTelemetry (logger: FastifyBaseLogger) {
  const report = createReport(logger)
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
  // The code passes contexts explicitly. A context manager would slow down every asynchronous call.
  provider.register({ contextManager: null })
  return {
    tracerProvider: provider,
    async stop (): Promise<void> {
      const sent = provider.shutdown().catch((error: unknown) => report((error as Error).message))
      // A collector that does not respond must not delay the exit.
      await Promise.race([sent, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}

/** The SDK reports the same failure for every export. */
function createReport (logger: FastifyBaseLogger): (message: string) => void {
  const logged = new Set<string>()
  return message => {
    const reason = readReason(message)
    if (!logged.has(reason)) logger.warn({ reason }, 'OpenTelemetry reported a problem')
    logged.add(reason)
  }
}

/** The SDK reports errors as JSON with a stack, and invalid variables as plain text. */
function readReason (message: string): string {
  try {
    return (JSON.parse(message) as { readonly message: string }).message
  } catch {
    return message
  }
}
