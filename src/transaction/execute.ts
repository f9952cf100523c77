/**
 * The door of this room: a flight in, its landing out. In charge of the connection, the deadline,
 * and of flying again when it is certain that nothing was committed. Whether another try can
 * succeed is for retry.ts to say, what became of a transaction whose connection was lost is found
 * out by settle.ts.
 */
import { LRUCache } from 'lru-cache'
import { failure, type Failure, type FailureCode } from '../errors/catalogue.ts'
import type { Statement } from '../sql/compile.ts'
import { readMarker } from '../sql/marker.ts'
import {
  carefulBatch,
  startAttempt,
  mayCommit,
  type CompiledBatch,
  type AttemptOutcome,
  type LostOutcome,
  type Place
} from './attempt.ts'
import { resolveKeyFailure } from './idempotency.ts'
import { destroyConnection, isUsable } from '../postgres/connection.ts'
import type { Attempt, BatchOutcome, RetryReason } from './outcome.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import {
  isConflicting,
  isDisturbed,
  isDoubted,
  isDoubtful,
  isStale,
  MAX_ATTEMPTS,
  mayRetry,
  type Tries
} from './retry-policy.ts'
import { resolveLostCommit } from './lost-commit.ts'
import { millisecondsUntil } from '../postgres/timer.ts'

/** Whom a batch flies for. */
export interface ExecuteOptions {
  /** A time of performance.now(). */
  readonly deadline: number
  /** Aborted when nobody waits for the answer any more: what was not sent by then is not sent. */
  readonly abandoned?: AbortSignal | undefined
  /** Hears of each further flight. */
  readonly onRetry?: ((reason: RetryReason) => void) | undefined
}

/**
 * A flight of which nothing is in the database is tried this often when its connection goes away
 * under it: one that can commit nothing, or one with a key. No more, for it may itself be what ends
 * the connection: a statement that takes all the memory restarts the server.
 */
const MAX_LOSSES = 2

/** Longest time from the answer until the connection is ready for the next batch. */
const REST_MS = 2000

/**
 * Of the time to the deadline, what is kept back to find out what became of a transaction: a tenth,
 * but no more than this.
 */
const RESERVE_MS = 1000

/**
 * Longest search for what became of a transaction without a key, e.g. while the server restarts.
 */
const INQUIRY_MS = 5000

/**
 * Flies until the flight lands or cannot. Throws `overloaded`, `database_unavailable`,
 * `shutting_down`, `deadline_exceeded` or `client_closed_request` for a batch that did not take
 * off: nothing was committed.
 */
export async function executeBatch (
  pool: ConnectionPool,
  flight: CompiledBatch,
  passage: ExecuteOptions
): Promise<BatchOutcome> {
  const { deadline, abandoned, onRetry = () => {} } = passage
  const landBy = deadline - Math.min(RESERVE_MS, (deadline - performance.now()) / 10)
  const times = { landBy, deadline }
  // Every connection of the pool may have died in a restart of the server: each is found out by one
  // try.
  const tries: Tries = {
    connections: pool.size + 1,
    losses: mayCommit(flight.mode) && flight.key === undefined ? 1 : MAX_LOSSES,
    conflicts: MAX_ATTEMPTS
  }
  const first = isKnownToDoubt(flight) ? carefulBatch(flight, false) : flight
  let flown = await runAttempt(pool, first, { landBy, abandoned, onRetry })
  let restoring = flown.disturbed
  let careful = first !== flight || flown.doubted
  let fresh = isDoubtful(flown.landing)
  for (;;) {
    const ended = flown.landing.kind === 'lost' && flown.landing.sent
      ? await resolveLostAttempt(pool, flown as Attempt & { landing: LostOutcome }, flight, times)
      : undefined
    if (ended !== undefined && !ended.again) return ended.landed
    const reason = await mayRetry(flown, tries, landBy)
    if (reason === undefined) return ended?.landed ?? conclude(flown.landing, landBy)
    // Who has something to tell tells that: a conflict that found no connection for another try is
    // still a conflict.
    const told = ended?.landed ??
      (flown.landing.kind === 'failed' &&
          (isConflicting(flown.landing) || isDoubtful(flown.landing))
        ? flown.landing
        : undefined)
    const again = { ...careful || restoring ? carefulBatch(flight, restoring) : flight, fresh }
    const next = await runAttempt(pool, again, {
      landBy,
      abandoned,
      onRetry,
      reason
    }).catch((error: unknown) => {
      if (
        ended === undefined && (told === undefined || !NO_CONNECTION.has((error as Failure).code))
      ) {
        throw error
      }
    })
    if (next === undefined) return told as BatchOutcome
    if (flown.doubted && !tellsMore(next.landing, flown.landing)) {
      return flown.landing as BatchOutcome
    }
    // It was what the connection held, and not what the batch said.
    if (isDoubtful(flown.landing) && codeOf(next.landing) !== codeOf(flown.landing)) {
      flown.connection.state.retired = true
    }
    flown = next
    restoring ||= flown.disturbed
    careful ||= flown.doubted
    fresh ||= isDoubtful(flown.landing)
  }
}

function codeOf (landing: Attempt['landing']): string | undefined {
  return landing.kind === 'failed' ? landing.error.code : undefined
}

