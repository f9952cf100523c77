/**
 * OneflightError, the only error class of the client: for errors that the service reports, for
 * requests that failed, and for batches whose outcome is unknown.
 */

/**
 * The stage at which a batch failed: one of the service's types, or `client_error` without a
 * response of the service.
 */
export type ErrorType =
  | 'request_error'
  | 'validation_error'
  | 'session_error'
  | 'execution_error'
  | 'service_error'
  | 'client_error'

/**
 * Codes of errors without a response of the service:
 * - `batch_invalid`: the batch cannot be written; nothing was sent;
 * - `token_unavailable`: the token function failed; `cause` is its error;
 * - `network_error`: no response, or an incomplete one; `cause` is the error of `fetch`;
 * - `answer_invalid`: a response that is not from the service, for example from a proxy;
 * - `timeout`: no response within the time limit;
 * - `aborted`: the caller's signal was aborted; `cause` is its reason.
 */
export type ClientErrorCode =
  | 'batch_invalid'
  | 'token_unavailable'
  | 'network_error'
  | 'answer_invalid'
  | 'timeout'
  | 'aborted'

/** Codes of the service. */
export type ServiceErrorCode =
  | 'body_invalid'
  | 'body_empty'
  | 'id_missing'
  | 'id_duplicate'
  | 'prefer_invalid'
  | 'position_invalid'
  | 'idempotency_key_invalid'
  | 'idempotency_key_in_progress'
  | 'idempotency_key_reused'
  | 'http_malformed'
  | 'auth_required'
  | 'token_invalid'
  | 'token_expired'
  | 'token_not_active'
  | 'token_claims_invalid'
  | 'role_missing'
  | 'not_found'
  | 'method_not_allowed'
  | 'not_streamable'
  | 'request_timeout'
  | 'body_too_large'
  | 'too_many_ops'
  | 'too_much_work'
  | 'content_type_unsupported'
  | 'client_closed_request'
  | 'expectation_unsupported'
  | 'headers_too_large'
  | 'validation_failed'
  | 'role_denied'
  | 'session_changed'
  | 'reference_row_missing'
  | 'reference_column_missing'
  | 'expectation_failed'
  | 'value_invalid'
  | 'rows_limit'
  | 'response_too_large'
  | 'rows_ambiguous'
  | 'key_duplicate'
  | 'schema_fault'
  | 'params_invalid'
  | 'role_forbidden'
  | 'adhoc_forbidden'
  | 'batch_unknown'
  | 'origin_forbidden'
  | 'overloaded'
  | 'principal_busy'
  | 'database_unavailable'
  | 'keys_unavailable'
  | 'shutting_down'
  | 'deadline_exceeded'
  | 'commit_unknown'
  | 'internal'

/** The most common PostgreSQL conditions. Every other condition has its own name as code, too. */
export type PostgresErrorCode =
  | 'unique_violation'
  | 'foreign_key_violation'
  | 'check_violation'
  | 'not_null_violation'
  | 'exclusion_violation'
  | 'restrict_violation'
  | 'insufficient_privilege'
  | 'undefined_table'
  | 'undefined_column'
  | 'invalid_text_representation'
  | 'numeric_value_out_of_range'
  | 'serialization_failure'
  | 'deadlock_detected'
  | 'lock_not_available'
  | 'query_canceled'
  | 'read_only_sql_transaction'
  | 'raise_exception'

/** Known codes, for editor completion. Other codes are possible. */
export type ErrorCode =
  | ClientErrorCode
  | ServiceErrorCode
  | PostgresErrorCode
  | (string & Record<never, never>)

/**
 * An issue in one operation, or with `params_invalid` in the parameters of a named batch, which has
 * only `path` and `message`.
 */
export interface Issue {
  readonly op?: string
  /** Position of the operation in the batch. */
  readonly index?: number
  readonly code?: string
  /** The path within the operation or the parameters; positions in arrays are numbers. */
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/** Members of the service's error object, and those that the client adds. */
export type OneflightErrorInit =
  & Pick<OneflightError, 'code' | 'message'>
  & {
    readonly [Name in Exclude<keyof OneflightError, 'op' | 'index'>]?:
      | OneflightError[Name]
      | undefined
  }
  & { readonly op?: string | null | undefined, readonly index?: number | null | undefined }

/**
 * The error that `client.batch` and `client.run` reject with. Errors of the caller's function pass
 * unchanged.
 */
export class OneflightError extends Error {
  override readonly name = 'OneflightError'
  readonly type: ErrorType
  readonly code: ErrorCode
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined
  /**
   * `false`: nothing of the batch is in the database. `'unknown'`: the outcome is unknown; send the
   * batch again with `idempotencyKey`.
   */
  readonly committed: false | 'unknown'
  /** The id of the request in the service's log. */
  readonly requestId: string | undefined
  /** The key that was sent. A batch is applied once per key, however often it is sent. */
  readonly idempotencyKey: string | undefined
  /** The number of attempts. */
  readonly attempts: number
  /**
   * The id of the failed operation: its name (`as`), or its path in the return value of the batch
   * function, joined with `_`. Without either it is `op` and its position.
   */
  readonly op: string | undefined
  /** The position of the failed operation in the batch. */
  readonly index: number | undefined
  readonly sqlstate: string | undefined
  readonly constraint: string | undefined
  /**
   * What fails, if it is known: a value, a name, a reference, or the row of `values`,
   * `['values', 3]`.
   */
  readonly path: ReadonlyArray<string | number> | undefined
  /**
   * With `idempotency_key_reused`: what differs from the committed batch with the key, the batch
   * itself or the claims of the token.
   */
  readonly differs: 'request' | 'claims' | undefined
  /** The first faulty line of an upload, from 1. */
  readonly line: number | undefined
  /** Whether the same batch may succeed when it is sent again. */
  readonly retryable: boolean
  /** Milliseconds to wait before the next attempt, from `Retry-After`; 0 without the header. */
  readonly retryAfter: number
  readonly detail: string | undefined
  readonly hint: string | undefined
  /**
   * All issues of all operations with `validation_failed`, or of the parameters with
   * `params_invalid`; otherwise empty.
   */
  readonly errors: readonly Issue[]

  constructor (init: OneflightErrorInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause })
    this.type = init.type ?? 'client_error'
    this.code = init.code
    this.status = init.status
    this.committed = init.committed ?? false
    this.requestId = init.requestId
    this.idempotencyKey = init.idempotencyKey
    this.attempts = init.attempts ?? 0
    this.op = init.op ?? undefined
    this.index = init.index ?? undefined
    this.sqlstate = init.sqlstate
    this.constraint = init.constraint
    this.path = init.path
    this.differs = init.differs
    this.line = init.line
    this.retryable = init.retryable ?? false
    this.retryAfter = init.retryAfter ?? 0
    this.detail = init.detail
    this.hint = init.hint
    this.errors = init.errors ?? []
  }
}
