/**
 * Checks whether the database answers. The check has its own connection, so it never waits behind
 * batches. It caches the result for a second: many callers cost one query. A lost connection clears
 * a cached success.
 */
import type { DatabaseTarget } from '../../schemas/database.ts'
import { closeConnection, isUsable, query, withTimeout, type Connection } from './connection.ts'
import { openConnection } from './open-connection.ts'

/** Called when checks start to fail, with the error, and when they succeed again. */
type OnChange = (change: { readonly failed?: unknown }) => void

const CACHE_MS = 1000
const TIMEOUT_MS = 1000

export class HealthCheck {
  readonly #target: DatabaseTarget
  readonly #onChange: OnChange
  readonly #closed = new AbortController()
  #connection: Connection | undefined
  /** The connection of the last success. */
  #verified: Connection | undefined
  #result = Promise.resolve(false)
  /** Time of the last result; Infinity during a check, which allows one check at a time. */
  #checkedAt = -Infinity
  #failing = false

  /** It connects on the first call, with the connect timeout of `target` reduced to a second. */
  constructor (target: DatabaseTarget, onChange: OnChange) {
    this.#onChange = onChange
    const connectTimeoutMs = Math.min(target.connectTimeoutMs, TIMEOUT_MS)
    this.#target = { ...target, connectTimeoutMs }
  }

  /**
   * Resolves to true when the database answers within a second per host, or has answered less than
   * a second ago on a connection that is still open.
   */
  reachable (): Promise<boolean> {
    const expired = performance.now() - this.#checkedAt >= CACHE_MS
    if (expired || this.#verified?.state.dead === true) {
      this.#checkedAt = Infinity
      this.#verified = undefined
      this.#result = this.#check()
        .then(() => this.#note({}), (failed: unknown) => this.#note({ failed }))
        .finally(() => {
          this.#checkedAt = performance.now()
        })
    }
    return this.#result
  }

  /** Closes the connection; `reachable` resolves to false from now on. */
  async close (): Promise<void> {
    this.#closed.abort()
    await this.#result
    this.#checkedAt = Infinity
    this.#verified = undefined
    this.#result = Promise.resolve(false)
    if (this.#connection !== undefined) await closeConnection(this.#connection)
  }

  async #check (): Promise<void> {
    const connection = await this.#connect()
    await withTimeout(TIMEOUT_MS, connection, connection => query(connection, 'select 1'))
    this.#verified = connection
  }

  /** Returns whether the check succeeded. */
  #note (change: Parameters<OnChange>[0]): boolean {
    const failing = 'failed' in change
    if (failing !== this.#failing && !this.#closed.signal.aborted) this.#onChange(change)
    this.#failing = failing
    return !failing
  }

  async #connect (): Promise<Connection> {
    const current = this.#connection
    if (current !== undefined && !isUsable(current)) await closeConnection(current)
    if (current !== undefined && !current.state.dead) return current
    const { signal } = this.#closed
    this.#connection = await openConnection(this.#target, { roleSettings: false, signal })
    return this.#connection
  }
}
