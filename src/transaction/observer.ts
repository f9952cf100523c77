/**
 * What listens to the engine. Plugins meet by these names and not by importing each other.
 */
import type { FastifyRequest } from 'fastify'
import type { IFastifyMetrics } from 'fastify-metrics'
import type { Failure } from '../errors/catalogue.ts'
import type { RetryReason } from './outcome.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { BatchReport } from './report.ts'

/** Every metric with its samples, as one process tells them to another. */
export type Snapshot = Awaited<
  ReturnType<InstanceType<IFastifyMetrics['client']['Registry']>['getMetricsAsJSON']>
>

/** Metrics in Prometheus' text format, with its content type. */
export interface Exposition {
  readonly text: string
  readonly type: string
}

/** What the server behind a pool is to the batches; a label of metrics. */
export type Server = 'primary' | 'replica'

/** Decorator `observer`, made by the metrics plugin. */
export interface Observer {
  /** Counts a batch that reached BEGIN. */
  batch(report: BatchReport): void
  /** Counts a further flight of a batch. */
  retry(reason: RetryReason): void
  /**
   * Registers the gauges of the pools by what their servers are; they are asked at every scrape.
   */
  pools(pools: ReadonlyMap<Server, Pick<ConnectionPool, 'count'>>): void
  scrape(): Promise<Exposition>
  /** The same for a process that adds up those of several. */
  snapshot(): Promise<Snapshot>
}

/**
 * Decorator `spans`, made by the tracing plugin: what a trace is told. All of it does nothing
 * when the request is not traced.
 */
export interface Spans {
  /** A batch that reached BEGIN, and its operations, with the failure that it ended in. */
  batch(request: FastifyRequest, report: BatchReport, failure: Failure | undefined): void
  /** A further flight of a batch. */
  retry(request: FastifyRequest, reason: RetryReason): void
}
