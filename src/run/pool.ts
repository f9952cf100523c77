/**
 * The lanes of the service: a bounded number, a bounded queue, a bounded wait. tarn does the pooling; this file says what a lane is
 * worth and turns tarn's errors into failures of the catalogue.
 */
import { Pool, TimeoutError } from 'tarn'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { closeLane, openLane, type Lane } from './lane.ts'

export interface PoolOptions {
  readonly target: DatabaseTarget
  /** Most lanes. */
  readonly size: number
  /** Most batches that wait for a lane. */
  readonly queueSize: number
  /** Longest wait for a lane, opening one included. */
  readonly queueTimeoutMs: number
  /** Hears of every failure to open a lane. */
  readonly onOpenFailed: (reason: unknown) => void
}

export interface LaneCount {
  /** Lanes that carry a transaction. */
  readonly busy: number
  readonly idle: number
  /** Batches that wait for a lane. */
  readonly waiting: number
}

export interface LanePool {
  /** A lane for one transaction. Throws `overloaded` or `database_unavailable` within `queueTimeoutMs`. */
  acquire (): Promise<Lane>
  release (lane: Lane): void
  count (): LaneCount
  /** Waits for transactions that run, then closes every lane. */
  close (): Promise<void>
  readonly size: number
}

/** Idle lanes are closed after a minute, so that a quiet service does not occupy a busy server. */
const IDLE_MS = 60_000

/** Makes the pool; no connection is opened before one is asked for. */
export function createPool ({ target, size, queueSize, queueTimeoutMs, onOpenFailed }: PoolOptions): LanePool {
  const pool = new Pool<Lane>({
    create: () => openLane(target),
    validate: lane => !lane.state.dead && !lane.state.retired,
    destroy: closeLane,
    min: 0,
    max: size,
    acquireTimeoutMillis: queueTimeoutMs,
    createTimeoutMillis: target.connectTimeoutMs * target.hosts.length + 1000,
    destroyTimeoutMillis: 2000,
    idleTimeoutMillis: IDLE_MS,
    createRetryIntervalMillis: 50,
    // The request that asked for a lane hears at once that there is none to be had.
    propagateCreateError: true,
    log: () => {}
  })
  pool.on('createFail', (_id: number, reason: unknown) => onOpenFailed(reason))
  let closing = false
  return {
    size,
    async acquire () {
      if (closing) throw failure('shutting_down')
      const room = pool.numUsed() + pool.numPendingCreates() < size
      if (!room && pool.numPendingAcquires() >= queueSize) throw failure('overloaded')
      try {
        return await pool.acquire().promise
      } catch (error) {
        throw unavailable(error, pool.numUsed())
      }
    },
    release (lane) {
      pool.release(lane)
    },
    count: () => ({ busy: pool.numUsed(), idle: pool.numFree(), waiting: pool.numPendingAcquires() }),
    async close () {
      closing = true
      await pool.destroy()
    }
  }
}

/** A wait that was too long means overload, unless there was no lane to wait for. */
function unavailable (error: unknown, busy: number): Failure {
  return error instanceof TimeoutError && busy > 0
    ? failure('overloaded', undefined, undefined, error)
    : failure('database_unavailable', undefined, undefined, error)
}
