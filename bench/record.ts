/**
 * What a run leaves in `bench/results.json`, and the figures that are made of it.
 *
 * In charge of: the shape, medians and spreads. Refuses to: round anything; what is shown is the
 * report's affair.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Ms of round trip at which the hot row is measured. */
export const ROUND_TRIPS = [0, 2, 10] as const

export const resultsFile = join(import.meta.dirname, 'results.json')

/** One slice of one contender. Processor times (ms) are null where they could not be read. */
export interface Slice {
  readonly batches: number
  readonly seconds: number
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly nodeCpuMs: number | null
  readonly postgresCpuMs: number | null
}

/** Contenders that did the same work in turns. */
export interface Comparison {
  readonly work: string
  readonly roundTripMs: number
  /** The median of `select 1` through what gives the round trip. */
  readonly measuredRoundTripMs: number
  readonly contenders: ReadonlyArray<{ readonly name: string, readonly slices: readonly Slice[] }>
}

/** Ms of one unit of work at each size, one element for each slice. */
export interface Cost {
  readonly size: number
  readonly ms: readonly number[]
}

/** One operation with many rows: seconds of each repetition. */
export interface Bulk {
  readonly what: 'insert' | 'select'
  readonly rows: number
  /** Bytes of the rows as JSON. */
  readonly bytes: number
  readonly reference: string
  readonly oneflight: readonly number[]
  readonly other: readonly number[]
}

export interface Memory {
  readonly answerBytes: number
  /**
   * Resident memory (bytes) before the answer and at its peak; null where there is no /proc. One
   * element for each fresh process.
   */
  readonly before: ReadonlyArray<number | null>
  readonly peak: ReadonlyArray<number | null>
}

export interface Wire {
  readonly name: string
  readonly work: string
  readonly roundTrips: number
  readonly underLock: number
}

/** All of it. A part that was not run is missing. */
export interface BenchRecord {
  /** ISO 8601. */
  readonly date: string
  readonly seconds: number
  readonly commit: string
  /** Whether the tree differed from the commit in what is measured. */
  readonly changed: boolean
  /**
   * `loadBefore`: processes that wanted to run in the minute before; anything but about 0 is
   * somebody else.
   */
  readonly machine: {
    readonly cpu: string,
    readonly cores: number,
    readonly memoryGiB: number,
    readonly os: string,
    readonly loadBefore: number
  }
  readonly versions: Readonly<Record<string, string>>
  readonly database: { readonly kind: string, readonly settings: Readonly<Record<string, string>> }
  readonly connections: number
  readonly slices: {
    readonly count: number,
    readonly seconds: number,
    readonly warmUpBatches: number
  }
  readonly comparisons: readonly Comparison[]
  readonly wire: readonly Wire[]
  readonly bulk: readonly Bulk[]
  readonly memory: readonly Memory[]
  readonly perOperation: readonly Cost[]
  readonly perRow: readonly Cost[]
}

/** What was measured, as it is written. */
export function readRecord (file = resultsFile): BenchRecord {
  return JSON.parse(readFileSync(file, 'utf8')) as BenchRecord
}

/** Median with the least and the most. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** Undefined of no values. */
export function spreadOf (values: readonly number[]): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const [least, most] = [sorted[0], sorted.at(-1)]
  if (least === undefined || most === undefined) return undefined
  const [low, high] = [
    sorted[Math.floor((sorted.length - 1) / 2)] as number,
    sorted[Math.ceil((sorted.length - 1) / 2)] as number
  ]
  return { median: (low + high) / 2, least, most }
}

/** Batches a second. */
export function throughputOf (slices: readonly Slice[]): Spread | undefined {
  return spreadOf(slices.map(({ batches, seconds }) => batches / seconds))
}

/** Processor time (ms) of one batch; undefined where it was not measured. */
export function cpuPerBatch (
  slices: readonly Slice[],
  of: 'nodeCpuMs' | 'postgresCpuMs'
): Spread | undefined {
  return spreadOf(slices.flatMap(slice => slice[of] === null ? [] : [slice[of] / slice.batches]))
}

/**
 * How many times `mine` is as much as `other`, with the least and the most that their spreads
 * allow.
 */
export function ratioOf (mine: Spread, other: Spread): Spread {
  return {
    median: mine.median / other.median,
    least: mine.least / other.most,
    most: mine.most / other.least
  }
}
