/**
 * Lists the tables that a role may use, for clients.
 */
import postgres from 'postgres'
import { Failure, failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/postgres.ts'
import { withTimeout, millisecondsUntil } from '../postgres/connection.ts'
import { Lease, type AcquireOptions, type ConnectionPool } from '../postgres/pool.ts'
import {
  describeOutside,
  responseTooLarge,
  type FailureOptions
} from '../transaction/to-failure.ts'
import { listTables, type TableOptions } from './read-tables.ts'

export interface ListOptions
  extends TableOptions, FailureOptions, Pick<AcquireOptions, 'clientClosed'> {
  readonly role: string
  readonly maxBytes: number
  /** A time of performance.now(). */
  readonly deadline: number
}

/**
 * Returns a JSON array as text: `tables` of TableList (schemas/http.ts). Throws the Failure that
 * the client gets.
 */
export async function listTablesOf (pool: ConnectionPool, options: ListOptions): Promise<string> {
  const { deadline, clientClosed, maxBytes } = options
  using lease = new Lease(pool, await pool.acquire(deadline, { clientClosed }))
  try {
    const list = await withTimeout(millisecondsUntil(deadline), lease.connection, connection =>
      listTables(connection, options))
    if (list === undefined) throw responseTooLarge(maxBytes, { op: null, index: null })
    return list
  } catch (error) {
    if (error instanceof Failure) throw error
    if (error instanceof postgres.PostgresError && error.severity === 'ERROR') {
      throw describeOutside(error as DatabaseError, 'session', options)
    }
    throw failure(performance.now() < deadline ? 'database_unavailable' : 'deadline_exceeded')
  }
}
