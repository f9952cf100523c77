/**
 * Failure → the envelope of the contract and the headers that belong to it.
 */
import type { ErrorObject } from '../../schemas/error.ts'
import { catalogue, type Failure } from './catalogue.ts'

export interface FailureAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string
}

/** The whole answer to a request that failed. `X-Request-Id` is among the headers. */
export function answerFailure (failure: Failure, requestId: string): FailureAnswer {
  const error: ErrorObject = {
    type: failure.type,
    code: failure.code,
    message: failure.message,
    committed: failure.committed,
    request_id: requestId,
    ...(failure.status === 503 ? { retryable: true } : {}),
    ...failure.details
  }
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

/**
 * RFC 6750 §3: without a token the challenge names no error. RFC 9110 §10.2.3 for Retry-After, in
 * seconds.
 */
function headersOf ({ code, status }: Failure): Record<string, string> {
  if (status === 401) {
    return {
      'www-authenticate': code in catalogue && code !== 'auth_required'
        ? 'Bearer error="invalid_token"'
        : 'Bearer'
    }
  }
  return status === 503 ? { 'retry-after': '1' } : {}
}
