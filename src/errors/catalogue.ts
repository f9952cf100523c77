/**
 * The failures of the service: type, status and meaning by code. postgres.ts translates errors of
 * PostgreSQL.
 */
import type { ErrorObject, ErrorType } from '../../schemas/error.ts'

interface Entry {
  readonly type: ErrorType
  readonly status: number
  readonly meaning: string
}

function failuresOf<Code extends string> (
  type: ErrorType,
  entries: Readonly<Record<Code, Omit<Entry, 'type'>>>
): Readonly<Record<Code, Entry>> {
  const all = Object.entries<Omit<Entry, 'type'>>(entries)
  return Object.fromEntries(all.map(([code, entry]) => [code, { type, ...entry }])) as
    Record<Code, Entry>
}

const requestErrors = failuresOf('request_error', {
  body_invalid: {
    status: 400,
    meaning:
      'The request body is not a JSON array, or contains JSON that cannot be stored exactly ' +
      '(duplicate keys, U+0000, lone surrogates, invalid UTF-8, a byte order mark).'
  },
  body_empty: { status: 400, meaning: 'The batch is empty.' },
  id_missing: {
    status: 400,
    meaning: 'An element of the batch is not an object, or its `id` is missing or not a string.'
  },
  id_duplicate: { status: 400, meaning: 'Two operations have the same `id`.' },
  prefer_invalid: {
    status: 400,
    meaning:
      'The `Prefer` header has a known preference with an unknown value, or with two values. ' +
      'With `handling=strict`, it is malformed or has an unknown preference.'
  },
  position_invalid: {
    status: 400,
    meaning: 'The `Oneflight-Position` header is not that of a response.'
  },
  idempotency_key_invalid: {
    status: 400,
    meaning:
      'The `Idempotency-Key` header is malformed, or the table of keys is missing or of an ' +
      'earlier version. The batch was not run.'
  },
  idempotency_key_in_progress: {
    status: 409,
    meaning:
      'A request with this `Idempotency-Key` is still running. Send the same request again to ' +
      'get its response.'
  },
  idempotency_key_reused: {
    status: 422,
    meaning:
      'The `Idempotency-Key` was used for another request, which was committed: with a ' +
      'different body, different preferences or other claims of the token. This request was not ' +
      'run.'
  },
  http_malformed: {
    status: 400,
    meaning: 'The request is not valid HTTP/1.1 (its `Host` included), or its path cannot be ' +
      'decoded.'
  },
  auth_required: {
    status: 401,
    meaning:
      'No token was sent, and anonymous access is not configured. Send the header ' +
      '`Authorization: Bearer <token>`.'
  },
  token_invalid: {
    status: 401,
    meaning:
      'The `Authorization` header is not exactly one valid Bearer token. The log states the ' +
      'reason.'
  },
  token_expired: { status: 401, meaning: 'The token has expired (`exp`).' },
  token_not_active: { status: 401, meaning: 'The token is not valid yet (`nbf`, `iat`).' },
  token_claims_invalid: { status: 401, meaning: 'A required claim is missing or invalid.' },
  role_missing: { status: 401, meaning: 'The token has no role claim.' },
  not_found: {
    status: 404,
    meaning: 'Path not found. Batches are sent with `POST /` or `POST /batches/<name>`.'
  },
  batch_unknown: { status: 404, meaning: 'There is no named batch with this name.' },
  method_not_allowed: {
    status: 405,
    meaning:
      'Method not allowed. The `Allow` header lists the allowed methods. Batches are sent with ' +
      '`POST /` or `POST /batches/<name>`.'
  },
  origin_forbidden: {
    status: 403,
    meaning: '`POST /mcp` was called by a web page whose origin `CORS_ORIGINS` does not list.'
  },
  not_streamable: {
    status: 406,
    meaning:
      'The request accepts `application/x-ndjson` and not JSON, but the rows of this batch ' +
      'cannot be streamed: it is not one select, or `MAX_STREAM_ROWS` is 0. The message states ' +
      'the reason. Accept `application/json` instead.'
  },
  request_timeout: { status: 408, meaning: 'The request was not received in time.' },
  body_too_large: {
    status: 413,
    meaning: 'The request body is larger than `MAX_BODY_BYTES`, or an upload is larger than 32 ' +
      'times as many bytes.'
  },
  too_many_ops: { status: 413, meaning: 'The batch contains more than `MAX_OPS` operations.' },
  too_much_work: {
    status: 413,
    meaning:
      'The batch has too many names, operators and references. Divide it, or send lists and rows ' +
      'instead of many conditions and operations.'
  },
  content_type_unsupported: {
    status: 415,
    meaning:
      'The body must be sent with `Content-Type: application/json`, in UTF-8 and without ' +
      'content encoding. With `MAX_UPLOAD_ROWS`, some named batches also take ' +
      '`application/x-ndjson` and `text/csv`.'
  },
  client_closed_request: {
    status: 499,
    meaning:
      'The client disconnected before the batch was sent to the database. Appears only in logs.'
  },
  expectation_unsupported: { status: 417, meaning: 'The `Expect` header is not `100-continue`.' },
  headers_too_large: { status: 431, meaning: 'The request headers are larger than 16 KiB.' }
})

const validationErrors = failuresOf('validation_error', {
  validation_failed: {
    status: 422,
    meaning:
      'Operations are invalid. `errors` lists every issue. The status is 403 when every issue ' +
      'is `schema_forbidden`.'
  },
  params_invalid: {
    status: 422,
    meaning: 'The parameters of a named batch are invalid. `errors` lists every issue.'
  }
})

