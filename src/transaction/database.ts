/**
 * The database as the plugins know it: where batches fly and how its health is asked.
 */
import type { TransactionMode } from './compiled-batch.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { HealthCheck } from '../postgres/health-check.ts'

/** Decorator `database`, made by the db plugin. */
export interface Database {
  readonly pool: ConnectionPool
  /** The connections of DATABASE_REPLICA_URL. */
  readonly replica: ConnectionPool | undefined
  readonly probe: HealthCheck
}

/**
 * Where a batch flies: what is read-only on the replica, when there is one, everything else on the
 * primary.
 */
export function choosePool (
  { pool, replica = pool }: Database,
  { access }: Pick<TransactionMode, 'access'>
): ConnectionPool {
  return access === 'read-only' ? replica : pool
}
