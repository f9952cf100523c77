/**
 * The database as plugins use it: its pools and its health.
 */
import type { TransactionMode } from './compiled-batch.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { HealthCheck } from '../postgres/health-check.ts'

/** The decorator `database` of the database plugin. */
export interface Database {
  readonly pool: ConnectionPool
  /** The connections of DATABASE_REPLICA_URL. */
  readonly replica: ConnectionPool | undefined
  readonly probe: HealthCheck
}

/** The pool for a batch: read-only batches use the replica if there is one. */
export function choosePool (
  { pool, replica = pool }: Database,
  { access }: Pick<TransactionMode, 'access'>
): ConnectionPool {
  return access === 'read-only' ? replica : pool
}
