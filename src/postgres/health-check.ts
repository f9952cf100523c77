/**
 * Whether the database answers. The probe has a connection of its own, so that it never waits
 * behind batches, and remembers its answer for a second, so that many questions cost one query.
 * When the connection ends, it forgets that the database answered: the next question asks anew.
 */
import type { DatabaseTarget } from '../../schemas/database.ts'
import {
  query,
  closeConnection,
  isUsable,
  openConnection,
  withTimeout,
  type Connection
} from './connection.ts'

export interface HealthCheck {
  /**
   * true when the database answers now, or answered less than a second ago on a connection that is
   * still open; a host is given a second to answer.
   */
  reachable(): Promise<boolean>
  /** From now on the answer is false. */
  close(): Promise<void>
}

const REMEMBER_MS = 1000
const PATIENCE_MS = 1000

/**
 * Makes the probe; it opens its connection when it is first asked. `target` is given a second where
 * its own patience is longer.
 */
export function createHealthCheck (target: DatabaseTarget): HealthCheck {
  const impatient = { ...target, connectTimeoutMs: Math.min(target.connectTimeoutMs, PATIENCE_MS) }
  const unwanted = new AbortController()
  let connection: Connection | undefined
  /** The connection of the last answer when it was true. */
  let witness: Connection | undefined
  let answer = Promise.resolve(false)
  /**
   * When the last answer came; Infinity while one is awaited, so that there is never more than one
   * connection.
   */
  let answered = -Infinity

  const ask = async (): Promise<boolean> => {
    if (connection !== undefined && !isUsable(connection)) await closeConnection(connection)
    if (connection === undefined || connection.state.dead) {
      connection = await openConnection(impatient, { roleSettings: false, signal: unwanted.signal })
    }
    await withTimeout(PATIENCE_MS, connection, connection => query(connection, 'select 1'))
    witness = connection
    return true
  }
  return {
    reachable () {
      if (performance.now() - answered >= REMEMBER_MS || witness?.state.dead === true) {
        answered = Infinity
        witness = undefined
        answer = ask().catch(() => false).finally(() => {
          answered = performance.now()
        })
      }
      return answer
    },
    async close () {
      unwanted.abort()
      await answer
      answered = Infinity
      witness = undefined
      answer = Promise.resolve(false)
      if (connection !== undefined) await closeConnection(connection)
    }
  }
}
