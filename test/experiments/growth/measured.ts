/**
 * The record of `npm run growth`, test/experiments/growth/measured.json: costs that the benchmark
 * does not measure.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const measuredFile = join(import.meta.dirname, 'measured.json')

export interface Measured {
  /** ISO 8601. */
  readonly date: string
  readonly machine: { readonly cpu: string, readonly cores: number }
  /**
   * Processor time of the load balancer by that of the service: a ratio, because it holds on other
   * machines.
   */
  readonly balancerPerService: number
  /** Memory of one connection that has run batches, without what it shares. */
  readonly connectionBytes: number
  /** One flush of the write-ahead log (ms). */
  readonly flushMs: number
  /** Bytes of the write-ahead log for each batch. */
  readonly walBytes: number
}

export function readMeasured (): Measured {
  return JSON.parse(readFileSync(measuredFile, 'utf8')) as Measured
}
