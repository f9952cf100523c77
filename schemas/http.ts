/**
 * The words of HTTP beside the bodies: headers of requests and answers, and what `/health` answers.
 * The description of the API and what browsers are told (CORS) are made from these objects; nothing
 * is checked by them.
 */
import { Type } from '@sinclair/typebox'
import { bareKey, maxKeyLength, quotedKey } from './idempotency.ts'
import { describeValue, preferenceItems } from './prefer.ts'

const preferences = [...preferenceItems].map(([name, { anyOf, description }]) =>
  `- \`${name}\`: ${anyOf.map(word => describeValue(word.const)).join(' or ')}; ${description}`
)

/**
 * Headers of `POST /`, each optional. Authorization and Content-Type are described elsewhere, as
 * OpenAPI has it.
 */
export const RequestHeaders = Type.Object({
  Prefer: Type.Optional(
    Type.String({
      description:
        'Preferences, separated by commas (RFC 7240); the first value is what counts without the ' +
        `header:\n\n${preferences.join('\n')}`
    })
  ),
  'Idempotency-Key': Type.Optional(Type.String({
    pattern: `${bareKey.source}|${quotedKey.source}`,
    description:
      'The batch is applied exactly once, however often it is sent with this key: 1 to ' +
      `${maxKeyLength} visible ASCII characters, for example a UUID`
  })),
  'X-Request-Id': Type.Optional(
    Type.String({
      description:
        'Repeated by the answer and by every log line of the request: up to 128 of `A-Z ' +
        'a-z 0-9 . _ : / + = @ -`, else a UUID is made'
    })
  ),
  traceparent: Type.Optional(
    Type.String({ description: 'The trace that the request belongs to (W3C Trace Context)' })
  ),
  tracestate: Type.Optional(
    Type.String({
      description: 'What the systems before this one say of the trace (W3C Trace Context)'
    })
  )
})

/** Headers of answers. */
export const AnswerHeaders = Type.Object({
  'X-Request-Id': Type.String({ description: 'The id of the request, in every answer' }),
  'Preference-Applied': Type.String({ description: 'The preferences that were understood' }),
  'Idempotent-Replayed': Type.Literal('true', {
    description:
      'The batch had been committed under this key before: this is its answer, and nothing ' +
      'was done now'
  }),
  'Server-Timing': Type.String({
    description: 'Where the time went, when `Prefer: timing` asks for it'
  }),
  'Retry-After': Type.String({ description: 'Seconds to wait before the request is sent again' }),
  'WWW-Authenticate': Type.String({ description: 'The challenge (RFC 6750)' }),
  traceparent: Type.String({
    description: 'The trace that the answer belongs to (W3C Trace Context)'
  })
})
export type AnswerHeader = keyof typeof AnswerHeaders.properties

/** `GET /health` when requests are welcome, and when they are not. */
export const Healthy = Type.Object({ ok: Type.Literal(true) }, {
  title: 'Healthy',
  description: 'The database answers.'
})
export const Unhealthy = Type.Object({
  ok: Type.Literal(false),
  error: Type.Union([Type.Literal('database'), Type.Literal('stopping')])
}, {
  title: 'Unhealthy',
  description: 'The database does not answer, or this instance is stopping.'
})
