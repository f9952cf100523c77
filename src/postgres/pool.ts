/**
 * The connection pool: bounds the number of connections, the queue and the wait. tarn does the
 * pooling. This file decides which connections are usable and translates the errors of tarn.
 */
import { Pool, TimeoutError } from 'tarn'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { failure, type FailureCode } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import {
  closeConnection,
  destroyConnection,
  isUsable,
  withTimeout,
  type Connection,
  terminateBackend,
  millisecondsUntil
} from './connection.ts'
import type { Settings } from './facts.ts'
import { openConnection, type OpenOptions } from './open-connection.ts'

export interface PoolOptions extends Pick<OpenOptions, 'prepares' | 'extraSchemas'> {
  readonly target: DatabaseTarget
  /** Maximum number of connections. */
  readonly size: number
  /** Maximum number of batches that wait for a connection. */
  readonly queueSize: number
  /** Longest wait for a connection, including the time to open one. */
  readonly queueTimeoutMs: number
  /** Longest time that a batch keeps a connection. */
  readonly batchTimeoutMs: number
  /**
   * Returns the settings that later connections get when they start. It is asked for each new one.
   */
  readonly startup?: ((connection: Connection) => Settings) | undefined
  /** Called with every new connection. */
  readonly onOpened?: ((connection: Connection) => void) | undefined
  /** Called with every error of opening a connection. */
  readonly onOpenFailed: (reason: unknown) => void
}

export interface ConnectionCount {
  /** Connections that run a transaction. */
  readonly busy: number
  readonly idle: number
  /** Batches that wait for a connection. */
  readonly waiting: number
}

export interface AcquireOptions {
  /** The batch had a connection before, so it is not refused when the queue is full. */
  readonly retry?: boolean
  readonly clientClosed?: AbortSignal | undefined
  /**
   * Takes a recovery connection instead of a batch's. The lookup of a lost transaction must not
   * wait behind batches.
   */
  readonly recovery?: boolean
}

/** Idle connections are closed after a minute: a quiet service keeps no slots of a busy server. */
const IDLE_TIMEOUT_MS = 60_000

/** Few, because recovery follows the loss of connections, when the server may be struggling. */
const RECOVERY_CONNECTIONS = 2

/** The longest delay of a timer of Node. */
const MAX_DELAY_MS = 2 ** 31 - 1

/** Longest time to terminate an orphaned backend, including the wait for a connection. */
const TERMINATE_TIMEOUT_MS = 2000

/** Longest time from the answer of a batch until its connection is free for the next one. */
const RELEASE_TIMEOUT_MS = 2000

/** Why a server, or a pooler in its place, refuses a setting of the startup message. */
const REFUSALS: ReadonlySet<string> = new Set([
  SqlState.protocol_violation,
  SqlState.invalid_parameter_value,
  SqlState.undefined_object
])

/** A connection that returns to its pool at the end of the block that declares it with `using`. */
export class Lease implements Disposable {
  readonly connection: Connection
  /** Resolves when the connection is free: what is sent after COMMIT has been answered. */
  free = Promise.resolve()
  readonly #pool: ConnectionPool
  #owned = true
  #deadline: NodeJS.Timeout | undefined

  constructor (pool: ConnectionPool, connection: Connection) {
    this.#pool = pool
    this.connection = connection
  }

  /** Destroys the connection at a time of performance.now(), unless the block ends before. */
  endBy (time: number): void {
    this.#deadline = setTimeout(destroyConnection, millisecondsUntil(time), this.connection)
  }

