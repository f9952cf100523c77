/**
 * Sends a batch over HTTP, with retries, delays and timeouts. A batch that may have been committed
 * is retried only with its idempotency key.
 */
import type { OneflightError } from './error.ts'
import { NDJSON } from './headers.ts'
import type { Fetch } from './options.ts'
import { readResponse, toAttemptError, type BatchResponse, type Context } from './response.ts'
import { limit, pause, type Limits } from './time.ts'
import type { UploadBody } from './upload.ts'

/** A batch that is ready to be sent. All attempts send the same body. */
export interface PreparedBatch {
  readonly url: string
  readonly fetch: Fetch
  /** The headers without the token. */
  readonly headers: Readonly<Record<string, string>>
  /** The text of the body, or a function that begins to write it again. */
  readonly body: string | (() => UploadBody)
  readonly token: string | undefined | (() => string | undefined | Promise<string | undefined>)
  readonly idempotencyKey: string | undefined
  readonly requestId: string | undefined
  /** Whether the batch cannot commit anything. Its outcome is never unknown then. */
  readonly commitsNothing: boolean
  /** Whether the rows are read as a stream. `parse` then reads one row. */
  readonly streams: boolean
  /** Parses the text of a response. Throws if it is not JSON. */
  readonly parse: (text: string) => unknown
  readonly signal: AbortSignal | undefined
  /** All times are in milliseconds. */
  readonly timeout: number
  readonly attemptTimeout: number
  readonly attempts: number
  readonly minDelay: number
  readonly maxDelay: number
}

export interface SendResult {
  readonly data: Readonly<Record<string, unknown>>
  readonly headers: Headers
  readonly attempts: number
  /** The body of a stream, which is not read yet; null for every other response. */
  readonly body: ReadableStream<Uint8Array> | null
  readonly context: Context
}

/** An attempt needs at least this much time (ms). */
const MIN_ATTEMPT_MS = 1

/** Sends a batch, with retries. Throws OneflightError. */
export async function send (batch: PreparedBatch): Promise<SendResult> {
  const deadline = performance.now() + batch.timeout
  const { idempotencyKey, requestId, commitsNothing } = batch
  let context: Context = {
    idempotencyKey,
    requestId,
    commitsNothing,
    attempts: 0,
    maybeCommitted: false
  }
  let renewed = false
  for (;;) {
    const token = await readToken(batch, deadline, context)
    context = { ...context, attempts: context.attempts + 1 }
    const outcome = await attempt(batch, { token, deadline, context })
    if ('data' in outcome) return outcome
    const renewable: boolean = outcome.code === 'token_expired' &&
      typeof batch.token === 'function' && !renewed
    const ms = retryDelay(outcome, batch)
    if (
      !isRetryable(outcome, renewable) || context.attempts >= batch.attempts ||
      performance.now() + ms + MIN_ATTEMPT_MS > deadline
    ) throw outcome
    renewed ||= renewable
    context = { ...context, maybeCommitted: outcome.committed === 'unknown' }
    await limit(signal => pause(ms, signal), limitsOf(batch, context, { ms: Infinity }))
  }
}

