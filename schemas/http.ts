/**
 * Headers of requests and responses, and the bodies of `/health`. Used for the OpenAPI document and
 * for CORS, not for validation.
 */
import { Type } from '@sinclair/typebox'
import { bareKey, maxKeyLength, quotedKey } from './idempotency.ts'
import { describeValue, preferenceItems } from './prefer.ts'

/** A position in the write-ahead log, as PostgreSQL writes it. */
export const positionPattern = /^[0-9A-Fa-f]{1,8}\/[0-9A-Fa-f]{1,8}$/

const preferences = [...preferenceItems].map(([name, { anyOf, description }]) =>
  `- \`${name}\`: ${anyOf.map(word => describeValue(word.const)).join(' or ')}; ${description}`
)

/** Optional headers of `POST /`. OpenAPI describes Authorization and Content-Type elsewhere. */
export const RequestHeaders = Type.Object({
  Prefer: Type.Optional(
    Type.String({
      description:
        'Preferences, separated by commas (RFC 7240). The first value of each is the default:\n\n' +
        preferences.join('\n')
    })
  ),
  'Idempotency-Key': Type.Optional(Type.String({
    pattern: `${bareKey.source}|${quotedKey.source}`,
    description:
      'Commits the batch exactly once, even if it is sent again with the same key. ' +
      `1 to ${maxKeyLength} visible ASCII characters, for example a UUID`
  })),
  'Oneflight-Position': Type.Optional(Type.String({
    pattern: positionPattern.source,
    description: 'The `Oneflight-Position` of an earlier response. A batch with ' +
      '`access=read-only` sees what was committed before that response, also on a standby'
  })),
  'X-Request-Id': Type.Optional(
    Type.String({
      description:
        'Id for the response and the log lines of the request: up to 128 characters of `A-Z ' +
        'a-z 0-9 . _ : / + = @ -`. The default is a generated UUID'
    })
  ),
  traceparent: Type.Optional(
    Type.String({ description: 'Trace of the request (W3C Trace Context)' })
  ),
  tracestate: Type.Optional(
    Type.String({
      description: 'Vendor-specific data of the trace (W3C Trace Context)'
    })
  )
})

/** Headers of responses. */
export const AnswerHeaders = Type.Object({
  'X-Request-Id': Type.String({ description: 'Id of the request, in every response' }),
  'Preference-Applied': Type.String({ description: 'Preferences that were applied' }),
  'Idempotent-Replayed': Type.Literal('true', {
    description:
      'An earlier request with this key committed the batch. This is its response; the batch was ' +
      'not run again'
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
export type AnswerHeader = keyof typeof AnswerHeaders.properties

/** Bodies of `GET /health`. */
export const Healthy = Type.Object({ ok: Type.Literal(true) }, {
  title: 'Healthy',
  description: 'The database is available.'
})
export const Unhealthy = Type.Object({
  ok: Type.Literal(false),
  error: Type.Union([Type.Literal('database'), Type.Literal('pool'), Type.Literal('stopping')])
}, {
  title: 'Unhealthy',
  description: 'The database is unavailable, no connection of the pool becomes free, or this ' +
    'instance is shutting down.'
})

/** The response body of `GET /tables`. */
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
      }))
    }))
  })
}, {
  title: 'TableList',
  description: 'The tables and views of `DB_SCHEMAS`, with the columns that the role may use.'
})
