/**
 * Whether traces are sent, by the standard variables of OpenTelemetry. Its SDK reads all of them by
 * itself; here is only said when they ask for tracing, and what they ask for that is not there.
 */

/** Where there is one, traces are sent to it. */
const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const

/** Variables of which one value alone is served; the first of each row counts. */
const SERVED: ReadonlyArray<readonly [names: readonly string[], value: string]> = [
  [['OTEL_TRACES_EXPORTER'], 'otlp'],
  [['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'], 'http/protobuf']
]

/**
 * `given`: the variables that are set. Problems are one line each, and show no value that could
 * hold a secret.
 */
export function readTracing (
  given: Readonly<Record<string, string | undefined>>
): { readonly tracing: boolean, readonly problems: readonly string[] } {
  const endpoints = ENDPOINTS.filter(name => given[name] !== undefined)
  const off = endpoints.length === 0 || given['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' ||
    given['OTEL_TRACES_EXPORTER'] === 'none'
  if (off) return { tracing: false, problems: [] }
  const problems = [
    ...endpoints.filter(name => !isHttp(given[name] as string)).map(name =>
      `${name}: expected a URL of http or https`
    ),
    ...SERVED.flatMap(([names, value]) => {
      const name = names.find(name => given[name] !== undefined)
      return name === undefined || given[name] === value
        ? []
        : [`${name}: traces are sent by ${value} alone`]
    })
  ]
  return { tracing: true, problems }
}

function isHttp (text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}
