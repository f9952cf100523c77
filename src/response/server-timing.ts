/**
 * What took how long, for `Server-Timing` (W3C): entries in the order in which it happened, in
 * milliseconds.
 */
import type { BatchReport, OperationReport } from '../transaction/report.ts'

/**
 * Times of performance.now(): when the request came, its body was read, its statements were
 * written, its answer was known.
 */
export interface Milestones {
  readonly received: number
  readonly read: number
  readonly compiled: number
  readonly answered: number
}

/** Of many operations the slowest are named: clients take headers of 16 KiB or less. */
const MOST_OPERATIONS = 20
/** Longer ids are left out. */
const LONGEST_ID = 63

/** The value of the header. Without a report nothing was run: the batch was answered by its key. */
export function renderTiming (
  { received, read, compiled, answered }: Milestones,
  report: BatchReport | undefined
): string {
  const took = report === undefined
    ? [entry('key', answered - compiled)]
    : [entry('wait', report.since - compiled), ...describe(report)]
  return [
    entry('request', read - received),
    entry('plan', compiled - read),
    ...took,
    entry('total', answered - received)
  ].join(', ')
}

/** `wait` ends when the statements of the last try are sent. */
function describe ({ ms, sessionMs = ms, operations }: BatchReport): readonly string[] {
  const slowest = new Set(
    operations.toSorted((one, other) => other.ms - one.ms).slice(0, MOST_OPERATIONS)
  )
  const named = operations.flatMap((operation, index) =>
    slowest.has(operation) ? [renderOperation(operation, index)] : []
  )
  const rest = ms - operations.reduce((sum, { ms }) => sum + ms, sessionMs)
  return [entry('session', sessionMs), ...named, entry('commit', rest)]
}

function renderOperation ({ id, ms }: OperationReport, index: number): string {
  // An operation id is an identifier: nothing in it needs an escape.
  return `${entry(`op${index}`, ms)}${id.length > LONGEST_ID ? '' : `;desc="${id}"`}`
}

function entry (name: string, ms: number): string {
  return `${name};dur=${Math.max(0, Math.round(ms * 1000) / 1000)}`
}
