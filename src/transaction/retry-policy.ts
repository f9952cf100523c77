/**
 * Whether another flight can succeed where one failed, and when. In charge of counting the tries;
 * it flies nothing, and asks nobody.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { readMarker } from '../sql/marker.ts'
import type { CompiledBatch, AttemptOutcome } from './attempt.ts'
import type { Attempt, RetryReason } from './outcome.ts'

/**
 * A deadlock or a serialization failure is tried this often; then the caller hears of it and may
 * try again later.
 */
export const MAX_ATTEMPTS = 15

/**
 * How many tries are left, by what went wrong: with the connection, on the way, or in the company
 * of other transactions.
 */
export interface Tries {
  connections: number
  losses: number
  conflicts: number
}

/**
 * Why another try can succeed, of a flight that committed nothing; waits a moment where that helps.
 * undefined: it cannot, or there is no time.
 */
export async function mayRetry (
  { landing, stale, disturbed, doubted }: Attempt,
  tries: Tries,
  landBy: number
): Promise<RetryReason | undefined> {
  if (landing.kind === 'committed') return undefined
  const late = performance.now() >= landBy
  if (landing.kind === 'lost' && landing.sent) {
    return --tries.losses > 0 && !late
      ? 'lost'
      : undefined
  }
  // When the time is over, no connection is given.
  if (disturbed) return 'session'
  if (doubted) return 'values'
  if (landing.kind === 'lost') return --tries.connections > 0 && !late ? 'lane' : undefined
  if (stale) return --tries.connections > 0 && !late ? 'stale_plan' : undefined
  // The next flight uses nothing that was prepared, so this is said once.
  if (isDoubtful(landing)) return 'stale_plan'
  if (!isConflicting(landing) || --tries.conflicts === 0) return undefined
  const pause = Math.random() * Math.min(10 * 2 ** (MAX_ATTEMPTS - tries.conflicts), 1000)
  if (performance.now() + pause >= landBy) return undefined
  await delay(pause)
  return landing.error.code === '40P01' ? 'deadlock_detected' : 'serialization_failure'
}

/**
 * Failures that belong to the connection and not to the batch: a plan that DDL made stale (0A000
 * from RevalidateCachedQuery), a prepared statement that a function deallocated (26000 from
 * FetchPreparedStatement), a statement_timeout left behind by a trigger that ends the session
 * statement itself, and a setting of the role that could be made when the connection was opened and
 * cannot any more.
 */
export function isStale (
  { error: { code, routine }, at }: Extract<AttemptOutcome, { kind: 'failed' }>,
  hasSettings: boolean
): boolean {
  // 0A000: see isImpossible in flight.ts.
  if (at === 'session' && ((hasSettings && code !== '0A000') || code === '57014')) return true
  return (code === '0A000' && routine === 'RevalidateCachedQuery') ||
    (code === '26000' && routine === 'FetchPreparedStatement')
}

/**
 * A statement that was prepared keeps the types of its parameters, and what ALTER TABLE made of the
 * columns since may not go with them: no such operator or column (class 42), or a value that the
 * former type cannot hold (class 22, or the check of a domain that reads it). The same statement
 * prepared anew tells.
 */
export function isDoubtful (landing: Attempt['landing']): boolean {
  if (
    landing.kind !== 'failed' || landing.held !== true || readMarker(landing.error) !== undefined
  ) return false
  const { error: { code, routine }, at } = landing
  if (code.startsWith('42')) return code !== '42501'
  // An unknown role is of class 22, too, but the session scope reads no column.
  return typeof at === 'number' && (code.startsWith('22') || routine === 'domain_check_input')
}

/**
 * The operation found the session changed, or failed for what a trigger before it may have changed:
 * the role (42501: PostgreSQL looks at privileges first), the search_path (42883, 42704), how
 * times are read (22007, 22008), the encoding (22021, 22P05). This is not checked before every
 * operation, because that costs a statement with each of them (measured: 12 to 17 % of the
 * throughput).
 */
export function isDisturbed (landing: AttemptOutcome): boolean {
  if (landing.kind !== 'failed') return false
  const { error, at } = landing
  const marker = readMarker(error)
  if (marker !== undefined) return marker.kind === 'session'
  if (typeof at !== 'number' || at === 0) return false
  // What a prepared statement says of types may be stale; see isDoubtful.
  return error.code === '42501' || (landing.held !== true && OF_SESSION.has(error.code))
}

const OF_SESSION: ReadonlySet<string> = new Set([
  '42883',
  '42704',
  '22007',
  '22008',
  '22021',
  '22P05'
])

/**
 * Whether a careful attempt can tell more: an operation found a value that may not be what the JSON
 * was, or PostgreSQL refused one (class 22, or a syntax error of a tsvector) without saying of
 * which column.
 */
export function isDoubted (
  landing: AttemptOutcome,
  { operations, careful }: CompiledBatch
): boolean {
  if (careful === true || landing.kind !== 'failed' || typeof landing.at !== 'number') return false
  if (operations[landing.at]?.doubtful !== true) return false
  const marker = readMarker(landing.error)
  return marker === undefined ? /^(?:22|42601)/.test(landing.error.code) : marker.kind === 'inspect'
}

/**
 * Routines that report a conflict with recovery on a standby, by SQLSTATE. Such a batch would meet
 * the same conflict again, so it is not retried. 40001 comes from ProcessInterrupts until
 * PostgreSQL 16. The same routine reports 40P01 when an extension makes a deadlock of a cancel
 * request (Citus, multi_log_hook): that one is retried.
 */
const OF_RECOVERY: Readonly<Record<string, ReadonlySet<string | undefined>>> = {
  40001: new Set(['ProcessRecoveryConflictInterrupt', 'ProcessInterrupts']),
  '40P01': new Set(['CheckRecoveryConflictDeadlock'])
}

/** Deadlock or serialization failure: PostgreSQL's advice is to try again. */
export function isConflicting (
  { error: { code, routine } }: Extract<AttemptOutcome, { kind: 'failed' }>
): boolean {
  return OF_RECOVERY[code]?.has(routine) === false
}