/** Makes one attempt. Returns its error instead of throwing it, because it may be retried. */
async function attempt (
  batch: PreparedBatch,
  { token, deadline, context }: {
    readonly token: string | undefined,
    readonly deadline: number,
    readonly context: Context
  }
): Promise<SendResult | OneflightError> {
  let sent = false
  const post = async (signal: AbortSignal): Promise<BatchResponse> => {
    const { url, fetch, streams } = batch
    const body = typeof batch.body === 'string' ? batch.body : batch.body()
    const headers = token === undefined
      ? batch.headers
      : { ...batch.headers, authorization: `Bearer ${token}` }
    sent = true
    try {
      const response = await fetch(url, { method: 'POST', headers, signal, ...initOf(body) })
      const isStream = streams && response.status === 200 &&
        response.headers.get('content-type')?.startsWith(NDJSON) === true
      const received = {
        status: response.status,
        statusText: response.statusText,
        headers: response.headers,
        text: isStream ? '' : await response.text(),
        body: isStream ? response.body : null
      }
      endBody(body)
      return received
    } catch (cause) {
      endBody(body)
      const failure = typeof body === 'string' ? undefined : body.failure()
      // The service runs nothing before the end of the body.
      if (failure !== undefined) throw failure.cause
      throw toAttemptError({
        code: 'network_error',
        message: `The request failed: ${describe(cause)}.`,
        cause,
        retryable: true,
        sent: !UNSENT.has(codeOf(cause) ?? '')
      }, context)
    }
  }
  try {
    const ms = Math.min(batch.attemptTimeout, deadline - performance.now())
    const response = await limit(post, limitsOf(batch, context, { ms, isSent: () => sent }))
    const { headers, body } = response
    return {
      data: body === null ? readResponse(response, batch, context) : {},
      headers,
      attempts: context.attempts,
      body,
      context
    }
  } catch (error) {
    return error as OneflightError
  }
}

/** `duplex` is missing in the types of DOM. */
function initOf (body: string | UploadBody): RequestInit {
  return typeof body === 'string' ? { body } : { body: body.stream, duplex: 'half' } as RequestInit
}

function endBody (body: string | UploadBody): void {
  if (typeof body === 'object') body.end()
}

/** A batch with an unknown outcome is retried only if it has a key. */
function isRetryable (
  { code, committed, retryable, idempotencyKey }: OneflightError,
  renewable: boolean
): boolean {
  if (code === 'aborted' || (committed === 'unknown' && idempotencyKey === undefined)) return false
  return retryable || renewable
}

/**
 * Returns `Retry-After` plus a random part of a delay that doubles with each attempt. The random
 * part keeps clients that were refused together from retrying together.
 */
function retryDelay (
  { attempts, retryAfter }: OneflightError,
  { minDelay, maxDelay }: PreparedBatch
): number {
  return retryAfter + Math.random() * Math.min(minDelay * 2 ** (attempts - 1), maxDelay)
}

async function readToken (
  batch: PreparedBatch,
  deadline: number,
  context: Context
): Promise<string | undefined> {
  const { token } = batch
  const read = async (): Promise<string | undefined> => {
    try {
      return typeof token === 'function' ? await token() : token
    } catch (cause) {
      throw toAttemptError({
        code: 'token_unavailable',
        message: `The token function failed: ${describe(cause)}.`,
        cause,
        sent: false
      }, context)
    }
  }
  return limit(read, limitsOf(batch, context, { ms: deadline - performance.now() }))
}

function limitsOf (
  { signal }: PreparedBatch,
  context: Context,
  { ms, isSent = () => false }: { readonly ms: number, readonly isSent?: () => boolean }
): Limits {
  return {
    ms,
    signal,
    onTimeout: () =>
      toAttemptError({
        code: 'timeout',
        message: 'No response within the time limit.',
        retryable: true,
        sent: isSent()
      }, context),
    onAbort: cause =>
      toAttemptError(
        { code: 'aborted', message: 'The batch was aborted.', cause, sent: isSent() },
        context
      )
  }
}

/**
 * Codes of connections that Node could not open: no byte of the batch was sent. Browsers do not
 * report such codes.
 */
const UNSENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])

/** Describes an error. For errors of `fetch`, the code of the cause says most. */
export function describe (cause: unknown): string {
  const code = codeOf(cause)
  return `${cause instanceof Error ? cause.message : String(cause)}${
    code === undefined ? '' : ` (${code})`
  }`
}

function codeOf (error: unknown): string | undefined {
  const code = (error as { readonly cause?: { readonly code?: unknown } } | undefined)?.cause?.code
  return typeof code === 'string' ? code : undefined
}
