/**
 * What one batch costs: the inputs of the model. They come from bench/results.json and, for what
 * the benchmark does not measure, from test/experiments/growth/measured.json.
 */
import { contenders } from '../../../bench/contenders.ts'
import { find, slicesOf } from '../../../bench/goals.ts'
import {
  cpuPerBatch,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Spread
} from '../../../bench/record.ts'
import type { Measured } from './measured.ts'

/** The round trip inside one zone of a cloud, with which the order was measured. */
const ROUND_TRIP_MS = 0.5

/** Times are in milliseconds. */
export interface Costs {
  /** Batches per second of one process with ten connections. */
  readonly today: number
  /** Processor time of the order of 5 operations. */
  readonly serviceMs: number
  readonly databaseMs: number
  /** Processor time of a batch with one select. */
  readonly readDatabaseMs: number
  readonly balancerMs: number
  readonly roundTripMs: number
  /** One flush of the log to the disk. */
  readonly flushMs: number
  /** Batches per second that change the same row. */
  readonly hotRow: number
  readonly walBytes: number
}

/** Takes the costs from the records. Throws if one was not measured. */
export function costsOf (bench: BenchRecord, measured: Measured): Costs {
  const order = slicesOf(find(bench, 'order', ROUND_TRIP_MS), contenders.oneflight.name)
  const read = slicesOf(find(bench, 'read', 0), contenders.oneflight.name)
  const hot = bench.comparisons.filter(({ work }) => work === 'invoice').map(paceOf)
  const serviceMs = median(cpuPerBatch(order, 'node'))
  return {
    today: median(throughputOf(order)),
    serviceMs,
    databaseMs: median(cpuPerBatch(order, 'postgres')),
    readDatabaseMs: median(cpuPerBatch(read, 'postgres')),
    balancerMs: measured.balancerPerService * serviceMs,
    roundTripMs: find(bench, 'order', ROUND_TRIP_MS)?.measuredRoundTripMs ?? ROUND_TRIP_MS,
    flushMs: measured.flushMs,
    hotRow: Math.max(...hot),
    walBytes: measured.walBytes
  }
}

function paceOf (comparison: Comparison): number {
  return median(throughputOf(slicesOf(comparison, contenders.oneflight.name)))
}

function median (figure: Spread | undefined): number {
  if (figure === undefined) throw new Error('the benchmark has not measured a cost of the model')
  return figure.median
}
