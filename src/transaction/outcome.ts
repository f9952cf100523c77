/**
 * How flights end, in the words of those who decide what follows: fly.ts and its helpers, reports,
 * metrics.
 */
import type { AttemptOutcome, LostOutcome } from './attempt.ts'
import type { Connection } from '../postgres/connection.ts'

/**
 * How a batch that was sent ended; see Landing. `replayed`: the answers are those of an earlier
 * request with the same key, and nothing was done. `unknown`: COMMIT was sent, and nobody can tell
 * whether it was carried out; or (`gone`) it was, and the answers were lost.
 */
export type BatchOutcome =
  | Extract<AttemptOutcome, { kind: 'committed' }> & { readonly replayed?: boolean }
  | Extract<AttemptOutcome, { kind: 'failed' }>
  | { readonly kind: 'unknown', readonly gone: boolean, readonly times: readonly number[] }

/** Why a batch was flown again. */
export type RetryReason =
  | 'serialization_failure'
  | 'deadlock_detected'
  | 'stale_plan'
  | 'session'
  | 'values'
  | 'lane'
  | 'lost'

/**
 * One try. `stale`: it failed for what its connection was, and the connection is not used again.
 * `disturbed`: for what an operation did to the session of those behind it, and the connection
 * could not be used for a second run, which sets it anew after each operation. `doubted`: values
 * have to be looked at more closely.
 */
export interface Attempt {
  readonly landing: BatchOutcome & AttemptOutcome | LostOutcome
  readonly stale: boolean
  readonly disturbed: boolean
  readonly doubted: boolean
  readonly connection: Connection
}
