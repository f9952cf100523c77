/**
 * What plugins offer to each other by decorators, so that they need not import each other: the
 * database, with its pools and its health, and metrics and spans of batches.
 */
import type { Registry } from '@prometheus-io/client'
import type { FastifyRequest } from 'fastify'
import type { Failure } from '../errors/catalogue.ts'
import type { HealthCheck } from '../postgres/health-check.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { Compiler } from '../sql/compiler.ts'
import type { TransactionMode } from '../sql/frame/compiled-batch.ts'
import type { RetryReason } from './outcome.ts'
import type { BatchReport } from './report.ts'

/** Why the database can run no batch: it does not answer, or its pool has no connection to give. */
export type DatabaseProblem = 'database' | 'pool'

/** The decorator `database` of the database plugin. */
export interface Database {
  readonly pool: ConnectionPool
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

/** Resolves to undefined when the database answers and its pool is not stuck. */
export async function findProblem (
  { pool, probe }: Database
): Promise<DatabaseProblem | undefined> {
  if (pool.isStuck()) return 'pool'
  return await probe.reachable() ? undefined : 'database'
}

/** Every metric with its samples, as one process sends them to another. */
export type Snapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** Metrics in the text format of Prometheus, with their content type. */
export interface Exposition {
  readonly text: string
  readonly type: string
}

/** The server behind a pool; a label of metrics. */
export type Server = 'primary' | 'replica'

/** The decorator `observer` of the metrics plugin. */
export interface Observer {
  /** Counts a batch that was sent. `name`: that of a named batch. */
  batch(report: BatchReport, name: string | undefined): void
  /** Counts another attempt at a batch. */
  retry(reason: RetryReason): void
  /** Counts a batch whose position the replica did not reach in time. */
  replicaBehind(): void
  /** Registers the gauges of the pools, which are read at every scrape. */
  pools(pools: ReadonlyMap<Server, Pick<ConnectionPool, 'count'>>): void
  scrape(): Promise<Exposition>
  /** The metrics for a process that adds up those of several. */
  snapshot(): Promise<Snapshot>
}

/** The decorator `spans` of the tracing plugin. It does nothing for requests without a trace. */
export interface Spans {
  /** Records a batch that was sent, its operations, and its failure. */
  batch(request: FastifyRequest, report: BatchReport, failure: Failure | undefined): void
  /** Records another attempt at a batch. */
  retry(request: FastifyRequest, reason: RetryReason): void
}
