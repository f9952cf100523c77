/**
 * The throughput of Oneflight divided by that of other endpoints with the same work, by round trip:
 * for the performance section of the README and for the page of all figures.
 */
import { contenders } from './contenders.ts'
import { find, paceRatio, show, showFigure, slicesOf } from './goals.ts'
import { ROUND_TRIPS, throughputOf, type BenchRecord, type Spread } from './record.ts'
import type { Work } from './requests.ts'

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

/** Returns the round trips (ms) with which a work was measured. */
export function roundTripsOf (record: BenchRecord, ...races: readonly Race[]): readonly number[] {
  return ROUND_TRIPS.filter(ms => races.some(({ work }) => find(record, work, ms) !== undefined))
}

/** The performance section of the README: the chart, the ratios and a link to all figures. */
export function renderSummary (record: BenchRecord): string {
  const races = [orderRace, hotRowRace]
  const rows = roundTripsOf(record, ...races).map(ms => [
    `${ms} ms`,
    ...races.flatMap(({ work, awaited, inFunction }) =>
      [awaited, inFunction].map(name => {
        const figure = paceRatio(find(record, work, ms), name)
        return figure === undefined ? '–' : `${show(figure.median)}×`
      })
    )
  ])
  const head = [
    'Round trip to PostgreSQL',
    'Order: awaited statements',
    'Order: PL/pgSQL function',
    'Hot row: awaited statements',
    'Hot row: PL/pgSQL function'
  ]
  const incomplete = rows.some(row => row.includes('–')) ? '– means not measured.\n' : ''
  return `![Orders per second, by round trip to PostgreSQL](docs/internals/benchmarks/order.svg)

The throughput of Oneflight, divided by that of an endpoint that awaits each statement, and by that
of an endpoint that calls a PL/pgSQL function in a transaction. Above 1, Oneflight is faster.

${renderTable(head, rows)}

An order has 5 operations, and no batch waits for another one. On the hot row, every batch updates
the same row, which is the case that the service is designed for.
${incomplete}Measured by \`npm run bench\` on ${record.date.slice(0, 10)} at commit ${
    record.commit.slice(0, 7)
  }, ${record.machine.cores} cores.
[All benchmarks](docs/internals/benchmarks.md) include the goals that were missed.`
}

/** The ratios of one work with their spread. */
export function renderRatios (record: BenchRecord, race: Race): string {
  const { work, awaited, inFunction } = race
  const head = [
    'Round trip, ms',
    'Measured, ms',
    'Oneflight, batches/s',
    'Against awaited statements',
    'Against a PL/pgSQL function'
  ]
  const rows = roundTripsOf(record, race).map(ms => {
    const comparison = find(record, work, ms)
    const ratio = (name: string): string => showOrDash(paceRatio(comparison, name), '×')
    return [
      String(ms),
      show(comparison?.measuredRoundTripMs ?? 0),
      showOrDash(throughputOf(slicesOf(comparison, contenders.oneflight.name)), ''),
      ratio(awaited),
      ratio(inFunction)
    ]
  })
  return renderTable(head, rows)
}

function showOrDash (figure: Spread | undefined, unit: '×' | ''): string {
  return figure === undefined ? '–' : showFigure({ figure, unit })
}

/** Renders a Markdown table. */
export function renderTable (
  head: readonly string[],
  rows: ReadonlyArray<readonly string[]>
): string {
  return [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
}
