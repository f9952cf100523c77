/**
 * The goals of the benchmark: each figure, its goal, and whether it was reached. Figures that were
 * missed or not measured are included.
 */
import { contenders } from './contenders.ts'
import {
  cpuPerBatch,
  ratioOf,
  spreadOf,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Cost,
  type Spread
} from './record.ts'

export interface Goal {
  readonly work: string
  readonly against: string
  /** Undefined: not measured. */
  readonly figure: Spread | undefined
  /** `×` for ratios, '' for counts. */
  readonly unit: '×' | ''
  readonly atLeast?: number
  readonly atMost?: number
}

const {
  oneflight,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'postgres.js': postgresJs,
  pg,
  postgraphile
} = contenders

/** A cost may grow by this factor, which is the difference between slices. */
const NOISE = 1.15

/** Returns all goals, in the order of the page. */
export function goalsOf (record: BenchRecord): readonly Goal[] {
  return [
    ...orderGoals(record),
    ...hotRowGoals(record),
    ...roundTripGoals(record),
    ...sizeGoals(record)
  ]
}

function hotRowGoals (record: BenchRecord): readonly Goal[] {
  const hot = find(record, 'invoice', 2)
  return [
    {
      work: 'one hot row, 4 operations, 2 ms round trip',
      against: awaits.name,
      figure: paceRatio(hot, awaits.name),
      unit: '×',
      atLeast: 8
    },
    {
      work: 'the same',
      against: inBegin.name,
      figure: paceRatio(hot, inBegin.name),
      unit: '×',
      atLeast: 2
    },
    {
      work: 'the same',
      against: `${bare.name} (the limit)`,
      figure: paceRatio(hot, bare.name),
      unit: '×'
    }
  ]
}

function orderGoals (record: BenchRecord): readonly Goal[] {
  const order = find(record, 'order', 0)
  return [
    {
      work: 'order of 5 operations, 0 ms',
      against: postgresJs.name,
      figure: paceRatio(order, postgresJs.name),
      unit: '×',
      atLeast: 1.3
    },
    {
      work: 'the same, Node CPU per batch',
      against: postgresJs.name,
      figure: cpuRatio(order, postgresJs.name),
      unit: '×',
      atMost: 1
    },
    {
      work: 'order of 5 operations, 0 ms',
      against: pg.name,
      figure: paceRatio(order, pg.name),
      unit: '×'
    },
    {
      work: 'the same, Node CPU per batch',
      against: pg.name,
      figure: cpuRatio(order, pg.name),
      unit: '×'
    },
    {
      work: 'order of 5 operations, ids chosen by the client',
      against: postgraphile.name,
      figure: paceRatio(find(record, 'order with ids', 0), postgraphile.name),
      unit: '×',
      atLeast: 4
    },
    {
      work: 'order of 5 operations, 0 ms',
      against: 'pgbench -M prepared',
      figure: paceRatio(order, 'pgbench -M prepared'),
      unit: '×',
      atLeast: 0.5
    }
  ]
}

function roundTripGoals (record: BenchRecord): readonly Goal[] {
  const own = record.wire.filter(({ name }) => name === oneflight.name)
  return [
    {
      work: 'round trips of a batch, 1 to 100 operations',
      against: '–',
      figure: spreadOf(own.map(({ roundTrips }) => roundTrips)),
      unit: '',
      atMost: 3
    },
    {
      work: 'round trips while a lock is held',
      against: '–',
      figure: spreadOf(own.map(({ underLock }) => underLock)),
      unit: '',
      atMost: 0
    }
  ]
}

/** The goals for many rows, large responses and many operations. */
function sizeGoals (record: BenchRecord): readonly Goal[] {
  return [
    ...record.bulk.map(({ what, rows, reference, oneflight, other }): Goal => ({
      work: `${what} of ${show(rows)} rows in one operation`,
      against: reference,
      figure: between(spreadOf(other), spreadOf(oneflight)),
      unit: '×',
      atLeast: 0.8
    })),
    ...record.memory.map(({ answerBytes, before, peak }): Goal => ({
      work: 'memory growth by one response, in multiples of its size',
      against: `a response of ${(answerBytes / 1e6).toFixed(0)} MB`,
      figure: spreadOf(
        peak.flatMap((most, i) => most === null ? [] : [(most - (before[i] ?? 0)) / answerBytes])
      ),
      unit: '×',
      atMost: 3
    })),
    costGoal('operation', record.perOperation),
    costGoal('row', record.perRow)
  ]
}

