/**
 * An answer over HTTP → rows or an error. In charge of telling the service's answers from those of
 * others in between.
 */
import { OneflightError, type ErrorType, type Fault, type OneflightErrorInit } from './error.ts'
import { readRetryAfter } from './headers.ts'

/** An answer whose body has arrived. */
export interface Answer {
  readonly status: number
  readonly statusText: string
  readonly headers: Headers
  readonly text: string
}

/** What is known of a batch beside its answer. */
export interface Context {
  readonly idempotencyKey: string | undefined
  readonly requestId: string | undefined
  readonly attempts: number
  /** Whether the batch can commit nothing. */
  readonly harmless: boolean
  /** Whether an earlier attempt may have committed the batch. */
  readonly doubt: boolean
}

/** The error object of the service's envelope. */
interface ServiceError {
  readonly type: ErrorType
  readonly code: string
  readonly message: string
  readonly committed: false | 'unknown'
  readonly request_id?: string
  readonly retryable?: boolean
  readonly op?: string | null
  readonly index?: number | null
  readonly sqlstate?: string
  readonly constraint?: string
  readonly detail?: string
  readonly hint?: string
  readonly errors?: readonly Fault[]
}

/** The data of an answer by operation. Throws OneflightError. */
export function readAnswer (
  answer: Answer,
  parse: (text: string) => unknown,
  context: Context
): Readonly<Record<string, unknown>> {
  const body = tryParse(answer.text, answer.status === 200 ? parse : JSON.parse)
  if (answer.status === 200 && isObject(body) && body['error'] === null && isObject(body['data'])) {
    return body['data']
  }
  if (answer.status !== 200 && isObject(body) && isServiceError(body['error'])) {
    throw refusal(body['error'], answer, context)
  }
  throw foreign(answer, context)
}

/**
 * The error of an attempt that has no answer of the service; `sent: false` is said only when it is
 * certain.
 */
export function lost (
  init:
    & Pick<OneflightErrorInit, 'code' | 'message' | 'retryable' | 'cause' | 'status' | 'retryAfter'>
    & { readonly sent: boolean },
  context: Context
): OneflightError {
  const committed = context.doubt || (init.sent && !context.harmless) ? 'unknown' : false
  return new OneflightError({ ...context, ...init, committed })
}

/**
 * What the service says. Doubts that an earlier attempt left are settled by what only a batch that
 * holds its key can be told.
 */
function refusal (
  error: ServiceError,
  { status, headers }: Answer,
  context: Context
): OneflightError {
  const settled = error.type === 'validation_error' || error.type === 'execution_error' ||
    error.code === 'idempotency_key_reused'
  const again = status === 408 || status === 503 || error.code === 'commit_unknown'
  return new OneflightError({
    ...error,
    ...context,
    status,
    message: error.code === 'idempotency_key_invalid'
      ? `${error.message} ${withoutKeys}`
      : error.message,
    committed: context.doubt && !settled ? 'unknown' : error.committed,
    requestId: error.request_id,
    retryable: error.retryable ?? again,
    retryAfter: readRetryAfter(headers.get('retry-after'))
  })
}

const withoutKeys =
  'The client sends a key with every batch that writes, so that it can be sent again; { ' +
  'idempotency: false } switches that off.'

/**
 * An answer of somebody else: of a proxy that reached nobody, of another server. What it refused
 * itself it did not pass on.
 */
function foreign ({ status, statusText, headers, text }: Answer, context: Context): OneflightError {
  const type = headers.get('content-type')?.split(';', 1)[0] ?? 'no content type'
  const refused = status >= 400 && status < 500
  return lost({
    code: 'answer_invalid',
    message: `The answer is none of the service: ${status}${
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
