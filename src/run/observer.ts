/**
 * What listens to the engine. Plugins meet by these names and not by importing each other.
 */
import type { RetryReason } from './landed.ts'
import type { LaneCount } from './pool.ts'
import type { BatchReport } from './report.ts'

/** Decorator `observer`, made by the metrics plugin. */
export interface Observer {
  /** Counts a batch that reached BEGIN. */
  batch (report: BatchReport): void
  /** Counts a further flight of a batch. */
  retry (reason: RetryReason): void
  /** Registers the gauges of the pool; `count` is asked at every scrape. */
  pool (count: () => LaneCount): void
  /** The metrics in Prometheus' text format, with its content type. */
  scrape (): Promise<{ readonly text: string, readonly type: string }>
}
