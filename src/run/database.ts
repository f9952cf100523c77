/**
 * The database as the plugins know it: where batches fly and how its health is asked.
 */
import type { LanePool } from './pool.ts'
import type { Probe } from './probe.ts'

/** Decorator `database`, made by the db plugin. */
export interface Database { readonly pool: LanePool, readonly probe: Probe }
