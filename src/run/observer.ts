/**
 * What listens to the engine. Plugins meet by these names and not by importing each other.
 */
import type { BatchReport } from './report.ts'

export interface LaneCount {
  /** Lanes that carry a transaction. */
  readonly busy: number
  readonly idle: number
  /** Batches that wait for a lane. */
  readonly waiting: number
}

/** Decorator `observer`, made by the metrics plugin. */
export interface Observer {
  /** Counts a batch that reached BEGIN. */
  batch (report: BatchReport): void
  /** Registers the gauges of the pool; `count` is asked at every scrape. */
  pool (count: () => LaneCount): void
  /** The metrics in Prometheus' text format, with its content type. */
  scrape (): Promise<{ readonly text: string, readonly type: string }>
}
