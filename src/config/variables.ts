/**
 * Reads environment variables: parses one of ours by its schema, finds misspelled ones, and decides
 * by those of OpenTelemetry whether traces are sent. Parsing is strict: "10abc" is not an integer
 * and "yes" is not a boolean. Problems never contain a secret.
 */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { describeLimits, type ConfigItem } from '../../schemas/config.ts'
import { closestName } from '../errors/suggestion.ts'

/** `text` is not empty. Returns undefined if it is invalid. */
export function readValue (item: ConfigItem, text: string): unknown {
  const { minBytes = 0, maxBytes = Infinity } = item
  const bytes = Buffer.byteLength(text)
  const value = bytes >= minBytes && bytes <= maxBytes ? parse(item, text) : undefined
  return Value.Check(item as TSchema, value) ? value : undefined
}

/** Reads the elements of a list, which commas separate, without the white space around them. */
function parse ({ type }: ConfigItem, text: string): unknown {
  switch (type) {
    case 'integer':
      return /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : undefined
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : undefined
    case 'array': {
      const elements = text.split(',').map(element => element.trim())
      return elements.includes('') ? undefined : elements
    }
    default:
      return text
  }
}

/** Says what is wrong with an invalid text, without the variable's name. */
export function describeProblem (item: ConfigItem, text: string): string {
  return `expected ${describeKind(item)}${show(item, text)}`
}

function describeKind (item: ConfigItem): string {
  const limits = describeLimits(item)
  if (item.type === 'integer') return `an integer ${limits}`
  if (item.type === 'array') {
    return limits === ''
      ? 'a comma-separated list without empty elements'
      : `a comma-separated list of ${limits}`
  }
  return limits
}

function show (item: ConfigItem, text: string): string {
  if (item.secret === true) return ' (the value is not shown)'
  return `, got ${JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)}`
}

// Finds misspelled variables. The environment contains many unrelated variables, so only names that
// resemble ours are rejected: silently ignoring `JWT_ALGORITHM` would be worse than not starting.

/**
 * Prefixes that other programs use, too (HTTP_PROXY, DB_HOST, DATABASE_NAME, LOG_FORMAT, SQL_HOST).
 * A name with one of them is only rejected when it is the beginning of one of ours (DB_SCHEMA).
 */
const SHARED_PREFIXES: readonly string[] = ['HTTP_', 'DB_', 'DATABASE_', 'LOG_', 'SQL_']

/** Variables that Kubernetes sets for a Service: QUEUE_SERVICE_HOST, QUEUE_PORT_80_TCP … */
const KUBERNETES_LINK = /_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)/

/** Variables of earlier versions. CHANGELOG.md says what there is instead. */
const REMOVED: ReadonlySet<string> = new Set([
  'DATABASE_ROUTES', 'DATABASE_ROUTE_CLAIM', 'MAX_WORK',
  'IDLE_TRANSACTION_TIMEOUT_MS', 'JWT_LEEWAY_S', 'MAX_CONDITIONS',
  'REPLICA_BEHIND', 'REPLICA_WAIT_MS'
])

/**
 * Returns one line per removed or misspelled name, the latter with the closest of the `known`
 * names. A name is misspelled when it is unknown, but has the prefix of a known one: all words but
 * the last, `MAX_` of `MAX_OPS`, `ADMIN_HTTP_` of `ADMIN_HTTP_PORT`.
 */
export function findNearMisses (
  names: readonly string[],
  known: readonly string[]
): readonly string[] {
  const prefixes = known.map(prefixOf).filter(prefix => !SHARED_PREFIXES.includes(prefix))
  const isNear = (name: string): boolean =>
    prefixes.some(prefix => name.includes('_') && `${name}_`.startsWith(prefix)) ||
    known.some(own => own.startsWith(name) && name.length > prefixOf(own).length)
  return names.flatMap(name => {
    if (REMOVED.has(name)) return [`${name}: removed, see CHANGELOG.md`]
    if (known.includes(name) || KUBERNETES_LINK.test(name) || !isNear(name)) return []
    return [`${name}: unknown variable; did you mean ${closestName(name, known)}?`]
  })
}

function prefixOf (name: string): string {
  return name.slice(0, name.lastIndexOf('_') + 1)
}

// Decides whether traces are sent, from OpenTelemetry's standard variables. Its SDK reads all of
// them; only what the service does not support is rejected here.

const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const

/** What values must be. The first variable of a row has precedence. */
const SUPPORTED: ReadonlyArray<
  readonly [names: readonly string[], isValid: (text: string) => boolean, expected: string]
> = [
  ...ENDPOINTS.map(name => [[name], isHttp, 'an http:// or https:// URL'] as const),
  [['OTEL_TRACES_EXPORTER'], text => text === 'otlp', 'otlp'],
  [
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'],
    text => text === 'http/protobuf',
    'http/protobuf'
  ],
  [
    ['OTEL_TRACES_SAMPLER'],
    text => /^(?:parentbased_)?(?:always_on|always_off|traceidratio)$/.test(text),
    'a sampler such as parentbased_traceidratio'
  ],
  [
    ['OTEL_TRACES_SAMPLER_ARG'],
    text => text.trim() !== '' && Number(text) >= 0 && Number(text) <= 1,
    'a number from 0 to 1'
  ]
]

/** `given` contains the variables that are set. Problems are one line each, without secrets. */
export function readTracing (
  given: Readonly<Record<string, string | undefined>>
): { readonly tracing: boolean, readonly problems: readonly string[] } {
  const off = ENDPOINTS.every(name => given[name] === undefined) ||
    given['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || given['OTEL_TRACES_EXPORTER'] === 'none'
  if (off) return { tracing: false, problems: [] }
  const problems = SUPPORTED.flatMap(([names, isValid, expected]) => {
    const name = names.find(name => given[name] !== undefined)
    return name === undefined || isValid(given[name] as string)
      ? []
      : [`${name}: expected ${expected}`]
  })
  return { tracing: true, problems }
}

function isHttp (text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}
