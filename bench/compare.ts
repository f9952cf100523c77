/**
 * Runs contenders under the same load, in turns (A B A B A B), and measures their processor time.
 * Fails if a contender did less work than requested, or different work.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Sql } from 'postgres'
import { CONNECTIONS, type Pace, type Side } from './contenders.ts'
import { cpuOf, cpuOfServer } from './cpu.ts'
import type { Comparison, Slice } from './record.ts'
import { clearQuery, traceQueries, traces, type Work } from './requests.ts'

/** How much is measured of each contender. */
export interface Measure {
  readonly slices: number
  /** The approximate length of a slice. */
  readonly seconds: number
  /** The warm-up ends after this many batches or seconds. */
  readonly warmUp: { readonly batches: number, readonly seconds: number }
}

/** The work of a comparison, and the database on which it is done. */
export interface Workload {
  readonly work: Work
  readonly sql: Sql
  /** The process id of the postmaster, if its processor time can be read. */
  readonly pid?: number | undefined
}

/** Batches per step of the warm-up. */
const STEP = CONNECTIONS * 25

/**
 * Runs the same number of batches on each side, because V8 compiles code as it is used. It needs no
 * added round trip. Throws if the responses of the sides differ.
 */
export async function warmUp (
  sides: readonly Side[],
  workload: Workload,
  { warmUp: { batches, seconds } }: Measure
): Promise<void> {
  compareGists(sides)
  for (const side of sides) {
    const start = performance.now()
    for (let done = 0; done < batches && performance.now() - start < seconds * 1000; done += STEP) {
      await runChecked(side, workload, Math.min(STEP, batches))
    }
  }
}

/**
 * Takes slices of all sides in turns. Throws if one fails, or if the rows in the database do not
 * match the responses.
 */
export async function takeTurns (
  sides: readonly Side[],
  workload: Workload,
  { slices, seconds }: Measure
): Promise<Comparison['contenders']> {
  const lengths: number[] = []
  for (const side of sides) {
    // Two steps: a few batches are not enough to estimate a whole slice of a fast contender.
    const first = await runChecked(side, workload, CONNECTIONS * 2)
    const second = await runChecked(side, workload, batchesFor(first, seconds / 5))
    lengths.push(batchesFor(second, seconds))
  }
  const taken: Slice[][] = sides.map(() => [])
  for (let turn = 0; turn < slices; turn++) {
    for (const [i, side] of sides.entries()) {
      taken[i]?.push(await takeSlice(side, workload, lengths[i] as number))
    }
  }
  return sides.map(({ name }, i) => ({ name, slices: taken[i] as Slice[] }))
}

/** Returns a number of batches that takes about this long, the same for each connection. */
function batchesFor ({ batches, seconds }: Pace, wanted: number): number {
  return Math.max(1, Math.round(batches / seconds * wanted / CONNECTIONS)) * CONNECTIONS
}

/** Runs batches, and measures their processor time without that of the checks. */
async function takeSlice (side: Side, workload: Workload, batches: number): Promise<Slice> {
  const cpu = () => ({
    node: side.pid === undefined ? undefined : cpuOf(side.pid),
    postgres: cpuOfServer(workload.pid)
  })
  const before = await prepareRows(workload)
  const start = cpu()
  const pace = await side.run(batches)
  const end = cpu()
  checkRows({ side, workload, before, after: await countRows(workload), batches })
  const spent = (from: number | undefined, to: number | undefined): number | null =>
    from === undefined || to === undefined ? null : to - from
  return {
    batches,
    seconds: pace.seconds,
    p50Ms: pace.p50Ms ?? null,
    p99Ms: pace.p99Ms ?? null,
    nodeCpuMs: spent(start.node, end.node),
    postgresCpuMs: spent(start.postgres, end.postgres)
  }
}

/** Runs batches and checks the rows that they add. */
async function runChecked (side: Side, workload: Workload, batches: number): Promise<Pace> {
  const before = await prepareRows(workload)
  const pace = await side.run(batches)
  checkRows({ side, workload, before, after: await countRows(workload), batches })
  return pace
}

type RowCounts = Readonly<Record<string, number>>

/** Removes the rows of the last slice, if the work has to, and counts those that are left. */
async function prepareRows (workload: Workload): Promise<RowCounts> {
  const clear = clearQuery(workload.work)
  if (clear !== undefined) await workload.sql.unsafe(clear)
  return countRows(workload)
}

async function countRows ({ work, sql }: Workload): Promise<RowCounts> {
  const [row = {}] = await sql.unsafe(traceQueries[work])
  return Object.fromEntries(Object.entries(row).map(([name, count]) => [name, Number(count)]))
}

interface RowCheck {
  readonly side: Side
  readonly workload: Workload
  readonly before: RowCounts
  readonly after: RowCounts
  readonly batches: number
}

/** Throws unless the batches added exactly the rows of their work. */
function checkRows ({ side, workload: { work }, before, after, batches }: RowCheck): void {
  const wrong = Object.entries(traces[work]).flatMap(([what, perBatch]) => {
    const [found, wanted] = [(after[what] ?? 0) - (before[what] ?? 0), perBatch * batches]
    return found === wanted ? [] : [`${what}: ${found} instead of ${wanted}`]
  })
  if (wrong.length > 0) {
    throw new Error(
      `${side.name} did not do the work of ${batches} batches (${work}): ${wrong.join(', ')}`
    )
  }
}

/** Throws unless all sides with a response returned the same. */
function compareGists (sides: readonly Side[]): void {
  const responding = sides.filter(({ gist }) => gist !== undefined)
  const [first] = responding
  const other = responding.find(({ gist }) => !isDeepStrictEqual(gist, first?.gist))
  if (first === undefined || other === undefined) return
  const [one, another] = [first, other].map(({ name, gist }) => `${name} ${JSON.stringify(gist)}`)
  throw new Error(`different responses: ${one}, ${another}`)
}
