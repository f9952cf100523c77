/**
 * Headers of requests and responses, and the bodies of `/health` and `/tables`. The schemas are
 * those of the OpenAPI document and of CORS; nothing is validated with them.
 */
import { Type } from '@sinclair/typebox'
import { oneOf } from './one-of.ts'
import { describeValue, preferenceItems } from './prefer.ts'

/** Media types of bodies. Rows are one JSON object a line, or CSV. */
export const mediaTypes = {
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  csv: 'text/csv'
} as const

/**
 * `Idempotency-Key`: a bare key (visible ASCII), and a quoted one (a string of RFC 9651 §3.3.3 with
 * the escapes `\"` and `\\`).
 */
export const bareKey = /^[!\x23-\x7e][\x21-\x7e]*$/
export const quotedKey = /^"((?:[ !\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

export const maxKeyLength = 255

/**
 * Returns the values of a header by its lower-case name, one for each time it was sent. Unlike
 * `headersDistinct`, `rawHeaders` exists in HTTP/2 and in requests of Fastify's `inject`.
 */
export function headerValues (rawHeaders: readonly string[], name: string): readonly string[] {
  const isName = (text: string): boolean =>
    text.length === name.length && text.toLowerCase() === name
  return rawHeaders.filter((_, i) => i % 2 === 1 && isName(rawHeaders[i - 1] as string))
}

/** A duration with a unit: `24h`. */
export const ttlPattern = '^[1-9][0-9]{0,5}(s|m|h|d)$'

const unitSeconds = { s: 1, m: 60, h: 3600, d: 86_400 }

/** Seconds of a duration such as `24h`. */
export function readTtl (text: string): number {
  return Number(text.slice(0, -1)) * unitSeconds[text.slice(-1) as keyof typeof unitSeconds]
}

/** A span in a trace (W3C Trace Context), in lower-case hexadecimal digits. */
export interface Trace {
  /** 32 digits, not all 0. */
  readonly traceId: string
  /** 16 digits, not all 0. */
  readonly spanId: string
  /** 2 digits; the last bit is set when the trace is sampled. */
  readonly flags: string
}

// https://www.w3.org/TR/trace-context/#traceparent-header
// A later version may append fields to the flags. Version ff is invalid.
const pattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Returns undefined for a missing or invalid header, which the standard requires to ignore.
 * `parseTraceParent` of @opentelemetry/core 2.12 accepts a no-break space around the value, and its
 * import adds 28 ms to every start, even with tracing off.
 */
export function readTraceparent (text: string | readonly string[] | undefined): Trace | undefined {
  const [, version, traceId, spanId, flags, more] = typeof text === 'string'
    ? pattern.exec(text) ?? []
    : []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  return version === '00' && more !== undefined ? undefined : { traceId, spanId, flags }
}

export function renderTraceparent ({ traceId, spanId, flags }: Trace): string {
  return `00-${traceId}-${spanId}-${flags}`
}

/** A position in the write-ahead log, as PostgreSQL writes it. */
export const positionPattern = /^[0-9A-Fa-f]{1,8}\/[0-9A-Fa-f]{1,8}$/

const preferences = [...preferenceItems].map(([name, { anyOf, description }]) =>
  `- \`${name}\`: ${anyOf.map(word => describeValue(word.const)).join(' or ')}; ${description}`
)

/** Optional headers of `POST /`. OpenAPI describes Authorization and Content-Type elsewhere. */
export const RequestHeaders = Type.Partial(Type.Object({
  Prefer: Type.String({
    description:
      'Preferences, separated by commas (RFC 7240). The first value of each is the default:\n\n' +
      preferences.join('\n')
  }),
  'Idempotency-Key': Type.String({
    pattern: `${bareKey.source}|${quotedKey.source}`,
    description:
      'Commits the batch exactly once, even if it is sent again with the same key. ' +
      `1 to ${maxKeyLength} visible ASCII characters, for example a UUID`
  }),
  'Oneflight-Position': Type.String({
    pattern: positionPattern.source,
    description: 'The `Oneflight-Position` of an earlier response. A batch with ' +
      '`access=read-only` sees what was committed before that response, also on a standby'
  }),
  'X-Request-Id': Type.String({
    description: 'Id for the response and the log lines of the request: up to 128 characters of ' +
      '`A-Z a-z 0-9 . _ : / + = @ -`. The default is a generated UUID'
  }),
  traceparent: Type.String({ description: 'Trace of the request (W3C Trace Context)' }),
  tracestate: Type.String({ description: 'Vendor-specific data of the trace (W3C Trace Context)' })
}))

/** Headers of `POST /mcp` that the Model Context Protocol defines. */
export const mcpHeaders: readonly string[] = ['mcp-protocol-version', 'mcp-method', 'mcp-name']

export const AnswerHeaders = Type.Object({
  'X-Request-Id': Type.String({ description: 'Id of the request, in every response' }),
  'Preference-Applied': Type.String({ description: 'Preferences that were applied' }),
  'Idempotent-Replayed': Type.Literal('true', {
    description:
      'An earlier request with this key committed the batch. This is its response; the batch was ' +
      'not run again'
  }),
  'Oneflight-Txid': Type.String({
    description: 'Id of the transaction of a batch that was committed, unless it only reads: 64 ' +
      'bits as a decimal number, as `pg_current_xact_id()` returns them. The response to a key ' +
      'that was used before has that of the first request'
  }),
  'Oneflight-Xid': Type.String({
    description: 'The low 32 bits of `Oneflight-Txid`, which logical replication sends with each ' +
      'transaction'
  }),
  'Oneflight-Position': Type.String({
    description: 'With `DATABASE_REPLICA_URL`: the position of the database after the batch was ' +
      'committed, to send with reads that must see it'
  }),
  'Server-Timing': Type.String({
    description: 'Duration of each stage, with `Prefer: timing`'
  }),
  'Retry-After': Type.String({ description: 'Seconds to wait before a retry' }),
  'WWW-Authenticate': Type.String({ description: 'Authentication challenge (RFC 6750)' }),
  traceparent: Type.String({
    description: 'Trace of the response (W3C Trace Context)'
  })
})

export const Healthy = Type.Object({ ok: Type.Literal(true) }, {
  title: 'Healthy',
  description: 'The database is available.'
})
export const Unhealthy = Type.Object({
  ok: Type.Literal(false),
  error: oneOf(['database', 'pool', 'stopping'])
}, {
  title: 'Unhealthy',
  description: 'The database is unavailable, no connection of the pool becomes free, or this ' +
    'instance is shutting down.'
})

export const TableList = Type.Object({
  error: Type.Null(),
  data: Type.Object({
    tables: Type.Array(Type.Object({
      name: Type.String({ description: 'as operations name it' }),
      comment: Type.Union([Type.String(), Type.Null()]),
      columns: Type.Array(Type.Object({
        name: Type.String(),
        type: Type.String({ description: 'the type in PostgreSQL' }),
        comment: Type.Union([Type.String(), Type.Null()]),
        nullable: Type.Boolean(),
        optional: Type.Boolean({ description: 'whether it has a default' }),
        select: Type.Boolean({ description: 'whether the role may read it' }),
        insert: Type.Boolean({ description: 'whether the role may insert it' }),
        update: Type.Boolean({ description: 'whether the role may update it' })
      }, { title: 'TableColumn' }))
    }, { title: 'Table' }))
  }, { title: 'Tables' })
}, {
  title: 'TableList',
  description: 'The tables and views of `DB_SCHEMAS`, with the columns that the role may use.'
})
