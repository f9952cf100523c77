/**
 * Options of a client and of a batch, and what is answered beside the rows. Types alone.
 */
import type { Answering } from './operation.ts'
import type { Numbers } from './values.ts'

/** What `fetch` has to be. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** A trace that the batch is part of (W3C Trace Context). */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

export interface RetryOptions {
  /** How often a batch is sent at most; 5 unless said otherwise, 1: never again. */
  readonly attempts?: number
  /**
   * Milliseconds of the first pause, which is doubled from one to the next; the pause itself is a
   * random part of it. 100 unless said otherwise.
   */
  readonly minDelay?: number
  /** Milliseconds of the longest pause; 5000 unless said otherwise. `Retry-After` comes on top. */
  readonly maxDelay?: number
}

/** What a client and each of its batches can be told; a batch has the last word. */
export interface CommonOptions {
  /**
   * Milliseconds for the whole batch, all attempts and pauses counted; 60 000 unless said
   * otherwise.
   */
  readonly timeout?: number
  /**
   * Milliseconds for one attempt; 35 000 unless said otherwise, for the service answers within 30
   * 000 (its `REQUEST_TIMEOUT_MS`).
   */
  readonly attemptTimeout?: number
  /** `false`: never again. */
  readonly retry?: RetryOptions | false
  /** `false`: no `Idempotency-Key` is sent, and a batch whose answer was lost is not sent again. */
  readonly idempotency?: boolean
  /** The trace that batches are part of, or a function that knows it. */
  readonly trace?: TraceContext | (() => TraceContext | undefined)
}

export interface ClientOptions extends CommonOptions {
  /** Where the service is: `https://batch.example.com`. */
  readonly url: string | URL
  /**
   * The caller's JWT, or a function that gives it and is asked before each attempt. Without one the
   * service's anonymous role runs the batch.
   */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>)
  /** Takes the place of the global `fetch`. */
  readonly fetch?: Fetch
  /** Headers beside those of the client, for a gateway in between for instance. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * What numbers are read as. `'number'` unless said otherwise: beyond 15 digits they are rounded.
   * `'bigint'`: nothing is lost; integers come as bigint, other numbers as their text.
   */
  readonly numbers?: Numbers
}

/** How one batch is run. */
export interface BatchOptions extends CommonOptions {
  /** Everything happens and is answered, and nothing stays. */
  readonly dryRun?: boolean
  /** Isolation level of the transaction; `read-committed` unless said otherwise. */
  readonly isolation?: 'read-committed' | 'repeatable-read' | 'serializable'
  /** Whatever would write or lock rows is refused; a standby may serve it. */
  readonly readOnly?: boolean
  /** `minimal`: the number of rows of each operation in the place of the rows. */
  readonly return?: 'representation' | 'minimal'
  /**
   * PostgreSQL's plan of each operation in the place of the rows; nothing is run. The service must
   * allow it.
   */
  readonly explain?: boolean
  /** Asks for `serverTiming`. */
  readonly timing?: boolean
  /**
   * The key of this intent, kept by the caller, so that the batch can be sent again after a crash.
   * A fresh one unless said otherwise.
   */
  readonly idempotencyKey?: string
  /** `X-Request-Id`: what the batch is called in the logs of the service. */
  readonly requestId?: string
  /** Ends the wait for an answer. */
  readonly signal?: AbortSignal
}

/** What a batch answers. */
export interface BatchResult<Data> {
  /** Rows in the shape of what the function of the batch returned. */
  readonly data: Data
  /** What the service's log has the batch under. */
  readonly requestId: string | undefined
  /** The key that was sent. */
  readonly idempotencyKey: string | undefined
  /**
   * Whether the batch had been committed before, under the same key; `data` is what was answered
   * then.
   */
  readonly replayed: boolean
  /**
   * Preferences that the service understood: `{ tx: 'rollback' }`; one without a value is `true`.
   */
  readonly preferenceApplied: Readonly<Record<string, string | true>>
  /** With `timing`. */
  readonly serverTiming: readonly ServerTiming[]
  /** How often the batch was sent. */
  readonly attempts: number
  /** Headers of the answer. */
  readonly headers: Headers
}

/** One entry of `Server-Timing`; durations in milliseconds. */
export interface ServerTiming {
  readonly name: string
  readonly duration?: number
  readonly description?: string
}

/** A plan as PostgreSQL explains it. */
export interface QueryPlan {
  readonly Plan: { readonly [property: string]: unknown }
}

/**
 * What the function of a batch may return: one operation, several in an array or an object, or
 * nothing.
 */
export type Shape = Answering<unknown> | ReadonlyArray<Answering<unknown>> | {
  readonly [id: string]: Answering<unknown>
} | void

/**
 * `data`: what the operations answer, in the shape in which the function of the batch returned
 * them.
 */
export type DataOf<Returned, Options> = Returned extends Answering<infer Answer>
  ? AnswerOf<Answer, Options>
  : Returned extends object ? {
    -readonly [Id in keyof Returned]: Returned[Id] extends Answering<infer Answer>
      ? AnswerOf<Answer, Options>
      : never
  }
    : undefined

type AnswerOf<Answer, Options> = Options extends { readonly explain: true } ? QueryPlan[]
  : Options extends { readonly return: 'minimal' } ? number
    : Answer
