/**
 * The lanes of the service: a bounded number, a bounded queue, a bounded wait. tarn does the pooling; this file says what a lane is
 * worth and turns tarn's errors into failures of the catalogue.
 */
import { Pool, TimeoutError } from 'tarn'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { failure, type FailureCode } from '../errors/catalogue.ts'
import { closeLane, isUsable, openLane, type Lane } from './lane.ts'

export interface PoolOptions {
  readonly target: DatabaseTarget
  /** Most lanes. */
  readonly size: number
  /** Most batches that wait for a lane. */
  readonly queueSize: number
  /** Longest wait for a lane, opening one included. */
  readonly queueTimeoutMs: number
  /** Age at which a lane is replaced; about half an hour unless said otherwise. */
  readonly lifetimeMs?: number | undefined
  /** Hears of every lane that was opened. */
  readonly onOpened?: ((lane: Lane) => void) | undefined
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
  /**
   * A lane for one transaction, before `deadline` (a time of performance.now()). Throws `overloaded`, `database_unavailable` or
   * `shutting_down` within `queueTimeoutMs`, or `deadline_exceeded`.
   */
  acquire (deadline: number): Promise<Lane>
  release (lane: Lane): void
  /** Opens a first lane, so that the first batch need not wait for it. Takes no place from a batch; its failure is heard of as any other. */
  warm (): Promise<void>
  count (): LaneCount
  /** Refuses what still waits for a lane, lets transactions that run come to their end, then closes every lane. */
  close (): Promise<void>
  readonly size: number
}

/** Idle lanes are closed after a minute, so that a quiet service does not occupy a busy server. */
const IDLE_MS = 60_000

/** Makes the pool; no connection is opened before one is asked for. */
export function createPool ({ target, size, queueSize, queueTimeoutMs, lifetimeMs, onOpened, onOpenFailed }: PoolOptions): LanePool {
  const open = new Set<Lane>()
  const busy = new Set<Lane>()
  const waiting = new Set<{ abort (): void }>()
  const unwanted = new AbortController()
  let closing = false
  /** Waits that belong to no batch. */
  let warming = 0
  const pool = new Pool<Lane>({
    async create () {
      const lane = await openLane(target, { lifetimeMs, signal: unwanted.signal })
      open.add(lane)
      onOpened?.(lane)
      return lane
    },
    validate: isUsable,
    async destroy (lane) {
      open.delete(lane)
      await closeLane(lane)
    },
    min: 0,
    max: size,
    acquireTimeoutMillis: queueTimeoutMs,
    createTimeoutMillis: target.connectTimeoutMs * target.hosts.length + 1000,
    destroyTimeoutMillis: 2000,
    idleTimeoutMillis: IDLE_MS,
    createRetryIntervalMillis: 50,
    // The request that asked for a lane hears at once that there is none to be had.
    propagateCreateError: true
  })
  pool.on('createFail', (_id: number, reason: unknown) => {
    if (!closing) onOpenFailed(reason)
  })

  const explain = (error: unknown, deadline: number): FailureCode => {
    if (closing) return 'shutting_down'
    if (performance.now() >= deadline) return 'deadline_exceeded'
    // A wait that was too long means overload, unless there was no lane to wait for.
    return error instanceof TimeoutError && busy.size > 0 ? 'overloaded' : 'database_unavailable'
  }
  return {
    size,
    async acquire (deadline) {
      if (closing) throw failure('shutting_down')
      if (pool.numUsed() + pool.numPendingAcquires() - warming >= size + queueSize) throw failure('overloaded')
      const wait = pool.acquire()
      waiting.add(wait)
      // Timers may be early by a part of a millisecond.
      const timer = setTimeout(() => wait.abort(), Math.max(1, deadline - performance.now() + 1))
      const lane = await wait.promise.catch((error: unknown) => {
        throw failure(explain(error, deadline), undefined, undefined, error)
      }).finally(() => {
        clearTimeout(timer)
        waiting.delete(wait)
      })
      busy.add(lane)
      return lane
    },
    release (lane) {
      busy.delete(lane)
      pool.release(lane)
    },
    async warm () {
      warming++
      const wait = pool.acquire()
      waiting.add(wait)
      // A failure was told to `onOpenFailed`.
      await wait.promise.then(lane => pool.release(lane), () => {})
      waiting.delete(wait)
      warming--
    },
    count: () => ({
      busy: busy.size,
      // tarn finds out about lanes that died idle when it wants to use them.
      idle: [...open].filter(lane => !busy.has(lane) && !lane.state.dead).length,
      waiting: pool.numPendingAcquires() - warming
    }),
    async close () {
      closing = true
      // tarn would let them wait for the transactions that run.
      for (const wait of waiting) wait.abort()
      // … and for lanes that nobody waits for now, which takes long with a server that is silent.
      unwanted.abort()
      await pool.destroy()
    }
  }
}