  /** Returns the lease for another block. This one no longer returns the connection. */
  transfer (): Lease {
    this.#owned = false
    return new Lease(this.#pool, this.connection)
  }

  [Symbol.dispose] (): void {
    if (!this.#owned) return
    clearTimeout(this.#deadline)
    const timer = setTimeout(destroyConnection, RELEASE_TIMEOUT_MS, this.connection)
    this.free.then(() => {
      clearTimeout(timer)
      this.#pool.release(this.connection)
    })
  }
}

/**
 * Runs `work` on a connection, by default one that no batch uses. `until`: a time of
 * performance.now(). Rejects if no connection is free by then, or if the work is not done.
 */
export async function withConnection<Result> (
  pool: ConnectionPool,
  until: number,
  work: (connection: Connection) => Promise<Result>,
  options: AcquireOptions = { recovery: true }
): Promise<Result> {
  using lease = new Lease(pool, await pool.acquire(until, options))
  return await withTimeout(millisecondsUntil(until), lease.connection, work)
}

/** Connections are opened on demand. */
export class ConnectionPool {
  readonly size: number
  readonly #options: PoolOptions
  readonly #batchPool: Pool<Connection>
  readonly #recoveryPool: Pool<Connection>
  readonly #open = new Set<Connection>()
  readonly #busy = new Set<Connection>()
  readonly #waits = new Set<{ abort(): void }>()
  readonly #closed = new AbortController()
  #startup: Settings | undefined
  /** A pooler has taken the place of the server, and takes no settings. */
  #refusesStartup = false
  /** Waits of `warm`, which belong to no batch. */
  #warming = 0
  /** When a connection was last acquired or released, as a time of performance.now(). */
  #movedAt = performance.now()
  /** Whether a batch has waited for a connection since then, or was refused. */
  #isWanted = false

  constructor (options: PoolOptions) {
    this.size = options.size
    this.#options = options
    const { signal } = this.#closed
    this.#batchPool = this.#createTarn(options.size, () => this.#openForBatches())
    this.#recoveryPool = this.#createTarn(RECOVERY_CONNECTIONS, () =>
      openConnection(options.target, { roleSettings: false, signal }))
  }

  #createTarn (max: number, create: () => Promise<Connection>): Pool<Connection> {
    const { queueTimeoutMs, onOpenFailed } = this.#options
    const pool = new Pool<Connection>({
      create,
      validate: isUsable,
      destroy: async connection => {
        this.#open.delete(connection)
        await closeConnection(connection)
      },
      min: 0,
      max,
      acquireTimeoutMillis: queueTimeoutMs,
      // `openConnection` has its own limits, whose errors name the host.
      createTimeoutMillis: MAX_DELAY_MS,
      destroyTimeoutMillis: 2000,
      idleTimeoutMillis: IDLE_TIMEOUT_MS,
      createRetryIntervalMillis: 50,
      // The request that needs the connection fails at once, instead of after the queue timeout.
      propagateCreateError: true
    })
    pool.on('createFail', (_id: number, reason: unknown) => {
      if (!this.#isClosing()) onOpenFailed(reason)
    })
    return pool
  }

  /** The first connection shows what the startup message of all can set, and is opened again. */
  async #openForBatches (): Promise<Connection> {
    const { startup = () => [], onOpened } = this.#options
    const known = this.#startup
    const connection = await this.#openBatchConnection(known).catch((error: unknown) => {
      if (!REFUSALS.has((error as DatabaseError).code)) throw error
      this.#refusesStartup = true
      return this.#openBatchConnection()
    })
    this.#startup = this.#refusesStartup ? [] : startup(connection)
    if (known === undefined && this.#startup.length > 0) {
      await closeConnection(connection)
      return await this.#openForBatches()
    }
    this.#open.add(connection)
    onOpened?.(connection)
    return connection
  }

  #openBatchConnection (startup?: Settings): Promise<Connection> {
    const { target, prepares, extraSchemas } = this.#options
    return openConnection(target, {
      prepares,
      extraSchemas,
      startup,
      signal: this.#closed.signal
    })
  }

  /**
   * Returns a connection for one transaction before `deadline`, a time of performance.now(). Throws
   * `overloaded`, `database_unavailable` or `shutting_down` within `queueTimeoutMs`, or
   * `deadline_exceeded`, or `client_closed_request` when `clientClosed` is aborted.
   */
  async acquire (
    deadline: number,
    { retry = false, recovery = false, clientClosed }: AcquireOptions = {}
  ): Promise<Connection> {
    if (this.#isClosing()) throw failure('shutting_down')
    if (clientClosed?.aborted === true) throw failure('client_closed_request')
    if (!recovery && this.#busy.size >= this.size) this.#isWanted = true
    if (!retry && !recovery && this.isFull()) throw failure('overloaded')
    const wait = (recovery ? this.#recoveryPool : this.#batchPool).acquire()
    const abort = (): void => wait.abort()
    this.#waits.add(wait)
    clientClosed?.addEventListener('abort', abort)
    const timer = setTimeout(abort, millisecondsUntil(deadline))
    const connection = await wait.promise.catch((error: unknown) => {
      throw failure(this.#failureCode(error, deadline, clientClosed))
    }).finally(() => {
      clearTimeout(timer)
      clientClosed?.removeEventListener('abort', abort)
      this.#waits.delete(wait)
    })
    if (!recovery) {
      this.#busy.add(connection)
      this.#noteMove()
    }
    return connection
  }

  #failureCode (
    error: unknown,
    deadline: number,
    clientClosed: AbortSignal | undefined
  ): FailureCode {
    if (this.#isClosing()) return 'shutting_down'
    if (clientClosed?.aborted === true) return 'client_closed_request'
    if (performance.now() >= deadline) return 'deadline_exceeded'
    // A timeout means overload, unless no connection could be opened at all.
    return error instanceof TimeoutError && this.#busy.size > 0
      ? 'overloaded'
      : 'database_unavailable'
  }

  /** Whether a new batch is refused: all connections and all places in the queue are taken. */
  isFull (): boolean {
    const acquired = this.#batchPool.numUsed() + this.#batchPool.numPendingAcquires()
    return acquired - this.#warming >= this.size + this.#options.queueSize
  }

  /**
   * Whether batches wait for a connection, and none was acquired or released for longer than a
   * batch may take.
   */
  isStuck (): boolean {
    const { batchTimeoutMs } = this.#options
    return this.#isWanted && performance.now() - this.#movedAt > batchTimeoutMs + RELEASE_TIMEOUT_MS
  }

  #noteMove (): void {
    this.#movedAt = performance.now()
    this.#isWanted = false
  }

  /** Takes a connection back. Callers of `acquire` use a Lease. */
  release (connection: Connection): void {
    if (!this.#busy.delete(connection)) {
      this.#recoveryPool.release(connection)
      return
    }
    this.#noteMove()
    this.#terminateOrphan(connection)
    this.#batchPool.release(connection)
  }

  /**
   * Terminates the backend of a connection that was lost without a fatal error: the part of a
   * transaction that had arrived may hold locks. If that fails, PostgreSQL detects the loss after
   * its own timeouts.
   */
  #terminateOrphan ({ state, socket, backend }: Connection): void {
    if (!state.dead || socket.fatal || backend === undefined) return
    const until = performance.now() + TERMINATE_TIMEOUT_MS
    withConnection(this, until, other => terminateBackend(other, backend)).catch(() => {})
  }

  /**
   * Opens a first connection, so that the first batch does not wait for it. Takes no place in the
   * queue. An error is reported to `onOpenFailed` only.
   */
  async warm (): Promise<void> {
    this.#warming++
    const wait = this.#batchPool.acquire()
    this.#waits.add(wait)
    // An error was reported to `onOpenFailed`.
    await wait.promise.then(connection => this.#batchPool.release(connection), () => {})
    this.#waits.delete(wait)
    this.#warming--
  }

  count (): ConnectionCount {
    // tarn notices that an idle connection died only when it is acquired.
    const idle = [...this.#open].filter(connection =>
      !this.#busy.has(connection) && !connection.state.dead
    )
    const waiting = this.#batchPool.numPendingAcquires() - this.#warming
    return { busy: this.#busy.size, idle: idle.length, waiting }
  }

  /** Refuses waiting batches, lets running transactions finish, then closes all connections. */
  async close (): Promise<void> {
    // Cancels the connections that are being opened, which takes long with an unresponsive server.
    this.#closed.abort()
    // tarn would let the waits wait for running transactions.
    for (const wait of this.#waits) wait.abort()
    await Promise.all([this.#batchPool.destroy(), this.#recoveryPool.destroy()])
  }

  #isClosing (): boolean {
    return this.#closed.signal.aborted
  }
}