function costGoal (what: string, costs: readonly Cost[]): Goal {
  return {
    work: `cost of one ${what}, largest growth from a smaller to a larger number`,
    against: `${show(costs[0]?.size ?? 0)} to ${show(costs.at(-1)?.size ?? 0)} ${what}s`,
    figure: steepest(costs),
    unit: '×',
    atMost: NOISE
  }
}

/** Returns undefined if the figure was not measured or has no goal. */
export function isReached ({ figure, atLeast, atMost }: Goal): boolean | undefined {
  if (figure === undefined || (atLeast === undefined && atMost === undefined)) return undefined
  return figure.median >= (atLeast ?? -Infinity) && figure.median <= (atMost ?? Infinity)
}

/** Returns the goals as lines of text. */
export function renderGoals (record: BenchRecord): string {
  return goalsOf(record).filter(({ figure }) => figure !== undefined).map(goal =>
    `${showFigure(goal).padStart(24)}  ${showGoal(goal).padEnd(8)} ${
      showVerdict(goal).padEnd(8)
    } ${goal.work}; ${goal.against}`
  ).join('\n')
}

/** Formats a figure: `8.1× (7.9–8.4)`. */
export function showFigure ({ figure, unit }: Pick<Goal, 'figure' | 'unit'>): string {
  if (figure === undefined) return 'not measured'
  const { median, least, most } = figure
  return least === most
    ? `${show(median)}${unit}`
    : `${show(median)}${unit} (${show(least)}–${show(most)})`
}

export function showGoal ({ unit, atLeast, atMost }: Goal): string {
  return atLeast !== undefined
    ? `≥ ${atLeast}${unit}`
    : atMost !== undefined
      ? `≤ ${atMost}${unit}`
      : '–'
}

export function showVerdict (goal: Goal): string {
  const reached = isReached(goal)
  return reached === undefined ? '' : reached ? 'reached' : 'missed'
}

/** Formats a number with three significant digits; from 100 on as a whole number. */
export function show (value: number): string {
  return Math.abs(value) >= 100
    ? value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ' ')
    : String(Number(value.toPrecision(3)))
}

export function find (
  record: BenchRecord,
  work: string,
  roundTripMs: number
): Comparison | undefined {
  return record.comparisons.find(comparison =>
    comparison.work === work && comparison.roundTripMs === roundTripMs
  )
}

/** The throughput of Oneflight, divided by that of the other contender. */
export function paceRatio (comparison: Comparison | undefined, other: string): Spread | undefined {
  return between(
    throughputOf(slicesOf(comparison, oneflight.name)),
    throughputOf(slicesOf(comparison, other))
  )
}

/** The Node processor time per batch of Oneflight, divided by that of the other contender. */
function cpuRatio (comparison: Comparison | undefined, other: string): Spread | undefined {
  return between(
    cpuPerBatch(slicesOf(comparison, oneflight.name), 'nodeCpuMs'),
    cpuPerBatch(slicesOf(comparison, other), 'nodeCpuMs')
  )
}

/** The slices of one contender; none if it was not measured. */
export function slicesOf (
  comparison: Comparison | undefined,
  name: string
): Comparison['contenders'][number]['slices'] {
  return comparison?.contenders.find(contender => contender.name === name)?.slices ?? []
}

function between (one: Spread | undefined, other: Spread | undefined): Spread | undefined {
  return one === undefined || other === undefined ? undefined : ratioOf(one, other)
}

/** The largest growth of the cost from a smaller to a larger size. Undefined without sizes. */
function steepest (costs: readonly Cost[]): Spread | undefined {
  const growths = costs.flatMap((larger, i) =>
    costs.slice(0, i).flatMap(smaller => between(spreadOf(larger.ms), spreadOf(smaller.ms)) ?? [])
  )
  return growths.toSorted((a, b) => b.median - a.median)[0]
}
