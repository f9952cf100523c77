/**
 * How an attempt to run a batch can end, and how the batch can end.
 */
import type { DatabaseError } from '../errors/database-error.ts'
import type { NamedPart } from '../plan/plan.ts'
import type { TransactionId } from '../sql/frame/server-state.ts'
import type { Place } from '../sql/frame/steps.ts'
import type { RaisedError } from '../sql/statement/raised-error.ts'
import type { RefusedValue, SlotPlace } from '../sql/statement/slot.ts'

/** How one attempt ended. */
export type AttemptOutcome = Committed | Failed | Lost

/** How the batch ended, after all attempts. */
export type BatchOutcome = Committed | Failed | Unknown

/** Every statement was answered, including the last: COMMIT, or the ROLLBACK of a dry run. */
export interface Committed {
  readonly kind: 'committed'
  /** One JSON text for each operation, as PostgreSQL rendered it. */
  readonly rows: readonly Buffer[]
  /** The rows are those of an earlier request with the same idempotency key; nothing ran now. */
  readonly replayed?: boolean
  /** The id of the transaction, with its epoch; undefined: the batch could not write. */
  readonly txid?: string | undefined
  /** The position after COMMIT; see src/sql/frame/server-state.ts. */
  readonly position?: string
  readonly times: AttemptTimes
}

/** Takes the rows of a select while they arrive, instead of `rows` of the outcome. */
export interface RowSink {
  /** Maximum number of rows. */
  readonly maxRows: number
  /** The number of rows so far. It may exceed the maximum by one, whose row is dropped. */
  readonly count: number
  /** Takes the JSON of the next row. Returns false if no more are wanted before `onReady`. */
  write(json: Buffer): boolean
  /** Called when more rows are wanted. */
  onReady: () => void
}

/** PostgreSQL or the service refused the batch; nothing is committed. */
export interface Failed {
  readonly kind: 'failed'
  readonly error: DatabaseError
  readonly at: Place
  /** The statement that failed had been prepared by an earlier batch. */
  readonly wasPrepared?: boolean
  /** What a statement of the service has found, or the service in the rows of an operation. */
  readonly raised?: RaisedError | undefined
  /** The value that PostgreSQL could not convert, if it was a parameter. */
  readonly place?: SlotPlace | undefined
  /** No operation was run. */
  readonly refusal?: Refusal
  /** The results of the operations before. */
  readonly rows?: readonly Buffer[]
  readonly times: AttemptTimes
}

/** Why no operation was run: for a name that the database does not have, or for values. */
export type Refusal =
  | { readonly kind: 'name', readonly name: NamedPart, readonly index: number }
  | { readonly kind: 'values', readonly values: readonly RefusedValue[], readonly index: number }

/** The connection was lost before the outcome was known. */
export interface Lost {
  readonly kind: 'lost'
  /** COMMIT may have reached the server. */
  readonly sent: boolean
  /** The server closed the connection before COMMIT, so it rolled the transaction back. */
  readonly rolledBack: boolean
  /** The server had answered that this transaction holds the idempotency key. */
  readonly keyClaimed: boolean
  /** Nothing was sent, because the server is a standby and the transaction writes. */
  readonly isStandby: boolean
  /** The service closed the connection, because the answers are larger than allowed. */
  readonly isTooLarge: boolean
  /** Known once the session was set, for a transaction that writes. */
  readonly transactionId: TransactionId | undefined
  /** Rows of the operations that were answered. */
  readonly rows: readonly Buffer[]
  readonly times: AttemptTimes
}

/** COMMIT was sent and its answer was lost. */
export interface Unknown {
  readonly kind: 'unknown'
  /** The batch is known to be committed, but its rows were lost. */
  readonly committed: boolean
  /** The results of the operations that were answered. */
  readonly rows?: readonly Buffer[]
  readonly times: AttemptTimes
}

/** When the parts of an attempt were sent or had run, in milliseconds of performance.now(). */
export interface AttemptTimes {
  /** The statements were sent; undefined: they were not. */
  readonly begun?: number | undefined
  /** The session was set: role, claims, settings. */
  readonly sessionSet?: number | undefined
  /** The end of each operation that was answered, in their order; see settleTimes. */
  readonly operations: readonly number[]
}

/** Why a batch was run again; the label `reason` of `service_txn_retry_count`. */
export type RetryReason =
  | 'serialization_failure'
  | 'deadlock_detected'
  | 'stale_plan'
  | 'connection'
  | 'lost'
