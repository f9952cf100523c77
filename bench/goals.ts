/**
 * The goals of the benchmark: each figure, its goal, and whether it was reached. Figures that were
 * missed or not measured are included.
 */
import { contenders } from './contenders.ts'
import {
  cpuRatio as divideCpu,
  ratioOf,
  memoryBeyond,
  spreadOf,
  throughputRatio,
  type BenchRecord,
  type Comparison,
  type Processes,
  type Spread
} from './record.ts'
import { words } from './words/words.ts'

export interface Goal {
  readonly work: string
  readonly against: string
  /** Undefined: not measured. */
  readonly figure: Spread | undefined
  /** `×` for ratios, '' for counts, which have to reach the goal without exception. */
  readonly unit: '×' | '' | ' %' | ' ms' | ' MiB'
  readonly atLeast?: number
  readonly atMost?: number
}

const {
  oneflight,
  'oneflight with a key': withKey,
  'named batch': named,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'postgres.js': postgresJs,
  postgraphile,
  'word by hand': byHand,
  'oneflight with its log': logged,
  'word with duties': withDuties
} = contenders

/** Returns the goals of a run, in the order of the page. */
export function goalsOf (record: BenchRecord): readonly Goal[] {
  return [
    ...orderGoals(record),
    ...hotRowGoals(record),
    ...roundTripGoals(record),
    ...wordGoals(record),
    ...otherGoals(record)
  ]
}

function orderGoals (record: BenchRecord): readonly Goal[] {
  const order = find(record, 'order', 0)
  const goals = {
    work: 'order of 5 operations, 0 ms',
    against: postgresJs.name,
    unit: '×'
  } as const
  return [
    { ...goals, figure: paceRatio(order, postgresJs.name), atLeast: 1.15 },
    {
      ...goals,
      work: 'the same, Node CPU per batch',
      figure: cpuRatio(order, postgresJs.name, 'node'),
      atMost: 0.9
    },
    {
      ...goals,
      work: 'the same, PostgreSQL CPU per batch',
      figure: cpuRatio(order, postgresJs.name, 'postgres'),
      atMost: 0.9
    },
    ...([[oneflight.name, 'the same ad hoc'], [postgresJs.name, postgresJs.name]] as const).map(
      ([name, against]): Goal => ({
        ...goals,
        work: 'order as a named batch, 0 ms, Node CPU per batch',
        against,
        figure: divideCpu(slicesOf(order, named.name), slicesOf(order, name), 'node'),
        atMost: 0.9
      })
    ),
    ...([[0.5, 1.4], [1, 1.8], [2.5, 2.4]] as const).map(([ms, atLeast]): Goal => ({
      ...goals,
      work: `order of 5 operations, ${ms} ms`,
      figure: paceRatio(find(record, 'order', ms), postgresJs.name),
      atLeast
    })),
    {
      ...goals,
      against: 'pgbench -M prepared',
      figure: paceRatio(order, 'pgbench -M prepared'),
      atLeast: 0.45
    },
    {
      ...goals,
      work: 'order of 5 operations, ids chosen by the client, 0 ms',
      against: postgraphile.name,
      figure: paceRatio(find(record, 'order with ids', 0), postgraphile.name),
      atLeast: 5
    }
  ]
}

function hotRowGoals (record: BenchRecord): readonly Goal[] {
  const hot = find(record, 'invoice', 2)
  return ([[awaits, 12], [inBegin, 4], [bare, 0.6]] as const).map(([{ name }, atLeast]) => ({
    work: 'one hot row, 4 operations, 2 ms',
    against: name,
    figure: paceRatio(hot, name),
    unit: '×',
    atLeast
  }))
}

function roundTripGoals (record: BenchRecord): readonly Goal[] {
  const own = record.wire.filter(({ name }) => name === oneflight.name)
  const goals = { against: 'the wire', unit: '' } as const
  return [
    {
      ...goals,
      work: 'round trips of 1 to 100 operations, with and without a key, right after a batch',
      figure: spreadOf(own.map(({ afterBatch }) => afterBatch)),
      atMost: 1
    },
    {
      ...goals,
      work: 'the same, after a pause',
      figure: spreadOf(own.map(({ roundTrips }) => roundTrips)),
      atMost: 2
    },
    {
      ...goals,
      work: 'the same, while a lock is held',
      figure: spreadOf(own.map(({ underLock }) => underLock)),
      atMost: 0
    }
  ]
}

