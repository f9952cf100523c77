/**
 * The connections of the service: a bounded number, a bounded queue, a bounded wait. tarn does the
 * pooling; this file says what a connection is worth and turns tarn's errors into failures of the
 * catalogue.
 */
import { Pool, TimeoutError } from 'tarn'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { failure, type FailureCode } from '../errors/catalogue.ts'
import { terminateBackend } from './terminate-backend.ts'
import {
  closeConnection,
  isUsable,
  openConnection,
  withTimeout,
  type Connection
} from './connection.ts'
import { millisecondsUntil } from './timer.ts'

export interface PoolOptions {
  readonly target: DatabaseTarget
  /** Most connections. */
  readonly size: number
  /** Most batches that wait for a connection. */
  readonly queueSize: number
  /** Longest wait for a connection, opening one included. */
  readonly queueTimeoutMs: number
  /** Whether statements may be prepared; true unless said otherwise. */
  readonly prepares?: boolean | undefined
  /** Schemas that follow DB_SCHEMAS on search_path where they are safe; none by default. */
  readonly extraSchemas?: readonly string[] | undefined
  /** Age at which a connection is replaced; about half an hour unless said otherwise. */
  readonly lifetimeMs?: number | undefined
  /** Hears of every connection that was opened. */
  readonly onOpened?: ((connection: Connection) => void) | undefined
  /** Hears of every failure to open a connection. */
  readonly onOpenFailed: (reason: unknown) => void
}

export interface ConnectionCount {
  /** Connections that carry a transaction. */
  readonly busy: number
  readonly idle: number
  /** Batches that wait for a connection. */
  readonly waiting: number
}

export interface ConnectionPool {
  /**
   * A connection for one transaction, before `deadline` (a time of performance.now()). Throws
   * `overloaded`, `database_unavailable` or `shutting_down` within `queueTimeoutMs`,
   * `deadline_exceeded`, or `client_closed_request` when `abandoned` is aborted. A batch that had a
   * connection before (`again`) is not refused for the length of the queue: its place was given to
   * it when it came.
   */
  acquire(deadline: number, options?: AcquireOptions): Promise<Connection>
  /**
   * Whether one that comes now is refused, for every connection and every place in the queue is
   * taken.
   */
  isFull(): boolean
  release(connection: Connection): void
  /**
   * Opens a first connection, so that the first batch need not wait for it. Takes no place from a
   * batch; its failure is heard of as any other.
   */
  warm(): Promise<void>
  count(): ConnectionCount
  /**
   * Refuses what still waits for a connection, lets transactions that run come to their end, then
   * closes every connection.
   */
  close(): Promise<void>
  readonly size: number
}

export interface AcquireOptions {
  readonly again?: boolean
  readonly abandoned?: AbortSignal | undefined
  /**
   * A connection beside those of batches, for a question: who asks what became of a batch must not
   * wait behind others.
   */
  readonly aside?: boolean
}

/**
 * Idle connections are closed after a minute, so that a quiet service does not occupy a busy
 * server.
 */
const IDLE_MS = 60_000

/**
 * Most connections beside those of batches. There is something to ask when connections were lost,
 * and then a server has other worries.
 */
const ASIDES = 2

/** Longest wait for an answer to that a process is to end. */
const REAP_MS = 1000

