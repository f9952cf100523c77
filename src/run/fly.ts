/**
 * The door of this room: a flight in, its landing out. In charge of the lane, the deadline, of flying again when it is certain
 * that nothing was committed and another try can succeed, and of what became of a transaction whose connection was lost.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import type { DatabaseError } from '../errors/postgres.ts'
import { failure } from '../errors/catalogue.ts'
import { readMarker } from '../sql/marker.ts'
import { launch, mayCommit, type Flight, type Landing, type Place, type TransactionId } from './flight.ts'
import { askLane, breakLane, isUsable, type Lane } from './lane.ts'
import type { LanePool } from './pool.ts'

/** How a batch that was sent ended; see Landing. `unknown`: COMMIT was sent, and nobody can tell whether it was carried out. */
export type Landed = Extract<Landing, { kind: 'committed' | 'failed' }> | { readonly kind: 'unknown', readonly times: readonly number[] }

/** A deadlock or a serialization failure is tried this often; then the caller hears of it and may try again later. */
const MAX_ATTEMPTS = 10

/**
 * A flight that can commit nothing is tried this often when its connection goes away under it. No more, for it may itself be what ends
 * the connection: a statement that takes all the memory restarts the server.
 */
const MAX_LOSSES = 2

/** Of the time to the deadline, what is kept back to find out what became of a transaction: a tenth, but no more than this. */
const RESERVE_MS = 1000

/** Longest search for what became of a transaction, e.g. while the server restarts. */
const INQUIRY_MS = 5000

/**
 * Flies until the flight lands or cannot. `deadline` is a time of performance.now(). Throws `overloaded`, `database_unavailable`,
 * `shutting_down` or `deadline_exceeded` for a batch that did not take off: nothing was committed.
 */
export async function fly (pool: LanePool, flight: Flight, deadline: number): Promise<Landed> {
  const landBy = deadline - Math.min(RESERVE_MS, (deadline - performance.now()) / 10)
  // Every lane of the pool may have died in a restart of the server: each is found out by one try.
  const tries: Tries = { lanes: pool.size + 1, losses: mayCommit(flight.mode) ? 1 : MAX_LOSSES, conflicts: MAX_ATTEMPTS }
  let flown = await flyOnce(pool, flight, landBy)
  let restoring = flown.disturbed
  while (await mayRetry(flown, tries, landBy)) {
    flown = await flyOnce(pool, { ...flight, restoring }, landBy)
    restoring ||= flown.disturbed
  }
  const { landing } = flown
  if (landing.kind !== 'lost') return landing
  if (landing.sent) return await judge(pool, landing, flight, { landBy, deadline })
  throw failure(performance.now() >= landBy ? 'deadline_exceeded' : 'database_unavailable')
}

/** How many tries are left, by what went wrong: with the lane, on the way, or in the company of other transactions. */
interface Tries { lanes: number, losses: number, conflicts: number }

/** Whether nothing was committed and another try can succeed; waits a moment where that helps. */
async function mayRetry ({ landing, stale, disturbed }: Flown, tries: Tries, landBy: number): Promise<boolean> {
  if (landing.kind === 'committed') return false
  if (landing.kind === 'lost' && landing.sent) return --tries.losses > 0 && performance.now() < landBy
  // When the time is over, no lane is given.
  if (disturbed) return true
  if (landing.kind === 'lost' || stale) return --tries.lanes > 0 && performance.now() < landBy
  if (!isConflict(landing.error) || --tries.conflicts === 0) return false
  const pause = Math.random() * Math.min(5 * 2 ** (MAX_ATTEMPTS - tries.conflicts), 200)
  if (performance.now() + pause >= landBy) return false
  await delay(pause)
  return true
}

/**
 * One try. `stale`: it failed for what its lane was, and the lane is not used again. `disturbed`: for what an operation did to the session of
 * those behind it, and the lane could not be used for a second run, which sets it anew after each operation.
 */
interface Flown { readonly landing: Landing, readonly stale: boolean, readonly disturbed: boolean }

async function flyOnce (pool: LanePool, flight: Flight, landBy: number): Promise<Flown> {
  const lane = await pool.acquire(landBy)
  // Timers may be early by a part of a millisecond, and `late` must not depend on it.
  const timer = setTimeout(breakLane, Math.max(1, landBy - performance.now() + 1), lane)
  let { landed, over } = launch(lane, flight)
  let landing = await landed
  let disturbed = flight.restoring !== true && isDisturbed(landing)
  if (disturbed) {
    // On the same lane: the pool may be full, and this batch has its place in it. When the time is over, the lane is broken.
    await over
    if (isUsable(lane)) {
      ({ landed, over } = launch(lane, { ...flight, restoring: true }))
      landing = await landed
      disturbed = false
    }
  }
  over.then(() => {
    clearTimeout(timer)
    pool.release(lane)
  })
  const stale = landing.kind === 'failed' && isStale(landing, lane.roleSettings.has(flight.role))
  if (stale) lane.state.retired = true
  return { landing, stale, disturbed }
}

