/**
 * Reads an HTTP response: returns the results of a batch or throws an OneflightError. Distinguishes
 * responses of the service from those of proxies and other servers.
 */
import { OneflightError, type ErrorType, type OneflightErrorInit } from './error.ts'
import { readRetryAfter } from './headers.ts'

export interface BatchResponse {
  readonly status: number
  readonly statusText: string
  readonly headers: Headers
  readonly text: string
  /** The body of a stream, which is not read yet; null for every other response. */
  readonly body: ReadableStream<Uint8Array> | null
}

/** The state of a batch before the response to an attempt. */
export interface Context {
  readonly idempotencyKey: string | undefined
  readonly requestId: string | undefined
  readonly attempts: number
  readonly commitsNothing: boolean
  /** Whether an earlier attempt may have committed the batch. */
  readonly maybeCommitted: boolean
}

/** The `error` member of a response of the service. */
interface ServiceError extends Omit<
  OneflightErrorInit,
  'status' | 'requestId' | 'idempotencyKey' | 'attempts' | 'retryAfter' | 'cause'
> {
  readonly type: ErrorType
  readonly committed: false | 'unknown'
  readonly request_id?: string
}

interface ReadOptions {
  readonly parse: (text: string) => unknown
  /** Whether a response of rows would be a stream, which is not read here. */
  readonly streams: boolean
}

/** Returns the results by operation id. Throws OneflightError. */
export function readResponse (
  response: BatchResponse,
  { parse, streams }: ReadOptions,
  context: Context
): Readonly<Record<string, unknown>> {
  const { status, text } = response
  const body = tryParse(text, status === 200 ? parse : JSON.parse)
  if (status === 200 && isObject(body) && body['error'] === null && isObject(body['data'])) {
    if (!streams) return body['data']
  }
  if (status !== 200 && isObject(body) && isServiceError(body['error'])) {
    throw toServiceError(body['error'], response, context)
  }
  throw toForeignError(response, context)
}

/**
 * Reads the last line of a stream. Throws its error, or `answer_invalid` if it does not have the
 * number of rows: then it is a row, after which a proxy has cut the stream.
 */
export function readLastLine (
  line = '',
  { rows, headers, context }: {
    readonly rows: number,
    readonly headers: Headers,
    readonly context: Context
  }
): void {
  const end = tryParse(line, JSON.parse)
  if (isObject(end) && isServiceError(end['error'])) {
    throw toServiceError(end['error'], { status: 200, headers }, context)
  }
  const isComplete = isObject(end) && end['error'] === null && isObject(end['data']) &&
    Object.values(end['data'])[0] === rows
  if (isComplete) return
  throw toAttemptError({
    code: 'answer_invalid',
    message: 'The stream ended without its last line.',
    sent: true,
    retryable: true
  }, context)
}

/**
 * Creates the error of an attempt without a response of the service. `sent: false` requires
 * certainty that the service did not receive the batch.
 */
export function toAttemptError (
  init:
    & Pick<OneflightErrorInit, 'code' | 'message' | 'retryable' | 'cause' | 'status' | 'retryAfter'>
    & { readonly sent: boolean },
  context: Context
): OneflightError {
  const unknown = context.maybeCommitted || (init.sent && !context.commitsNothing)
  return new OneflightError({ ...context, ...init, committed: unknown ? 'unknown' : false })
}

/**
 * Creates the error that the service reports. If an earlier attempt may have committed, `committed`
 * stays `'unknown'` unless this error proves that none has: the service reports some errors only if
 * no attempt with the same key and body has committed. `idempotency_key_reused` proves nothing: the
 * earlier attempt may have had a token with other claims.
 */
function toServiceError (
  error: ServiceError,
  { status, headers }: Pick<BatchResponse, 'status' | 'headers'>,
  context: Context
): OneflightError {
  const provesNoCommit = error.type === 'validation_error' || error.type === 'execution_error'
  const retryable = status === 408 || status === 503 || error.code === 'commit_unknown'
  return new OneflightError({
    ...error,
    ...context,
    status,
    message: error.code === 'idempotency_key_invalid'
      ? `${error.message} ${KEY_ADVICE}`
      : error.message,
    committed: context.maybeCommitted && !provesNoCommit ? 'unknown' : error.committed,
    requestId: error.request_id,
    retryable: error.retryable ?? retryable,
    retryAfter: readRetryAfter(headers.get('retry-after'))
  })
}

const KEY_ADVICE =
  'The client sends a key with every batch that writes, so that it can retry the batch. ' +
  'Set { idempotency: false } to send no key.'

/**
 * Creates the error for a response that is not from the service, but for example from a proxy or
 * another server. A status from 400 to 499 means that the sender did not forward the request.
 */
function toForeignError (
  { status, statusText, headers, text }: BatchResponse,
  context: Context
): OneflightError {
  const type = headers.get('content-type')?.split(';', 1)[0] ?? 'no content type'
  const refused = status >= 400 && status < 500
  return toAttemptError({
    code: 'answer_invalid',
    message: `The response is not from the service: ${status}${
      statusText === '' ? '' : ` ${statusText}`
    }, ${type}, ${text.length} characters.`,
    status,
    sent: !refused,
    retryable: !refused || status === 408 || status === 429,
    retryAfter: readRetryAfter(headers.get('retry-after'))
  }, context)
}

function tryParse (text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

function isServiceError (value: unknown): value is ServiceError {
  return isObject(value) &&
    ['type', 'code', 'message'].every(name => typeof value[name] === 'string') &&
    (value['committed'] === false || value['committed'] === 'unknown')
}

function isObject (value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
