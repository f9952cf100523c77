/**
 * Decides whether traces are sent, from OpenTelemetry's standard variables. Its SDK reads all of
 * them; this file only rejects what the service does not support.
 */

/** Traces are sent when one of them is set. */
const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const

/** Variables with one supported value. The first variable of a row has precedence. */
const SUPPORTED: ReadonlyArray<readonly [names: readonly string[], value: string]> = [
  [['OTEL_TRACES_EXPORTER'], 'otlp'],
  [['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'], 'http/protobuf']
]

/** `given` contains the variables that are set. Problems are one line each, without secrets. */
export function readTracing (
  given: Readonly<Record<string, string | undefined>>
): { readonly tracing: boolean, readonly problems: readonly string[] } {
  const endpoints = ENDPOINTS.filter(name => given[name] !== undefined)
  const off = endpoints.length === 0 || given['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' ||
    given['OTEL_TRACES_EXPORTER'] === 'none'
  if (off) return { tracing: false, problems: [] }
  const problems = [
    ...endpoints.filter(name => !isHttp(given[name] as string)).map(name =>
      `${name}: expected an http:// or https:// URL`
    ),
    ...SUPPORTED.flatMap(([names, value]) => {
      const name = names.find(name => given[name] !== undefined)
      return name === undefined || given[name] === value
        ? []
        : [`${name}: expected ${value}`]
    })
  ]
  return { tracing: true, problems }
}

function isHttp (text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}