/** Why there may be no connection, when it is nobody's wish. */
const NO_CONNECTION: ReadonlySet<string> = new Set<FailureCode>([
  'overloaded',
  'database_unavailable',
  'deadline_exceeded'
])

/** The landing of a flight that is not tried again. */
function conclude (landing: AttemptOutcome, landBy: number): BatchOutcome {
  if (landing.kind !== 'lost') return landing
  throw failure(performance.now() >= landBy ? 'deadline_exceeded' : 'database_unavailable')
}

interface AttemptOptions extends Pick<ExecuteOptions, 'abandoned'> {
  readonly landBy: number
  readonly onRetry: (reason: RetryReason) => void
  /** Why the batch, which had a connection before, is flown again. */
  readonly reason?: RetryReason
}

async function runAttempt (
  pool: ConnectionPool,
  flight: CompiledBatch,
  { landBy, abandoned, onRetry, reason }: AttemptOptions
): Promise<Attempt> {
  const connection = await pool.acquire(landBy, { again: reason !== undefined, abandoned })
  if (reason !== undefined) onRetry(reason)
  const timer = setTimeout(destroyConnection, millisecondsUntil(landBy), connection)
  let attempt = flight
  let { landed, over } = startAttempt(connection, attempt, abandoned)
  let landing: Attempt['landing'] = await landed
  let disturbed = attempt.restoring !== true && isDisturbed(landing)
  if (disturbed) {
    // On the same connection: the pool may be full, and this batch has its place in it. When the
    // time is over, the connection is broken.
    await over
    if (isUsable(connection)) {
      onRetry('session')
      attempt = carefulBatch(flight, true)
      ;({ landed, over } = startAttempt(connection, attempt, abandoned))
      landing = await landed
      disturbed = false
    }
  }
  if (flight.key !== undefined && landing.kind === 'failed' && landing.at === 'key') {
    await over
    landing = await resolveKeyFailure(connection, flight.key, landing)
  }
  // What follows an answer takes no time, unless the connection has fallen silent.
  clearTimeout(timer)
  const rest = setTimeout(destroyConnection, REST_MS, connection)
  over.then(() => {
    clearTimeout(rest)
    pool.release(connection)
  })
  const stale = landing.kind === 'failed' &&
    isStale(landing, connection.roleSettings.has(flight.role))
  if (stale) connection.state.retired = true
  const doubted = !disturbed && isDoubted(landing, attempt)
  if (landing.kind === 'failed' && readMarker(landing.error)?.kind === 'inspect') {
    doubtedTexts.set((attempt.operations[landing.at as number] as Statement).text, true)
  }
  return { landing, stale, disturbed, doubted, connection }
}

/**
 * Whether a careful attempt that failed says which value does not fit; if not, the failure before
 * it says what is wrong.
 */
function tellsMore (landing: Attempt['landing'], before: Attempt['landing']): boolean {
  if (
    landing.kind !== 'failed' || before.kind !== 'failed' ||
    readMarker(before.error) !== undefined
  ) return true
  return readMarker(landing.error)?.kind === 'value'
}

/**
 * Texts of statements whose values were in doubt: what they store is of a type that always is, such
 * as a composite, so a batch of them is careful from the start. A batch with references is not:
 * what it reads may be missing, which the first attempt tells.
 */
const doubtedTexts = new LRUCache<string, true>({ max: 1000 })

function isKnownToDoubt ({ operations, refers }: CompiledBatch): boolean {
  return refers !== true &&
    operations.some(({ text, doubtful }) => doubtful === true && doubtedTexts.has(text))
}

/**
 * What the loss of a connection after the end was sent comes to; `again`: it may be flown again.
 */
async function resolveLostAttempt (
  pool: ConnectionPool,
  { landing, connection: { backend } }: Attempt & { readonly landing: LostOutcome },
  flight: CompiledBatch,
  { landBy, deadline }: { landBy: number, deadline: number }
): Promise<{ readonly landed: BatchOutcome, readonly again: boolean }> {
  const late = performance.now() >= landBy
  const { times } = landing
  const until = flight.key === undefined
    ? Math.min(deadline, performance.now() + INQUIRY_MS)
    : deadline
  const verdict = await resolveLostCommit(pool, { flight, landing, backend }, until)
  if (verdict.kind === 'committed') {
    return { landed: { kind: 'committed', rows: verdict.rows, times }, again: false }
  }
  if (verdict.kind !== 'refuted') {
    return {
      landed: { kind: 'unknown', gone: verdict.kind === 'gone', times },
      again: verdict.kind === 'absent'
    }
  }
  // connection_failure
  const error = late
    ? failure('deadline_exceeded')
    : { code: '08006', message: 'The connection to the database was lost; nothing was committed.' }
  return {
    landed: { kind: 'failed', error, at: whereLost(times.length, flight.operations.length), times },
    again: true
  }
}

/**
 * The first that was not answered; there is a time of the take-off, of the session and of each
 * operation, as far as they came.
 */
function whereLost (times: number, operations: number): Place {
  const answered = times - 2
  if (answered < 0) return 'session'
  return answered < operations ? answered : 'commit'
}
