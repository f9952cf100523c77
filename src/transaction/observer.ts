/**
 * What plugins offer to each other by decorators, so that they need not import each other: metrics
 * and spans of batches.
 */
import type { FastifyRequest } from 'fastify'
import type { IFastifyMetrics } from 'fastify-metrics'
import type { Failure } from '../errors/catalogue.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { RetryReason } from './outcome.ts'
import type { BatchReport } from './report.ts'

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

/** The decorator `observer` of the metrics plugin. */
export interface Observer {
  /** Counts a batch that was sent, and that has a name if it is a named one. */
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
