/**
 * The door of this room: a flight in, its landing out. In charge of the lane, the deadline and of flying again when it is certain
 * that nothing was committed and another try can succeed.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { DatabaseError } from '../errors/postgres.ts'
import { failure } from '../errors/catalogue.ts'
import { launch, type Flight, type Landing } from './flight.ts'
import { breakLane, type Lane } from './lane.ts'
import type { LanePool } from './pool.ts'

/** Times of a flight that was answered (or began): see Landing. */
export type Landed = Extract<Landing, { kind: 'committed' | 'failed' }> | { readonly kind: 'unknown', readonly times: readonly number[] }

/** A deadlock or a serialization failure is tried this often; then the caller hears of it and may try again later. */
const MAX_ATTEMPTS = 10

/**
 * Flies until the flight lands or cannot. `deadline` is a time of performance.now(). Throws `overloaded`, `database_unavailable`,
 * `shutting_down` or `deadline_exceeded`, all of which mean that nothing was committed. `unknown`: COMMIT was sent and not answered.
 */
export async function fly (pool: LanePool, flight: Flight, deadline: number): Promise<Landed> {
  // Every lane of the pool may have died in a restart of the server: each is found out by one try.
  let stale = pool.size + 1
  for (let attempt = 1; ; attempt++) {
    if (performance.now() >= deadline) throw failure('deadline_exceeded')
    const landing = await flyOnce(pool, flight, deadline)
    if (landing.kind === 'committed') return landing
    if (landing.kind === 'lost') {
      if (landing.sent) return { kind: 'unknown', times: landing.times }
      if (performance.now() >= deadline) throw failure('deadline_exceeded')
      if (--stale === 0) throw failure('database_unavailable')
    } else if (isStale(landing)) {
      if (--stale === 0) return landing
    } else {
      if (!isConflict(landing.error) || attempt >= MAX_ATTEMPTS) return landing
      const pause = Math.random() * Math.min(5 * 2 ** attempt, 200)
      if (performance.now() + pause >= deadline) return landing
      await delay(pause)
    }
  }
}

async function flyOnce (pool: LanePool, flight: Flight, deadline: number): Promise<Landing> {
  const lane = await pool.acquire()
  const { landed, over } = launch(lane, flight)
  const timer = setTimeout(breakLane, Math.max(0, deadline - performance.now()), lane)
  over.then(() => {
    clearTimeout(timer)
    pool.release(lane)
  })
  const landing = await landed
  if (landing.kind === 'failed' && isStale(landing)) retire(lane)
  return landing
}

function retire (lane: Lane): void {
  lane.state.retired = true
}

/**
 * Failures that belong to the lane and not to the batch: a plan that DDL made stale (0A000 from RevalidateCachedQuery, 26000), and a
 * statement_timeout left behind by a trigger that ends the session statement itself.
 */
function isStale ({ error, at }: Extract<Landing, { kind: 'failed' }>): boolean {
  return (error.code === '0A000' && error.routine === 'RevalidateCachedQuery') || error.code === '26000' || (at === 'session' && error.code === '57014')
}

/** Deadlock or serialization failure: PostgreSQL's advice is to try again. A conflict with recovery on a standby would only repeat itself. */
function isConflict ({ code, routine }: DatabaseError): boolean {
  return (code === '40001' && routine !== 'ProcessRecoveryConflictInterrupt') || code === '40P01'
}
