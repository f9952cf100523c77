/**
 * A batch over HTTP, until its answer is final. In charge of attempts, pauses and time. What may be
 * sent again goes by what is known of its COMMIT: what is in doubt is sent again under its key
 * alone.
 */
import { lost, readAnswer, type Answer, type Context } from './answer.ts'
import type { OneflightError } from './error.ts'
import type { Fetch } from './options.ts'
import { limit, pause, type Limits } from './time.ts'

/** Everything that an attempt needs; the body is the same, byte for byte, at each. */
export interface Sending {
  readonly url: string
  readonly fetch: Fetch
  /** Without the token. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly token: string | undefined | (() => string | undefined | Promise<string | undefined>)
  readonly idempotencyKey: string | undefined
  readonly requestId: string | undefined
  /** Whether the batch can commit nothing, so that nothing of it is ever in doubt. */
  readonly harmless: boolean
  /** The text of an answer → its value; throws when it is none. */
  readonly parse: (text: string) => unknown
  readonly signal: AbortSignal | undefined
  /** Milliseconds. */
  readonly timeout: number
  readonly attemptTimeout: number
  readonly attempts: number
  readonly minDelay: number
  readonly maxDelay: number
}

/** The last answer. */
export interface Sent {
  /** What the operations answered, by id. */
  readonly data: Readonly<Record<string, unknown>>
  readonly headers: Headers
  readonly attempts: number
}

/** With less time than this an attempt is not begun. */
const MIN_ATTEMPT_MS = 1

/** Sends until the answer is final. Throws OneflightError. */
export async function send (sending: Sending): Promise<Sent> {
  const ends = performance.now() + sending.timeout
  const { idempotencyKey, requestId, harmless } = sending
  let context: Context = { idempotencyKey, requestId, harmless, attempts: 0, doubt: false }
  let renewed = false
  for (;;) {
    const token = await readToken(sending, ends, context)
    context = { ...context, attempts: context.attempts + 1 }
    const outcome = await attempt(sending, { token, ends, context })
    if ('data' in outcome) return outcome
    const renewable: boolean = outcome.code === 'token_expired' &&
      typeof sending.token === 'function' && !renewed
    const ms = pauseBefore(outcome, sending)
    if (
      !mayRepeat(outcome, renewable) || context.attempts >= sending.attempts ||
      performance.now() + ms + MIN_ATTEMPT_MS > ends
    ) throw outcome
    renewed ||= renewable
    context = { ...context, doubt: outcome.committed === 'unknown' }
    await limit(signal => pause(ms, signal), limitsOf(sending, context, Infinity))
  }
}

/** One attempt; its error is answered, for it may not be the last word. */
async function attempt (
  sending: Sending,
  { token, ends, context }: {
    readonly token: string | undefined,
    readonly ends: number,
    readonly context: Context
  }
): Promise<Sent | OneflightError> {
  let sent = false
  const ask = async (signal: AbortSignal): Promise<Answer> => {
    const { url, fetch, body } = sending
    const headers = token === undefined
      ? sending.headers
      : { ...sending.headers, authorization: `Bearer ${token}` }
    sent = true
    try {
      const response = await fetch(url, { method: 'POST', headers, body, signal })
      return {
        status: response.status,
        statusText: response.statusText,
        headers: response.headers,
        text: await response.text()
      }
    } catch (cause) {
      throw lost({
        code: 'network_error',
        message: `There is no answer: ${describe(cause)}.`,
        cause,
        retryable: true,
        sent: !isUnsent(cause)
      }, context)
    }
  }
  try {
    const answer = await limit(
      ask,
      limitsOf(
        sending,
        context,
        Math.min(sending.attemptTimeout, ends - performance.now()),
        () => sent
      )
    )
    return {
      data: readAnswer(answer, sending.parse, context),
      headers: answer.headers,
      attempts: context.attempts
    }
  } catch (error) {
    return error as OneflightError
  }
}

/** What is in doubt is sent again under its key alone, and without one never. */
function mayRepeat (
  { code, committed, retryable, idempotencyKey }: OneflightError,
  renewable: boolean
): boolean {
  if (code === 'aborted' || (committed === 'unknown' && idempotencyKey === undefined)) return false
  return retryable || renewable
}

/**
 * A random part of a time that doubles, so that clients which were refused together do not come
 * back together; `Retry-After` comes on top.
 */
function pauseBefore (
  { attempts, retryAfter }: OneflightError,
  { minDelay, maxDelay }: Sending
): number {
  return retryAfter + Math.random() * Math.min(minDelay * 2 ** (attempts - 1), maxDelay)
}

/** The token of the next attempt. */
async function readToken (
  sending: Sending,
  ends: number,
  context: Context
): Promise<string | undefined> {
  const { token } = sending
  const ask = async (): Promise<string | undefined> => {
    try {
      return typeof token === 'function' ? await token() : token
    } catch (cause) {
      throw lost({
        code: 'token_unavailable',
        message: `There is no token: ${describe(cause)}.`,
        cause,
        sent: false
      }, context)
    }
  }
  return limit(ask, limitsOf(sending, context, ends - performance.now()))
}

function limitsOf (
  { signal }: Sending,
  context: Context,
  ms: number,
  isSent = () => false
): Limits {
  return {
    ms,
    signal,
    onTimeout: () =>
      lost({
        code: 'timeout',
        message: 'There was no answer in time.',
        retryable: true,
        sent: isSent()
      }, context),
    onAbort: cause =>
      lost({ code: 'aborted', message: 'The batch was aborted.', cause, sent: isSent() }, context)
  }
}

/** Codes of Node's connections that were never made. A browser does not tell. */
const unsent = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])

/** Whether it is certain that not a byte of the batch was sent. */
function isUnsent (cause: unknown): boolean {
  return unsent.has(codeOf(cause) ?? '')
}

/** An error in words. Those of `fetch` say most in the code of their cause. */
function describe (cause: unknown): string {
  const code = codeOf(cause)
  return `${cause instanceof Error ? cause.message : String(cause)}${
    code === undefined ? '' : ` (${code})`
  }`
}

function codeOf (error: unknown): string | undefined {
  const code = (error as { readonly cause?: { readonly code?: unknown } } | undefined)?.cause?.code
  return typeof code === 'string' ? code : undefined
}
