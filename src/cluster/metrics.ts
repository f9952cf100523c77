/**
 * Adds up the metrics of all workers. The counters of workers that have exited are kept, so that a
 * counter never decreases.
 */
import client from '@prometheus-io/client'
import type { Exposition, Snapshot } from '../transaction/decorators.ts'

export type ClusterMetrics = ReturnType<typeof createClusterMetrics>

type Metric = Snapshot[number]

/** Creates the aggregation, and starts to collect the process metrics of this process. */
export function createClusterMetrics () {
  const own = new client.Registry()
  client.collectDefaultMetrics({ register: own })
  const latest = new Map<number, Snapshot>()
  let ended: Snapshot = []
  const add = (snapshots: readonly Snapshot[]) =>
    client.AggregatorRegistry.aggregate(snapshots.map(metrics =>
      metrics.map(metric => ({ ...metric, aggregator: aggregatorOf(metric) }))))
  return {
    /** Takes the current metrics of a worker and replaces its earlier ones. */
    take (worker: number, snapshot: Snapshot): void {
      latest.set(worker, snapshot)
    },
    /** The worker has exited: keeps its counters and drops its gauges. */
    end (worker: number): void {
      const counted = (latest.get(worker) ?? []).filter(({ type }) =>
        COUNTED.includes(String(type))
      )
      latest.delete(worker)
      // Synchronous, so that no scrape sees the counters missing.
      ended = add([ended, counted]).getMetricsAsArray() as Snapshot
    },
    async scrape (): Promise<Exposition> {
      // Node's event loop metrics of this process would dilute those of the workers.
      const mine = (await own.getMetricsAsJSON()).filter(({ name }) => name.startsWith('process_'))
      const all = add([ended, ...latest.values(), mine])
      return { text: await all.metrics(), type: all.contentType }
    }
  }
}

const COUNTED: readonly string[] = ['counter', 'histogram']

/**
 * Metrics are summed, except for these. The library's own rules omit the start time, and average
 * lags and percentiles, which hides a single process that hangs. Quantiles of a summary cannot be
 * added; there is a histogram of the same measurements.
 */
function aggregatorOf ({ name, type, aggregator }: Metric): Metric['aggregator'] {
  if (String(type) === 'summary') return 'omit'
  if (name === 'process_start_time_seconds' || name === 'nodejs_eventloop_lag_min_seconds') {
    return 'min'
  }
  if (name.startsWith('nodejs_eventloop_lag_')) return 'max'
  return aggregator
}
