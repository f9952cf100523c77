/**
 * The throughput and the processor time of Oneflight divided by those of other endpoints with the
 * same work, by round trip: for the performance section of the README and for the page of all
 * figures.
 */
import { contenders } from './contenders.ts'
import { cpuRatio, find, paceRatio, show, showFigure, slicesOf } from './goals.ts'
import {
  cpuRatio as divideCpu,
  throughputOf,
  throughputRatio,
  type BenchRecord,
  type Comparison,
  type Spread
} from './record.ts'
import type { Work } from './requests.ts'
import { words } from './words/words.ts'

/** A work that is measured with several round trips. */
export interface Race {
  readonly work: Work
  /** The endpoint that awaits each statement. */
  readonly awaited: string
  /** The endpoint that calls a function of the database in a transaction. */
  readonly inFunction: string
}

/** The general case. */
export const orderRace: Race = {
  work: 'order',
  awaited: contenders['postgres.js'].name,
  inFunction: contenders['order function'].name
}

export const hotRowRace: Race = {
  work: 'invoice',
  awaited: contenders.awaits.name,
  inFunction: contenders['function in begin'].name
}

const ROUND_TRIP = 'Round trip, ms (measured)'

/** Returns the round trips (ms) with which a work was measured. */
export function roundTripsOf ({ comparisons }: BenchRecord, { work }: Race): readonly number[] {
  return comparisons.filter(comparison => comparison.work === work)
    .map(({ roundTripMs }) => roundTripMs)
}

/** The performance section of the README: the chart, the ratios and a link to all figures. */
export function renderSummary (record: BenchRecord): string {
  const { work, awaited, inFunction } = orderRace
  const rows = roundTripsOf(record, orderRace).map(ms => {
    const order = find(record, work, ms)
    return [
      `${ms} ms`,
      showMedian(paceRatio(order, awaited)),
      showMedian(cpuRatio(order, awaited, 'node')),
      showMedian(cpuRatio(order, awaited, 'postgres')),
      showMedian(paceRatio(order, inFunction))
    ]
  })
  const head = [
    'Round trip to PostgreSQL',
    'Throughput',
    'Node CPU',
    'PostgreSQL CPU',
    'Throughput against a PL/pgSQL function'
  ]
  const hot = find(record, hotRowRace.work, 2)
  return `![Orders per second, by round trip to PostgreSQL](docs/internals/benchmarks/order.svg)

What an order of 5 operations costs, divided by what it costs with a hand-written endpoint (Fastify
and postgres.js) that awaits each statement. Throughput above 1× and CPU below 1× are better.

${renderTable(head, rows)}

On one hot row, which every batch updates, with a round trip of 2 ms, the throughput is ${
    showMedian(paceRatio(hot, hotRowRace.awaited))
  } that
of awaited statements, and ${showMedian(paceRatio(hot, hotRowRace.inFunction))} that of a ` +
    `PL/pgSQL function in a transaction.
Measured by \`npm run bench\` on ${record.date.slice(0, 10)} at commit ${
      record.commit.slice(0, 7)
    }, ${record.machine.cores} cores.
[All benchmarks](docs/internals/benchmarks.md) include the goals that were missed.`
}

/** The throughput and the processor time of one work, with their spread. */
export function renderRatios (record: BenchRecord, race: Race): string {
  const { work, awaited, inFunction } = race
  const head = [
    ROUND_TRIP,
    'Batches/s',
    'Throughput',
    'Node CPU',
    'PostgreSQL CPU',
    'Throughput against a PL/pgSQL function'
  ]
  const rows = roundTripsOf(record, race).map(ms => {
    const comparison = find(record, work, ms)
    const pace = throughputOf(slicesOf(comparison, contenders.oneflight.name))
    return [
      `${ms} (${show(comparison?.measuredRoundTripMs ?? ms)})`,
      showMedian(pace, ''),
      ...[
        paceRatio(comparison, awaited),
        cpuRatio(comparison, awaited, 'node'),
        cpuRatio(comparison, awaited, 'postgres'),
        paceRatio(comparison, inFunction)
      ].map(figure => showFigure({ figure, unit: '×' }))
    ]
  })
  return renderTable(head, rows)
}

/**
 * Each word in both forms, divided by what `other` does for the same form: by default the endpoint.
 * Undefined if no word was measured in both forms.
 */
export function renderWords (
  { comparisons }: Pick<BenchRecord, 'comparisons'>,
  other: (form: string) => string = () => contenders['word by hand'].name
): string | undefined {
  const rows = Object.entries(words).flatMap(([word, { title }]) => {
    const comparison = find({ comparisons }, word, 0)
    return areMeasured(comparison, [...forms, ...forms.map(other)])
      ? compareForms(comparison, other).map(cells => [title, ...cells])
      : []
  })
  return rows.length === 0 ? undefined : renderTable(['Work', ...FORMS_HEAD], rows)
}

/**
 * The words beside an endpoint, also with triggers on their tables. Undefined if none was measured.
 */
export function renderWordRatios (
  { comparisons }: BenchRecord,
  names: readonly [own: string, other: string],
  guarded = false
): string | undefined {
  const rows = Object.entries(words).flatMap(([word, { title }]) => {
    const comparison = find({ comparisons }, word, 0, guarded)
    return areMeasured(comparison, names) ? [[title, ...compare(comparison, ...names)]] : []
  })
  return rows.length === 0 ? undefined : renderTable(['Work', ...FIGURES_HEAD], rows)
}

/** Oneflight, and the endpoint by hand. */
export const handNames = [contenders.oneflight.name, contenders['word by hand'].name] as const

/** Oneflight and the endpoint, each with all that a service does in production. */
export const dutyNames = [
  contenders['oneflight with its log'].name,
  contenders['word with duties'].name
] as const

/** A batch of the client, and a named one. */
const forms = [contenders.oneflight.name, contenders['named batch'].name] as const
const FIGURES_HEAD = ['Throughput', 'Node CPU', 'PostgreSQL CPU'] as const
const FORMS_HEAD = ['Contender', ...FIGURES_HEAD] as const

function areMeasured (comparison: Comparison | undefined, names: readonly string[]): boolean {
  return names.every(name => slicesOf(comparison, name).length > 0)
}

/** The cells of each form, divided by what `other` does. */
function compareForms (
  comparison: Comparison | undefined,
  other: (form: string) => string
): ReadonlyArray<readonly string[]> {
  return forms.map(name => [name, ...compare(comparison, name, other(name))])
}

/** The figures of one contender, divided by those of another one. */
function compare (
  comparison: Comparison | undefined,
  name: string,
  other: string
): readonly string[] {
  const [slices, divisor] = [slicesOf(comparison, name), slicesOf(comparison, other)]
  return [
    throughputRatio(slices, divisor),
    divideCpu(slices, divisor, 'node'),
    divideCpu(slices, divisor, 'postgres')
  ].map(figure => showFigure({ figure, unit: '×' }))
}

function showMedian (figure: Spread | undefined, unit = '×'): string {
  return figure === undefined ? 'not measured' : `${show(figure.median)}${unit}`
}

/** Renders a Markdown table. */
export function renderTable (
  head: readonly string[],
  rows: ReadonlyArray<readonly string[]>
): string {
  return [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
}