const sessionErrors = failuresOf('session_error', {
  role_forbidden: { status: 403, meaning: 'The named batch is not for the role of the token.' },
  adhoc_forbidden: {
    status: 403,
    meaning: 'The role of the token may run named batches only (`ADHOC_BATCHES`).'
  },
  role_denied: {
    status: 403,
    meaning: 'The role of the token is not allowed. The log states the reason.'
  },
  session_changed: {
    status: 400,
    meaning:
      'A function or trigger of the database changed a setting on which the values of its own ' +
      'operation depend, or reset all settings. The message names the setting and the repair.'
  }
})

const executionErrors = failuresOf('execution_error', {
  reference_row_missing: {
    status: 422,
    meaning: 'A reference names a row that the earlier operation did not return.'
  },
  reference_column_missing: {
    status: 422,
    meaning: 'A reference names a column that the earlier operation did not return.'
  },
  expectation_failed: {
    status: 412,
    meaning: 'The number of rows that an operation affected or returned does not match `expect`.'
  },
  value_invalid: {
    status: 422,
    meaning:
      'A value does not fit its column, which would round or cut it or takes JSON of another ' +
      'shape. `errors` lists all such values of the request. Also `$append` to a value that is ' +
      'not an array, and `$merge` with a value that is not a jsonb object.'
  },
  rows_limit: {
    status: 422,
    meaning: 'An operation returned or changed more than `MAX_ROWS` rows, or more than ' +
      '`MAX_STREAM_ROWS` were to be streamed. In an upload, those that return none may change ' +
      '`MAX_UPLOAD_ROWS`.'
  },
  response_too_large: {
    status: 422,
    meaning: 'The rows of the response are larger than `MAX_RESPONSE_BYTES`, together.'
  },
  rows_ambiguous: {
    status: 422,
    meaning:
      'More than one row matched where one was required: several rows belong to a member with ' +
      '`one`, have the same key of `values`, or are rows of `from` that match one row of an update.'
  },
  key_duplicate: { status: 422, meaning: 'Two rows of `values` of an update have the same key.' },
  schema_fault: {
    status: 500,
    meaning:
      'A function, trigger, policy or view of the database is faulty, not the request. Nothing ' +
      'was committed. The log names the function.'
  }
})

const serviceErrors = failuresOf('service_error', {
  overloaded: {
    status: 503,
    meaning: 'All connections are busy, and the queue is full or the wait exceeded its limit. Or ' +
      'requests and responses fill `MAX_BYTES_IN_FLIGHT`, or too many large bodies wait.'
  },
  principal_busy: {
    status: 429,
    meaning:
      'As many batches of this principal run or wait as `PRINCIPAL_CONCURRENCY` allows. A ' +
      'principal is the role, issuer and subject of a token, or the role without one.'
  },
  database_unavailable: { status: 503, meaning: 'The database is unreachable or shutting down.' },
  keys_unavailable: {
    status: 503,
    meaning: 'The keys at `JWT_JWKS_URL` have not been fetched since the start.'
  },
  shutting_down: { status: 503, meaning: 'This instance is shutting down.' },
  deadline_exceeded: {
    status: 504,
    meaning: 'The request took longer than `REQUEST_TIMEOUT_MS`. Nothing was committed.'
  },
  commit_unknown: {
    status: 500,
    meaning: 'The connection was lost after COMMIT was sent: the batch may or may not be committed.'
  },
  internal: { status: 500, meaning: 'Internal error of the service. Nothing was committed.' }
})

export const catalogue = {
  ...requestErrors,
  ...validationErrors,
  ...sessionErrors,
  ...executionErrors,
  ...serviceErrors
}

export type FailureCode = keyof typeof catalogue

export type FailureDetails = Partial<
  Omit<ErrorObject, 'type' | 'code' | 'message' | 'committed' | 'request_id'>
>

/**
 * The only error class of the service. It is sent as the error envelope (schemas/error.ts) with its
 * `status`.
 */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly type!: ErrorType
  readonly code!: string
  readonly status!: number
  readonly details!: FailureDetails
  /** Why, for the log. Sent only with ERROR_VERBOSITY=verbose; see refuse. */
  readonly reason?: string

  constructor (init: Pick<Failure, 'type' | 'code' | 'status' | 'message' | 'details'>) {
    super(init.message)
    Object.assign(this, init)
  }

  /** `false`: nothing was committed. `'unknown'` only for `commit_unknown`. */
  get committed (): false | 'unknown' {
    return this.code === 'commit_unknown' ? 'unknown' : false
  }
}

/** Creates a failure of the catalogue. `message` defaults to the meaning of its code. */
export function failure (
  code: FailureCode,
  message = catalogue[code].meaning,
  details: FailureDetails = {}
): Failure {
  const { type, status } = catalogue[code]
  // The stack is never read, and capturing it took 6 % of all time under overload.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const created = new Failure({ type, code, status, message, details })
  Error.stackTraceLimit = stackTraceLimit
  return created
}

/**
 * Creates a failure whose reason is in the log and not in the response: it would tell a caller
 * which tokens are accepted. With ERROR_VERBOSITY=verbose it is the `hint` of the response.
 */
export function refuse (code: FailureCode, reason: string): Failure {
  return withReason(failure(code), reason)
}

export function withReason (failure: Failure, reason: string): Failure {
  return Object.assign(failure, { reason })
}

const MAX_LENGTH = 128

/**
 * A value of a token or of the configuration as JSON text for a reason. The text is cut after 128
 * characters. It is ASCII without control characters, so that it cannot change a terminal.
 */
export function quote (value: unknown): string {
  const text = JSON.stringify(value)
  const shown = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}...` : text
  return shown.replace(
    /[^ -~]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}
