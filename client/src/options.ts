/**
 * Types of the options of a client and of a batch, and of the result of a batch.
 */
import type { HasResult } from './operation.ts'
import type { Numbers, ResultRow } from './values.ts'

/** The type of `fetch` that the client requires. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** The trace that a batch belongs to (W3C Trace Context). */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

export interface RetryOptions {
  /** Maximum number of attempts. Default: 5. 1 disables retries. */
  readonly attempts?: number
  /**
   * Upper bound of the first delay, in milliseconds. It doubles with each attempt, and the delay is
   * a random part of it. Default: 100.
   */
  readonly minDelay?: number
  /** Maximum delay in milliseconds, without `Retry-After`, which is added. Default: 5000. */
  readonly maxDelay?: number
}

/** Options of a client that each batch can override. */
export interface CommonOptions {
  /** Timeout of a batch with all attempts and delays, in milliseconds. Default: 60 000. */
  readonly timeout?: number
  /**
   * Timeout of one attempt, in milliseconds. Default: 35 000, because the service responds within
   * 30 000 (its `REQUEST_TIMEOUT_MS`).
   */
  readonly attemptTimeout?: number
  /** `false` disables retries. */
  readonly retry?: RetryOptions | false
  /** `false` sends no `Idempotency-Key`. A batch with an unknown outcome is not retried then. */
  readonly idempotency?: boolean
  /** The trace that batches belong to, or a function that returns it. */
  readonly trace?: TraceContext | (() => TraceContext | undefined)
}

export interface ClientOptions extends CommonOptions {
  /** URL of the service, for example `https://batch.example.com`. */
  readonly url: string | URL
  /**
   * The caller's JWT, or a function that returns it and is called before each attempt. Without a
   * token, the service's anonymous role runs the batch.
   */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>)
  /** Replaces the global `fetch`. */
  readonly fetch?: Fetch
  /** Additional headers, for example for a gateway. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * The type of numbers in results. `'number'` (default): JavaScript numbers, rounded beyond 15
   * digits. `'bigint'`: all digits; integers are bigints, and other numbers are strings.
   */
  readonly numbers?: Numbers
}

/** Options of one batch. */
export interface BatchOptions extends CommonOptions {
  /** Runs the batch, returns its rows and rolls it back. */
  readonly dryRun?: boolean
  /** Isolation level of the transaction. Default: `read-committed`. */
  readonly isolation?: 'read-committed' | 'repeatable-read' | 'serializable'
  /** Refuses operations that write or lock rows. A standby may serve the batch. */
  readonly readOnly?: boolean
  /** `minimal` returns the row count of each operation instead of its rows. */
  readonly return?: 'representation' | 'minimal'
  /** Returns PostgreSQL's plans and runs nothing. The service must have `EXPLAIN=on`. */
  readonly explain?: boolean
  /** Requests `serverTiming`. */
  readonly timing?: boolean
  /**
   * The idempotency key. Store it to send the same batch again after a crash of the caller.
   * Default: a new UUID.
   */
  readonly idempotencyKey?: string
  /**
   * The `position` of an earlier result, for `readOnly`: a standby that serves the batch shows what
   * was committed before.
   */
  readonly position?: string | undefined
  /** `X-Request-Id`: the id of the request in the logs of the service. */
  readonly requestId?: string
  /** Aborts the batch. */
  readonly signal?: AbortSignal
}

/**
 * Options of a stream. The timeouts end when the response begins. A stream is sent again only if
 * there was no row.
 */
export type StreamOptions = Pick<
  BatchOptions,
  | 'attemptTimeout'
  | 'isolation'
  | 'position'
  | 'requestId'
  | 'retry'
  | 'signal'
  | 'timeout'
  | 'trace'
>

/** Options of an upload. */
export interface UploadOptions extends BatchOptions {
  /** The parameters of the batch beside the rows. */
  readonly params?: Readonly<Record<string, string | number | bigint | boolean>>
}

/** The result of a batch. */
export interface BatchResult<Data> {
  /** The results of the operations, in the shape of the return value of the batch function. */
  readonly data: Data
  /** The id of the request in the service's log. */
  readonly requestId: string | undefined
  /** The key that was sent, if any. */
  readonly idempotencyKey: string | undefined
  /**
   * Whether the batch was committed before with the same key. `data` is the result of that attempt.
   */
  readonly replayed: boolean
  /**
   * The id of the transaction, 64 bits as a decimal number. Undefined if the batch only read, or if
   * a proxy removed the header.
   */
  readonly txid: string | undefined
  /** The low 32 bits of `txid`, which logical replication sends with the transaction. */
  readonly xid: number | undefined
  /**
   * The position of the database after the batch, for reads that must see it on a standby.
   * Undefined if the service has no standby.
   */
  readonly position: string | undefined
  /**
   * The preferences that the service applied: `{ tx: 'rollback' }`. A preference without a value is
   * `true`.
   */
  readonly preferenceApplied: Readonly<Record<string, string | true>>
  /** The entries of `Server-Timing`; empty without `timing`. */
  readonly serverTiming: readonly ServerTiming[]
  /** The number of attempts. */
  readonly attempts: number
  /** The headers of the response. */
  readonly headers: Headers
}

/** One entry of `Server-Timing`; durations in milliseconds. */
export interface ServerTiming {
  readonly name: string
  readonly duration?: number
  readonly description?: string
}

/** A query plan of PostgreSQL's EXPLAIN in JSON format. */
export interface QueryPlan {
  readonly Plan: { readonly [property: string]: unknown }
}

/**
 * The return value of a batch function: one operation, several in arrays and objects of any depth,
 * or nothing.
 */
export type Shape = Nested | void

type Nested = HasResult<unknown> | readonly Nested[] | { readonly [name: string]: Nested }

/**
 * The type of `data`: the results of the operations, in the shape of the return value of the batch
 * function.
 */
export type DataOf<Returned, Options> = Returned extends HasResult<infer Result>
  ? ResultOf<Result, Options>
  : Returned extends object
    ? { -readonly [Name in keyof Returned]: DataOf<Returned[Name], Options> }
    : undefined

/** Named batches, as `oneflight types` writes them: parameters and results by name. */
export interface AnyBatches {
  readonly [name: string]: {
    readonly params: { readonly [name: string]: unknown },
    readonly result: { readonly [id: string]: unknown }
  }
}

/** The parameters of a named batch. */
export type ParamsOf<Batches, Name extends keyof Batches> = Batches[Name] extends
{ readonly params: infer Params } ? Params : never

/** The results of a named batch by operation id. */
export type NamedData<
  Batches,
  Name extends keyof Batches,
  Options,
  Mode extends Numbers
> = Batches[Name] extends { readonly result: infer Results }
  ? { [Id in keyof Results]: ResultOf<NamedRows<Results[Id], Mode>, Options> }
  : never

/** A row of the only operation of a named batch. */
export type NamedRow<Batches, Name extends keyof Batches, Mode extends Numbers> =
  Batches[Name] extends { readonly result: infer Results }
    ? NamedRows<Results[keyof Results], Mode> extends ReadonlyArray<infer Row> ? Row : never
    : never

/** The rows of an operation, with the numbers of the client. */
type NamedRows<Result, Mode extends Numbers> = Result extends readonly unknown[]
  ? { [Row in keyof Result]: ResultRow<Result[Row], Mode> }
  : Result

type ResultOf<Result, Options> = Options extends { readonly explain: true } ? QueryPlan[]
  : Options extends { readonly return: 'minimal' } ? number | Extract<Result, null>
    : Result
