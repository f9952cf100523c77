/**
 * The databases as plugins use them: their pools and their health.
 */
import type { Identity } from '../../schemas/token.ts'
import type { HealthCheck } from '../postgres/health-check.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { Compiler } from '../sql/compiler.ts'
import type { TransactionMode } from '../sql/frame/compiled-batch.ts'

/** The decorator `databases` of the database plugin. */
export interface Databases {
  /** One, or those of DATABASE_ROUTES. */
  readonly all: readonly Database[]
  /** Returns the database of a request. A batch uses no other one. */
  of(identity: Identity): Database
  /**
   * Resolves to undefined as soon as one database answers whose pool is not stuck. The others do
   * not count: while one database is down, batches for the others must still arrive.
   */
  problem(): Promise<DatabaseProblem | undefined>
}

/** Why no database can run batches: none answers, or none has a connection to give. */
export type DatabaseProblem = 'database' | 'pool'

/** A database with its replica. */
export interface Database {
  readonly pool: ConnectionPool
  /** Each database has its own, because it contains what is known about types. */
  readonly compiler: Compiler
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

/** See Databases.problem. */
export async function findProblem (
  databases: readonly Database[]
): Promise<DatabaseProblem | undefined> {
  const usable = databases.filter(({ pool }) => !pool.isStuck())
  if (usable.length === 0) return 'pool'
  const checks = usable.map(async ({ probe }) => {
    if (!await probe.reachable()) throw new Error('not reachable')
  })
  return await Promise.any(checks).then(() => undefined, () => 'database')
}
