/**
 * The results of a run in `bench/results.json`, and the statistics of their values. Nothing is
 * rounded here.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const resultsFile = join(import.meta.dirname, 'results.json')

/** One slice of one contender. Processor times (ms) are null if they could not be read. */
export interface Slice {
  readonly batches: number
  readonly seconds: number
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly nodeCpuMs: number | null
  readonly postgresCpuMs: number | null
}

/** Contenders that did the same work, in turns. */
export interface Comparison {
  readonly work: string
  readonly roundTripMs: number
  /** Whether the tables had triggers, and the function was volatile. */
  readonly guarded?: boolean
  /** The median time of `select 1` with this round trip. */
  readonly measuredRoundTripMs: number
  readonly contenders: ReadonlyArray<{ readonly name: string, readonly slices: readonly Slice[] }>
}

/** The cost (ms) of one unit at one size, one element per slice. */
export interface Cost {
  readonly size: number
  readonly ms: readonly number[]
}

/** One operation with many rows: the seconds of each repetition. */
export interface Bulk {
  readonly what: 'insert' | 'select'
  readonly rows: number
  /** The size of the rows as JSON. */
  readonly bytes: number
  readonly reference: string
  readonly oneflight: readonly number[]
  readonly other: readonly number[]
}

export interface Memory {
  readonly answerBytes: number
  /**
   * Resident memory (bytes) before the response and at its peak; null without /proc. One element
   * per new process.
   */
  readonly before: ReadonlyArray<number | null>
  readonly peak: ReadonlyArray<number | null>
}

/** Returns the bytes beyond those before, of each repetition that was measured. */
export function memoryBeyond ({ before, peak }: Pick<Memory, 'before' | 'peak'>): number[] {
  return peak.flatMap((bytes, i) => {
    const idle = before[i] ?? null
    return bytes === null || idle === null ? [] : [bytes - idle]
  })
}

/** An upload, or a stream: many rows that are never in memory at once, beside psql's `\copy`. */
export interface Large extends Pick<Memory, 'before' | 'peak'> {
  readonly what: 'upload' | 'stream'
  readonly rows: number
  /** The size of the body. */
  readonly bytes: number
  readonly oneflight: readonly number[]
  readonly other: readonly number[]
}

export interface Wire {
  readonly name: string
  readonly work: string
  /** On a connection that was idle for some time. */
  readonly roundTrips: number
  /** On a connection that has just run a batch. */
  readonly afterBatch: number
  /** The larger number of both. */
  readonly underLock: number
}

/** The results of a run. Parts that did not run are empty. */
export interface BenchRecord {
  /** ISO 8601. */
  readonly date: string
  readonly seconds: number
  readonly commit: string
  /** Whether measured files had uncommitted changes. */
  readonly changed: boolean
  /** `loadBefore`: the load average of the minute before. Above 0, other processes are active. */
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
  /** Missing in the results of earlier runs. */
  readonly large?: readonly Large[]
  readonly perOperation: readonly Cost[]
  readonly perRow: readonly Cost[]
}

/** Reads the recorded results. */
export function readRecord (file = resultsFile): BenchRecord {
  return JSON.parse(readFileSync(file, 'utf8')) as BenchRecord
}

/** The median, and a range around it: all values, or where the true median is. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** Returns the median, the minimum and the maximum. Undefined without values. */
export function spreadOf (values: readonly number[]): Spread | undefined {
  return rangeOf(values, 0)
}

/**
 * Returns the median, and the range that contains the true one with a probability of 95 %: it ends
 * 0.98 √n values before and after the middle. With five values it is that of all, and 94 %.
 */
export function medianOf (values: readonly number[]): Spread | undefined {
  const { length } = values
  return rangeOf(values, Math.max(0, Math.floor(length / 2 - 0.98 * Math.sqrt(length))))
}

/** The median of values, and their range without this number of values at each end. */
function rangeOf (values: readonly number[], left: number): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const [least, most] = [sorted[left], sorted[sorted.length - 1 - left]]
  if (least === undefined || most === undefined) return undefined
  const [low, high] = [
    sorted[Math.floor((sorted.length - 1) / 2)] as number,
    sorted[Math.ceil((sorted.length - 1) / 2)] as number
  ]
  return { median: (low + high) / 2, least, most }
}

/** Batches per second. */
export function throughputOf (slices: readonly Slice[]): Spread | undefined {
  return medianOf(slices.map(pace))
}

/** Whose processor time is meant. */
export type Processes = 'node' | 'postgres' | 'both'

/** The processor time (ms) per batch. Undefined if it was not measured. */
export function cpuPerBatch (slices: readonly Slice[], of: Processes): Spread | undefined {
  return medianOf(slices.flatMap(slice => cpu(slice, of) ?? []))
}

/** Divides the throughput of two contenders, turn by turn. */
export function throughputRatio (
  mine: readonly Slice[],
  other: readonly Slice[]
): Spread | undefined {
  return ratioOf(mine.map(pace), other.map(pace))
}

/** Divides the processor time per batch of two contenders, turn by turn. */
export function cpuRatio (
  mine: readonly Slice[],
  other: readonly Slice[],
  of: Processes
): Spread | undefined {
  return ratioOf(mine.map(slice => cpu(slice, of)), other.map(slice => cpu(slice, of)))
}

/**
 * Divides values that were measured in turns, each by the other one of its turn: the speed of a
 * shared machine changes from minute to minute. Turns in which one was not measured do not count.
 */
export function ratioOf (
  mine: ReadonlyArray<number | null>,
  other: ReadonlyArray<number | null>
): Spread | undefined {
  return medianOf(mine.flatMap((value, turn) => {
    const divisor = other[turn] ?? 0
    return value === null || divisor === 0 ? [] : [value / divisor]
  }))
}

function pace ({ batches, seconds }: Slice): number {
  return batches / seconds
}

function cpu ({ batches, nodeCpuMs, postgresCpuMs }: Slice, of: Processes): number | null {
  const parts = { node: [nodeCpuMs], postgres: [postgresCpuMs], both: [nodeCpuMs, postgresCpuMs] }
  const known = parts[of].flatMap(ms => ms ?? [])
  return known.length < parts[of].length
    ? null
    : known.reduce((sum, ms) => sum + ms, 0) / batches
}
