/**
 * What plugins offer to each other by decorators, so that they need not import each other: the
 * databases, with their pools and their health, and metrics and spans of batches.
 */
import type { FastifyRequest } from 'fastify'
import type { IFastifyMetrics } from 'fastify-metrics'
import type { Identity } from '../../schemas/token.ts'
import type { Failure } from '../errors/catalogue.ts'
import type { HealthCheck } from '../postgres/health-check.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { Compiler } from '../sql/compiler.ts'
import type { TransactionMode } from '../sql/frame/compiled-batch.ts'
import type { RetryReason } from './outcome.ts'
import type { BatchReport } from './report.ts'

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

/** Every metric with its samples, as one process sends them to another. */
export type Snapshot = Awaited<
  ReturnType<InstanceType<IFastifyMetrics['client']['Registry']>['getMetricsAsJSON']>
>

/** Metrics in the text format of Prometheus, with their content type. */
export interface Exposition {
  readonly text: string
  readonly type: string
}

/** The server behind a pool; a label of metrics. */
export type Server = 'primary' | 'replica'

/** The labels of a pool. `route` is the name of a database of DATABASE_ROUTES. */
export interface PoolLabels {
  readonly server: Server
  readonly route?: string
}

/** Where a batch is counted beside the metrics of all batches. */
export interface BatchLabels {
  /** The name of a named batch. */
  readonly batch: string | undefined
  /** The name of a database of DATABASE_ROUTES. */
  readonly route: string | undefined
}

/** The decorator `observer` of the metrics plugin. */
export interface Observer {
  /** Counts a batch that was sent. */
  batch(report: BatchReport, labels: BatchLabels): void
  /** Counts another attempt at a batch. */
  retry(reason: RetryReason): void
  /** Counts a batch whose position the replica did not reach in time. */
  replicaBehind(): void
  /** Registers the gauges of the pools, which are read at every scrape. */
  pools(pools: ReadonlyMap<PoolLabels, Pick<ConnectionPool, 'count'>>): void
  /** Registers the gauge of the databases of DATABASE_ROUTES, by name. */
  routes(probes: ReadonlyMap<string, Pick<HealthCheck, 'reachable'>>): void
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
