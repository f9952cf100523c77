/**
 * Writes the request headers and reads the response headers.
 */
import type { BatchOptions, ClientOptions, ServerTiming } from './options.ts'

/** Returns the `Prefer` header of a batch; undefined without preferences. */
export function preferHeader (
  { dryRun, isolation, readOnly, return: returned, explain, timing }: BatchOptions
): string | undefined {
  const preferences = [
    ...flag('tx', dryRun, 'tx=rollback'),
    ...isolation === undefined ? [] : [`isolation=${isolation}`],
    ...flag('access', readOnly, 'access=read-only'),
    ...returned === undefined ? [] : [`return=${returned}`],
    ...flag('explain', explain, 'explain'),
    ...flag('timing', timing, 'timing')
  ]
  // A service that does not know a preference must refuse the batch. Otherwise it would commit an
  // intended dry run.
  return preferences.length === 0 ? undefined : [...preferences, 'handling=strict'].join(', ')
}

/** JavaScript can pass another value than a boolean. It is sent, so that the service refuses it. */
function flag (name: string, value: boolean | undefined, text: string): readonly string[] {
  if (value === undefined || value === false) return []
  return [value === true ? text : `${name}=${String(value)}`]
}

export const NDJSON = 'application/x-ndjson'

interface OwnHeaders {
  readonly idempotencyKey: string | undefined
  readonly accept?: string | undefined
}

/** Returns the headers that all attempts share. The token is not one of them. */
export function requestHeaders (
  client: ClientOptions,
  batch: BatchOptions,
  { idempotencyKey, accept }: OwnHeaders
): Record<string, string> {
  const trace = batch.trace ?? client.trace
  const { traceparent, tracestate } = (typeof trace === 'function' ? trace() : trace) ?? {}
  const own = {
    'content-type': 'application/json',
    accept,
    prefer: preferHeader(batch),
    'idempotency-key': idempotencyKey,
    'oneflight-position': batch.position,
    'x-request-id': batch.requestId,
    traceparent,
    tracestate
  }
  return {
    ...client.headers,
    ...Object.fromEntries(
      Object.entries(own).filter((header): header is [string, string] => header[1] !== undefined)
    )
  }
}

export function readPreferences (header: string | null): Readonly<Record<string, string | true>> {
  return Object.fromEntries(
    splitHeader(header).map(text => {
      const [name = '', value] = text.split('=')
      return [name.trim(), value === undefined ? true : unquote(value.trim())]
    })
  )
}

export function readServerTiming (header: string | null): readonly ServerTiming[] {
  return splitHeader(header).map(text => {
    const [name = '', ...parameters] = text.split(';').map(part => part.trim())
    const values = new Map(parameters.map(parameter => parameter.split('=') as [string, string]))
    const [duration, description] = [values.get('dur'), values.get('desc')]
    return {
      name,
      ...duration === undefined ? {} : { duration: Number(duration) },
      ...description === undefined ? {} : { description: unquote(description) }
    }
  })
}

/** Parses `Retry-After`, a number of seconds or a date, into milliseconds; 0 without it. */
export function readRetryAfter (header: string | null, now = Date.now()): number {
  if (header === null) return 0
  const ms = /^[0-9]+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now
  return Math.max(0, ms || 0)
}

/** Splits a header into its elements. Commas in quotes do not separate elements. */
function splitHeader (header: string | null): readonly string[] {
  return (header?.match(/(?:[^",]|"(?:[^"\\]|\\.)*")+/g) ?? []).map(text => text.trim()).filter(
    text => text !== ''
  )
}

function unquote (text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, '$1') : text
}
