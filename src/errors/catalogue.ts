/**
 * Every failure the service itself can name: code → type, status, meaning. PostgreSQL's own
 * conditions are translated in postgres.ts. This file decides no wording of a single case and knows
 * nothing of HTTP beyond the status.
 */
import type { ErrorObject, ErrorType } from '../../schemas/error.ts'

interface Entry {
  readonly type: ErrorType
  readonly status: number
  readonly meaning: string
}

export const catalogue = {
  body_invalid: {
    type: 'request_error',
    status: 400,
    meaning:
      'The body is not a JSON array, or not JSON that can be kept exactly (duplicate keys, ' +
      'U+0000, lone surrogates, invalid UTF-8, a byte order mark).'
  },
  body_empty: { type: 'request_error', status: 400, meaning: 'The array holds no operation.' },
  id_missing: {
    type: 'request_error',
    status: 400,
    meaning: 'An element is no object, or its `id` is missing or not a string.'
  },
  id_duplicate: {
    type: 'request_error',
    status: 400,
    meaning: 'Two operations have the same `id`.'
  },
  prefer_invalid: {
    type: 'request_error',
    status: 400,
    meaning: 'With `handling=strict`: the `Prefer` header is malformed, or names a preference or ' +
      'a value that is unknown.'
  },
  idempotency_key_invalid: {
    type: 'request_error',
    status: 400,
    meaning:
      'The `Idempotency-Key` header is malformed, or keys cannot be kept, for the table is ' +
      'missing; the batch was not run.'
  },
  idempotency_key_in_progress: {
    type: 'request_error',
    status: 409,
    meaning: 'A request with this `Idempotency-Key` is still running; its answer can be had by ' +
      'sending the same request again.'
  },
  idempotency_key_reused: {
    type: 'request_error',
    status: 422,
    meaning:
      'The `Idempotency-Key` was used for another request, with another body or other preferences.'
  },
  http_malformed: {
    type: 'request_error',
    status: 400,
    meaning: 'The bytes are not HTTP/1.1, or the path cannot be decoded.'
  },
  auth_required: {
    type: 'request_error',
    status: 401,
    meaning: 'No token was sent and no anonymous role is configured.'
  },
  token_invalid: {
    type: 'request_error',
    status: 401,
    meaning: 'The Authorization header is not exactly one Bearer token that verifies.'
  },
  token_expired: { type: 'request_error', status: 401, meaning: 'The token has expired (`exp`).' },
  token_not_active: {
    type: 'request_error',
    status: 401,
    meaning: 'The token is not active yet (`nbf`, `iat`).'
  },
  token_claims_invalid: {
    type: 'request_error',
    status: 401,
    meaning: 'A required claim is missing or has the wrong type or value.'
  },
  role_missing: { type: 'request_error', status: 401, meaning: 'The token names no role.' },
  not_found: { type: 'request_error', status: 404, meaning: 'There is nothing at this path.' },
  method_not_allowed: {
    type: 'request_error',
    status: 405,
    meaning: 'The path exists, with the methods of the `Allow` header.'
  },
  request_timeout: {
    type: 'request_error',
    status: 408,
    meaning: 'The request did not arrive in time.'
  },
  body_too_large: {
    type: 'request_error',
    status: 413,
    meaning: 'The body is larger than `MAX_BODY_BYTES`.'
  },
  too_many_ops: {
    type: 'request_error',
    status: 413,
    meaning: 'The batch holds more than `MAX_OPS` operations.'
  },
  content_type_unsupported: {
    type: 'request_error',
    status: 415,
    meaning: 'The media type is not `application/json` in UTF-8 without a content encoding.'
  },
  client_closed_request: {
    type: 'request_error',
    status: 499,
    meaning: 'The client went away before its batch was sent to the database. Seen in logs alone.'
  },
  expectation_unsupported: {
    type: 'request_error',
    status: 417,
    meaning: 'The `Expect` header asks for something other than `100-continue`.'
  },
  headers_too_large: {
    type: 'request_error',
    status: 431,
    meaning: 'The headers are larger than 16 KiB.'
  },
  validation_failed: {
    type: 'validation_error',
    status: 422,
    meaning: 'Operations are faulty; `errors` lists every fault. 403 when every fault is ' +
      '`schema_forbidden`.'
  },
  role_denied: {
    type: 'session_error',
    status: 403,
    meaning: 'The role of the token cannot be taken.'
  },
  reference_row_missing: {
    type: 'execution_error',
    status: 422,
    meaning: 'A reference names a row that the earlier operation did not return.'
  },
  reference_column_missing: {
    type: 'execution_error',
    status: 422,
    meaning: 'A reference names a column that the earlier operation did not return.'
  },
  expectation_failed: {
    type: 'execution_error',
    status: 412,
    meaning: 'An operation affected or returned another number of rows than `expect` says.'
  },
  value_invalid: {
    type: 'execution_error',
    status: 422,
    meaning: 'A value does not fit its column: the composite type has no such member, a column ' +
      'that takes one value was given an array or an object, `$append` meets no array, or ' +
      '`$merge` no jsonb object.'
  },
  rows_limit: {
    type: 'execution_error',
    status: 422,
    meaning: 'An operation returned or changed more than `MAX_ROWS` rows.'
  },
  overloaded: {
    type: 'service_error',
    status: 503,
    meaning: 'Every connection is busy and the queue is full or its time is over.'
  },
  database_unavailable: {
    type: 'service_error',
    status: 503,
    meaning: 'The database cannot be reached or is shutting down.'
  },
  keys_unavailable: {
    type: 'service_error',
    status: 503,
    meaning: 'The keys of `JWT_JWKS_URL` could not be fetched since the start.'
  },
  shutting_down: { type: 'service_error', status: 503, meaning: 'This instance is stopping.' },
  deadline_exceeded: {
    type: 'service_error',
    status: 504,
    meaning: 'The request took longer than `REQUEST_TIMEOUT_MS`; nothing was committed.'
  },
  commit_unknown: {
    type: 'service_error',
    status: 500,
    meaning:
      'The connection was lost after COMMIT had been sent: the batch may or may not be committed.'
  },
  internal: {
    type: 'service_error',
    status: 500,
    meaning: 'A fault of the service itself; nothing was committed.'
  }
} as const satisfies Record<string, Entry>

