/**
 * Renders a failure as the response of the main server: status, headers and error envelope.
 */
import type { ErrorObject } from '../../schemas/error.ts'
import { catalogue, type Failure } from './catalogue.ts'

export interface FailureAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string
}

/**
 * Returns the response to a request that has failed, and keeps its failure for the log. Any error
 * that is no failure is an internal one.
 */
export type DescribeFailure<Request> = (error: unknown, request: Request) => FailureAnswer

/**
 * The complete response to a failed request, including the `X-Request-Id` header. `verbose`: with
 * the reason that is otherwise only in the log, as `hint`.
 */
export function answerFailure (
  failure: Failure,
  requestId: string,
  verbose = false
): FailureAnswer {
  const error = toErrorObject(failure, requestId, verbose)
  return {
    status: failure.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': requestId,
      ...headersOf(failure)
    },
    body: JSON.stringify({ error, data: null })
  }
}

/** The error object of the envelope; see answerFailure. */
export function toErrorObject (
  failure: Failure,
  requestId: string,
  verbose: boolean
): ErrorObject {
  return {
    type: failure.type,
    code: failure.code,
    message: failure.message,
    committed: failure.committed,
    request_id: requestId,
    ...(isTemporary(failure) ? { retryable: true } : {}),
    ...failure.details,
    ...(verbose && failure.reason !== undefined ? { hint: failure.reason } : {})
  }
}

/**
 * `WWW-Authenticate` (RFC 6750 §3: no error code without a token) and `Retry-After` (RFC 9110
 * §10.2.3, in seconds).
 */
function headersOf (failure: Failure): Record<string, string> {
  const { code, status } = failure
  if (status === 401) {
    return {
      'www-authenticate': code in catalogue && code !== 'auth_required'
        ? 'Bearer error="invalid_token"'
        : 'Bearer'
    }
  }
  return isTemporary(failure) ? { 'retry-after': '1' } : {}
}

/** Whether the service refused a request that it may accept soon. */
function isTemporary ({ status }: Failure): boolean {
  return status === 503 || status === 429
}

/**
 * Describes each issue of a batch, `operation 1 (order): member_unknown at wheer: Unknown member
 * …`, and returns it with its path from the root; an empty one: it has none.
 */
export function describeBatchIssues (
  { errors, op, index, code, message }: Pick<
    ErrorObject,
    'errors' | 'op' | 'index' | 'code' | 'message'
  >
) {
  const issues = errors ?? [{ op, index, code, message }]
  return issues.map(({ op, index, code, message, ...issue }) => {
    const path = 'path' in issue ? issue.path : []
    const at = path.length === 0 ? '' : ` at ${describePath(path)}`
    const name = typeof op === 'string' ? ` (${op})` : ''
    return typeof index === 'number'
      ? { path: [index, ...path], message: `operation ${index}${name}: ${code}${at}: ${message}` }
      : { path: [], message: `${code}: ${message}` }
  })
}

/** `where.total.gte`, `values[0].sku`, `where["data->a"]`. */
export function describePath (path: ReadonlyArray<string | number>): string {
  return path.map(step => {
    if (typeof step === 'string' && /^[\w$]+$/.test(step)) return `.${step}`
    return `[${JSON.stringify(step)}]`
  }).join('').replace(/^\./, '')
}
