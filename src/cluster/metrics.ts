/**
 * The metrics of several processes as those of one service. In charge of how each is added up, and
 * of what workers counted that are no more: a counter never goes back. Who is asked, and when, is
 * not known here.
 */
import Fastify from 'fastify'
import { borrowClient } from '../../plugins/metrics.ts'
import type { Exposition, Snapshot } from '../transaction/observer.ts'

export interface ClusterMetrics {
  /** What a worker has counted since its start; the last word counts. */
  take(worker: number, snapshot: Snapshot): void
  /** The worker has ended: what it had counted stays, what it had in use does not. */
  end(worker: number): void
  scrape(): Promise<Exposition>
}

type Metric = Snapshot[number]

/** Begins to count for this process, too. */
export async function createClusterMetrics (): Promise<ClusterMetrics> {
  // An app that never listens: the client library is to be had by way of one.
  const client = await borrowClient(Fastify())
  const own = new client.Registry()
  client.collectDefaultMetrics({ register: own })
  const latest = new Map<number, Snapshot>()
  let ended: Snapshot = []
  const add = (snapshots: readonly Snapshot[]) =>
    client.AggregatorRegistry.aggregate(snapshots.map(metrics => metrics.map(withRule)))
  return {
    take (worker, snapshot) {
      latest.set(worker, snapshot)
    },
    end (worker) {
      const counted = (latest.get(worker) ?? []).filter(({ type }) =>
        COUNTED.includes(String(type))
      )
      latest.delete(worker)
      // At once and not awaited, so that no scrape falls in between.
      ended = add([ended, counted]).getMetricsAsArray() as Snapshot
    },
    async scrape () {
      // What Node measures of this process, which only hands connections on, would dilute that of
      // the workers.
      const mine = (await own.getMetricsAsJSON()).filter(({ name }) => name.startsWith('process_'))
      const all = add([ended, ...latest.values(), mine])
      return { text: await all.metrics(), type: all.contentType }
    }
  }
}

const COUNTED: readonly string[] = ['counter', 'histogram']

/**
 * Sums, with these exceptions. The library's own rules would leave out the time of the start, and
 * take the mean of lags and percentiles, which hides the one process that hangs; quantiles of a
 * summary cannot be added up at all (a histogram of the same is there).
 */
function withRule (metric: Metric): Metric {
  return { ...metric, aggregator: ruleOf(metric) }
}

function ruleOf ({ name, type, aggregator }: Metric): Metric['aggregator'] {
  if (String(type) === 'summary') return 'omit'
  if (name === 'process_start_time_seconds' || name === 'nodejs_eventloop_lag_min_seconds') {
    return 'min'
  }
  if (name.startsWith('nodejs_eventloop_lag_')) return 'max'
  return aggregator
}