/** Makes the pool; no connection is opened before one is asked for. */
export function createPool (options: PoolOptions): ConnectionPool {
  const { target, size, queueSize, queueTimeoutMs, prepares, extraSchemas, lifetimeMs } = options
  const { onOpened, onOpenFailed } = options
  const open = new Set<Connection>()
  const busy = new Set<Connection>()
  const waiting = new Set<{ abort(): void }>()
  const unwanted = new AbortController()
  let closing = false
  /** Waits that belong to no batch. */
  let warming = 0
  const makePool = (max: number, create: () => Promise<Connection>): Pool<Connection> =>
    new Pool<Connection>({
      create,
      validate: isUsable,
      async destroy (connection) {
        open.delete(connection)
        await closeConnection(connection)
      },
      min: 0,
      max,
      acquireTimeoutMillis: queueTimeoutMs,
      createTimeoutMillis: target.connectTimeoutMs * target.hosts.length + 1000,
      destroyTimeoutMillis: 2000,
      idleTimeoutMillis: IDLE_MS,
      createRetryIntervalMillis: 50,
      // The request that asked for a connection hears at once that there is none to be had.
      propagateCreateError: true
    })
  const pool = makePool(size, async () => {
    const { signal } = unwanted
    const connection = await openConnection(target, { lifetimeMs, prepares, extraSchemas, signal })
    open.add(connection)
    onOpened?.(connection)
    return connection
  })
  const asides = makePool(
    ASIDES,
    () => openConnection(target, { lifetimeMs, roleSettings: false, signal: unwanted.signal })
  )

  for (const one of [pool, asides]) {
    one.on('createFail', (_id: number, reason: unknown) => {
      if (!closing) onOpenFailed(reason)
    })
  }
  /**
   * Of a connection that was lost without a word of the server: what of a flight had arrived there
   * may hold locks.
   */
  const reap = async ({ backend, fatalErrors: farewell }: Connection): Promise<void> => {
    if (backend === undefined || farewell.fatal || closing) return
    const connection = await asides.acquire().promise
    await withTimeout(REAP_MS, connection, () => terminateBackend(connection, backend)).finally(
      () => asides.release(connection)
    )
  }
  const isFull = (): boolean =>
    pool.numUsed() + pool.numPendingAcquires() - warming >= size + queueSize
  const explain = (error: unknown, deadline: number, abandoned: boolean): FailureCode => {
    if (closing) return 'shutting_down'
    if (abandoned) return 'client_closed_request'
    if (performance.now() >= deadline) return 'deadline_exceeded'
    // A wait that was too long means overload, unless there was no connection to wait for.
    return error instanceof TimeoutError && busy.size > 0 ? 'overloaded' : 'database_unavailable'
  }
  return {
    size,
    isFull,
    async acquire (deadline, { again = false, aside = false, abandoned } = {}) {
      if (closing) throw failure('shutting_down')
      if (abandoned?.aborted === true) throw failure('client_closed_request')
      if (!again && !aside && isFull()) throw failure('overloaded')
      const wait = (aside ? asides : pool).acquire()
      const abort = (): void => wait.abort()
      waiting.add(wait)
      abandoned?.addEventListener('abort', abort)
      const timer = setTimeout(abort, millisecondsUntil(deadline))
      const connection = await wait.promise.catch((error: unknown) => {
        throw failure(
          explain(error, deadline, abandoned?.aborted === true),
          undefined,
          undefined,
          error
        )
      }).finally(() => {
        clearTimeout(timer)
        abandoned?.removeEventListener('abort', abort)
        waiting.delete(wait)
      })
      if (!aside) busy.add(connection)
      return connection
    },
    release (connection) {
      const home = busy.delete(connection) ? pool : asides
      // Where it cannot be done PostgreSQL finds out in its own time.
      if (home === pool && connection.state.dead) reap(connection).catch(() => {})
      home.release(connection)
    },
    async warm () {
      warming++
      const wait = pool.acquire()
      waiting.add(wait)
      // A failure was told to `onOpenFailed`.
      await wait.promise.then(connection => pool.release(connection), () => {})
      waiting.delete(wait)
      warming--
    },
    count: () => ({
      busy: busy.size,
      // tarn finds out about connections that died idle when it wants to use them.
      idle: [...open].filter(connection => !busy.has(connection) && !connection.state.dead).length,
      waiting: pool.numPendingAcquires() - warming
    }),
    async close () {
      closing = true
      // tarn would let them wait for the transactions that run.
      for (const wait of waiting) wait.abort()
      // … and for connections that nobody waits for now, which takes long with a server that is
      // silent.
      unwanted.abort()
      await Promise.all([pool.destroy(), asides.destroy()])
    }
  }
}
