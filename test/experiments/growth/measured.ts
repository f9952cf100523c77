/**
 * The record of `npm run growth`, test/experiments/growth/measured.json: costs that the benchmark
 * does not measure, and the service under loads that the simulation is compared with.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Slice } from './measure.ts'

export const measuredFile = join(import.meta.dirname, 'measured.json')

/** A service under one load. */
export interface Comparison {
  readonly poolSize: number
  readonly queueSize: number
  readonly roundTripMs: number
  /** Batches per second that were to arrive. */
  readonly rate: number
  readonly slice: Slice
  /** The slice of the same service with the lowest rate. */
  readonly calibration: Slice
}

/** The costs are ratios and sizes where they can be, because these hold on other machines. */
export interface Measured {
  /** ISO 8601. */
  readonly date: string
  readonly machine: { readonly cpu: string, readonly cores: number }
  /** Processor time of the load balancer by that of the service. */
  readonly balancerPerService: number
  /** Processor time of the service for a refusal by that for a batch. */
  readonly refusalPerBatch: number
  /** Processor time of PostgreSQL with unprepared statements by that with prepared ones. */
  readonly unpreparedPerPrepared: number
  /** Processor time of PostgreSQL beside idle connections by that without them. */
  readonly idleConnections: { readonly count: number, readonly ratio: number }
  /** Memory of one connection that has run batches, without what it shares. */
  readonly connectionBytes: number
  readonly walBytes: number
  readonly comparisons: readonly Comparison[]
}

export function readMeasured (file = measuredFile): Measured {
  return JSON.parse(readFileSync(file, 'utf8')) as Measured
}