/**
 * Failures that belong to the lane and not to the batch: a plan that DDL made stale (0A000 from RevalidateCachedQuery), a prepared
 * statement that a function deallocated (26000 from FetchPreparedStatement), a statement_timeout left behind by a trigger that ends the
 * session statement itself, and a setting of the role that could be made when the lane was opened and cannot any more.
 */
function isStale ({ error: { code, routine }, at }: Extract<Landing, { kind: 'failed' }>, hasSettings: boolean): boolean {
  // 0A000: see isImpossible in flight.ts.
  if (at === 'session' && ((hasSettings && code !== '0A000') || code === '57014')) return true
  return (code === '0A000' && routine === 'RevalidateCachedQuery') || (code === '26000' && routine === 'FetchPreparedStatement')
}

/**
 * The operation found the session changed, or lacked a privilege, which another role may lack that a trigger before it took: PostgreSQL looks at
 * privileges first. Not done for every batch, for it costs a statement with each operation (measured: 12 to 17 % of the throughput).
 */
function isDisturbed (landing: Landing): boolean {
  if (landing.kind !== 'failed') return false
  const { error, at } = landing
  return readMarker(error)?.kind === 'session' || (error.code === '42501' && typeof at === 'number' && at > 0)
}

/** Deadlock or serialization failure: PostgreSQL's advice is to try again. A conflict with recovery on a standby would only repeat itself. */
function isConflict ({ code, routine }: DatabaseError): boolean {
  return (code === '40001' && routine !== 'ProcessRecoveryConflictInterrupt') || code === '40P01'
}

/** What the loss of a connection after the end was sent comes to. Where COMMIT is in doubt and the transaction's id is known, the server knows the rest. */
async function judge (pool: LanePool, { id, times }: Extract<Landing, { kind: 'lost' }>, flight: Flight, { landBy, deadline }: { landBy: number, deadline: number }): Promise<Landed> {
  const late = performance.now() >= landBy
  const inDoubt = mayCommit(flight.mode) && (id === undefined || !await wasRolledBack(pool, id, Math.min(deadline, performance.now() + INQUIRY_MS)))
  if (inDoubt) return { kind: 'unknown', times }
  // connection_failure
  const error = late ? failure('deadline_exceeded') : { code: '08006', message: 'The connection to the database was lost; nothing was committed.' }
  return { kind: 'failed', error, at: whereLost(times.length, flight.operations.length), times }
}

/** The first that was not answered; there is a time of the take-off, of the session and of each operation, as far as they came. */
function whereLost (times: number, operations: number): Place {
  const answered = times - 2
  if (answered < 0) return 'session'
  return answered < operations ? answered : 'commit'
}

/** Whether the transaction is known to have come to nothing; asks until it has come to an end, or until `until`. */
async function wasRolledBack (pool: LanePool, id: TransactionId, until: number): Promise<boolean> {
  do {
    const status = await inquire(pool, id, until).catch((error: unknown) => error instanceof postgres.PostgresError && error.code === IN_THE_FUTURE ? 'aborted' : undefined)
    if (status === 'aborted') return true
    // Not to be believed: after a crash of the server the id may be another transaction's (measured: 5 of 5).
    if (status === 'committed') return false
    await delay(20)
  } while (performance.now() < until)
  return false
}

/** invalid_parameter_value of pg_xact_status: a server that crashed has not heard of the id, so nothing of it was ever durable. */
const IN_THE_FUTURE = '22023'

/**
 * The state of a transaction; null on a standby, which may not have heard of it yet. If it still runs, for a client that is
 * gone, it is ended: its locks are of no use to anyone. Only on its own backend, for after a crash of the server the id may be
 * another transaction's.
 */
async function inquire (pool: LanePool, { xid, pid }: TransactionId, until: number): Promise<string | null> {
  const lane: Lane = await pool.acquire(until)
  const timer = setTimeout(breakLane, Math.max(1, until - performance.now()), lane)
  try {
    const rows = await askLane<{ status: string | null }>(lane, `
      select case when not pg_is_in_recovery() then pg_xact_status('${xid}'::xid8) end as status, count(pg_terminate_backend(pid))
      from pg_stat_activity where backend_xid = '${xid}'::xid8::xid and pid = '${pid}'`)
    return (rows[0] as { status: string | null }).status
  } finally {
    clearTimeout(timer)
    pool.release(lane)
  }
}