export type FailureCode = keyof typeof catalogue

/** What a failure carries beside code and message; names are those of the envelope. */
export type FailureDetails = Partial<
  Omit<ErrorObject, 'type' | 'code' | 'message' | 'committed' | 'request_id'>
>

interface FailureInit {
  readonly type: ErrorType
  readonly code: string
  readonly status: number
  readonly message: string
  readonly details: FailureDetails
  readonly cause?: unknown
}

/**
 * The only error that is thrown on purpose: becomes the envelope of schemas/error.ts with its
 * `status`.
 */
export class Failure extends Error {
  readonly type: ErrorType
  readonly code: string
  readonly status: number
  readonly details: FailureDetails

  constructor (init: FailureInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause })
    this.name = 'Failure'
    this.type = init.type
    this.code = init.code
    this.status = init.status
    this.details = init.details
  }

  /** `false`: nothing of the batch is in the database. `'unknown'`: only with `commit_unknown`. */
  get committed (): false | 'unknown' {
    return this.code === 'commit_unknown' ? 'unknown' : false
  }
}

/**
 * A failure of the catalogue; `message` says what is special about this case, else the catalogue's
 * meaning stands.
 */
export function failure (
  code: FailureCode,
  message?: string,
  details?: FailureDetails,
  cause?: unknown
): Failure {
  const { type, status, meaning } = catalogue[code]
  // Nobody reads where a failure was made, and under overload, when they are many, to find out was
  // 6 % of all time.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const made = new Failure({
    type,
    code,
    status,
    message: message ?? meaning,
    details: details ?? {},
    cause
  })
  Error.stackTraceLimit = stackTraceLimit
  return made
}