/** The goals for words: those of a select by key, and those that every word has. */
function wordGoals (record: BenchRecord): readonly Goal[] {
  const goals = { against: byHand.name, unit: '×' } as const
  const worst = (what: string, atMost: number, { name, other, of, guarded }: Divided): Goal => {
    const figures = Object.entries(words).flatMap(([word, { title }]) => {
      const comparison = find(record, word, 0, guarded)
      const figure = divideCpu(slicesOf(comparison, name), slicesOf(comparison, other), of)
      return figure === undefined ? [] : [{ title, figure }]
    })
    const [highest] = figures.toSorted((a, b) => b.figure.median - a.figure.median)
    return {
      work: `${what}, highest of the words${highest ? `: ${highest.title}` : ''}`,
      against: other,
      unit: '×',
      figure: highest?.figure,
      atMost
    }
  }
  const own = { name: oneflight.name, other: byHand.name }
  const inProduction = { name: logged.name, other: withDuties.name }
  return [
    ...(['read', 'insert', 'update', 'upsert'] as const).map((word): Goal => ({
      ...goals,
      work: `${words[word].title}, PostgreSQL CPU`,
      figure: cpuRatio(find(record, word, 0), byHand.name, 'postgres'),
      atMost: 0.85
    })),
    worst('PostgreSQL CPU', 1, { ...own, of: 'postgres' }),
    ...record.comparisons.some(({ guarded }) => guarded)
      ? [worst('PostgreSQL CPU with a trigger', 1.15, { ...own, of: 'postgres', guarded: true })]
      : [],
    {
      work: 'select by key, 100 different statements, PostgreSQL CPU',
      against: 'one statement',
      unit: '×',
      figure: divideCpu(
        slicesOf(find(record, 'shapes', 0), oneflight.name),
        slicesOf(find(record, 'shapes', 0), named.name),
        'postgres'
      ),
      atMost: 1.15
    },
    ...(['read', 'insert'] as const).map((word): Goal => ({
      work: `${words[word].title}, throughput`,
      against: withDuties.name,
      unit: '×',
      figure: throughputRatio(
        slicesOf(find(record, word, 0), logged.name),
        slicesOf(find(record, word, 0), withDuties.name)
      ),
      atLeast: 1
    })),
    worst('Node CPU', 1, { ...inProduction, of: 'node' }),
    worst('Node CPU', 1.2, { ...own, of: 'node' }),
    worst('Node CPU as a named batch', 0.95, {
      name: named.name,
      other: oneflight.name,
      of: 'node'
    })
  ]
}

/** Contenders whose processor time is divided. */
interface Divided {
  readonly name: string
  readonly other: string
  readonly of: Processes
  readonly guarded?: boolean
}

/** The goals for keys and many rows. */
function otherGoals (record: BenchRecord): readonly Goal[] {
  const order = find(record, 'order', 0)
  const bulkGoal = (what: 'insert' | 'select', work: string): Goal => {
    const bulk = record.bulk.find(bulk => bulk.what === what)
    return {
      work,
      against: bulk?.reference ?? 'psql',
      figure: bulk && ratioOf(bulk.other, bulk.oneflight),
      unit: '×',
      atLeast: 0.9
    }
  }
  return [
    {
      work: 'order with an Idempotency-Key, Node and PostgreSQL CPU per batch',
      against: 'the same without a key',
      figure: divideCpu(
        slicesOf(order, withKey.name),
        slicesOf(order, oneflight.name),
        'both'
      ),
      unit: '×',
      atMost: 1.2
    },
    bulkGoal('insert', '10 000 rows in, one operation'),
    bulkGoal('select', '10 000 rows out, one operation'),
    ...largeGoals(record)
  ]
}

/** None for the results of a run without them. */
function largeGoals ({ large = [] }: BenchRecord): readonly Goal[] {
  return large.flatMap(({ what, oneflight: own, other, ...memory }) => [
    {
      work: what === 'upload' ? '100 000 rows in, one upload' : '1 000 000 rows out, one stream',
      against: "psql's \\copy",
      figure: ratioOf(other, own),
      unit: '×'
    },
    {
      work: 'the same, resident memory beyond that before',
      against: '64 MiB',
      figure: spreadOf(memoryBeyond(memory).map(bytes => bytes / 2 ** 20)),
      unit: ' MiB',
      atMost: 64
    }
  ])
}

/** Returns undefined if the figure was not measured or has no goal. */
export function isReached ({ figure, unit, atLeast, atMost }: Goal): boolean | undefined {
  if (figure === undefined || (atLeast === undefined && atMost === undefined)) return undefined
  const [low, high] = unit === ''
    ? [figure.least, figure.most]
    : [figure.median, figure.median]
  return low >= (atLeast ?? -Infinity) && high <= (atMost ?? Infinity)
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
  record: Pick<BenchRecord, 'comparisons'>,
  work: string,
  roundTripMs: number,
  guarded = false
): Comparison | undefined {
  return record.comparisons.find(comparison =>
    comparison.work === work && comparison.roundTripMs === roundTripMs &&
    (comparison.guarded === true) === guarded
  )
}

/** The throughput of Oneflight, divided by that of the other contender. */
export function paceRatio (comparison: Comparison | undefined, other: string): Spread | undefined {
  return throughputRatio(slicesOf(comparison, oneflight.name), slicesOf(comparison, other))
}

/** The processor time per batch of Oneflight, divided by that of the other contender. */
export function cpuRatio (
  comparison: Comparison | undefined,
  other: string,
  of: Processes
): Spread | undefined {
  return divideCpu(slicesOf(comparison, oneflight.name), slicesOf(comparison, other), of)
}

/** The slices of one contender; none if it was not measured. */
export function slicesOf (
  comparison: Comparison | undefined,
  name: string
): Comparison['contenders'][number]['slices'] {
  return comparison?.contenders.find(contender => contender.name === name)?.slices ?? []
}
