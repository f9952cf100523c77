/**
 * The database as the plugins know it: where batches fly and how its health is asked.
 */
import type { Mode } from './attempt.ts'
import type { LanePool } from '../postgres/pool.ts'
import type { Probe } from '../postgres/health-check.ts'

/** Decorator `database`, made by the db plugin. */
export interface Database {
  readonly pool: LanePool
  /** The lanes of DATABASE_REPLICA_URL. */
  readonly replica: LanePool | undefined
  readonly probe: Probe
}

/**
 * Where a batch flies: what is read-only on the replica, when there is one, everything else on the
 * primary.
 */
export function poolFor (
  { pool, replica = pool }: Database,
  { access }: Pick<Mode, 'access'>
): LanePool {
  return access === 'read-only' ? replica : pool
}
