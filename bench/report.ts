/**
 * `npm run bench:report`: writes docs/internals/benchmarks.md and its charts from
 * bench/results.json. Every number on the page comes from that record.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { renderCharts } from './charts.ts'
import { contenders } from './contenders.ts'
import { goalsOf, paceRatio, show, showFigure, showGoal, showVerdict, type Goal } from './goals.ts'
import {
  describeContenders,
  describeLimits,
  describeMethod,
  describeMisses,
  describeRepetition,
  describeTime
} from './method.ts'
import { overloadGoals } from './overload.ts'
import {
  dutyNames,
  handNames,
  hotRowRace,
  orderRace,
  renderRatios,
  renderTable,
  renderWordRatios
} from './ratios.ts'
import {
  memoryBeyond,
  cpuPerBatch,
  medianOf,
  readRecord,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Spread
} from './record.ts'
import type { Work } from './requests.ts'

const root = join(import.meta.dirname, '..')
const CHARTS = 'docs/internals/benchmarks'

/** Returns the files of the report by path, relative to the root of the project. */
export function renderReport (record: BenchRecord): ReadonlyMap<string, string> {
  const charts = [...renderCharts(record)].map(([file, svg]) => [`${CHARTS}/${file}`, svg] as const)
  return new Map([
    ['docs/internals/benchmarks.md', renderPage(record, charts.map(([path]) => path))],
    ...charts
  ])
}

export function writeReport (record: BenchRecord): void {
  for (const [path, text] of renderReport(record)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
}

function renderPage (record: BenchRecord, charts: readonly string[]): string {
  const chart = (file: string, alt: string): string =>
    charts.includes(`${CHARTS}/${file}`) ? `![${alt}](benchmarks/${file})\n\n` : ''
  return `# Benchmarks

What Oneflight costs against writing the same by hand, and against other ways, measured in turns in
one run on one machine. \`npm run bench\` writes this page.

## What it costs

A customer, an order, three lines, a payment and a query: 5 operations, and no batch waits for
another one. Each figure is divided by that of a hand-written endpoint (Fastify and postgres.js)
that awaits each statement. Throughput above 1× and CPU per batch below 1× are better.

${renderRatios(record, orderRace)}

${chart('order.svg', 'Orders per second, by round trip and contender')}A ratio is the median of ` +
    `those of the turns. The true median is
within the brackets with a probability of 95 %.

## One hot row

The number of the next invoice: 4 operations, and every batch updates the same row and holds it
until it commits.

${renderRatios(record, hotRowRace)}

${chart('hot-row.svg', 'Batches per second on one hot row, by round trip and contender')}${
      describeWords(record)
    }${describeTime()}
## Goals

${renderGoalTable([...goalsOf(record), ...overloadGoals()])}

${describeMisses()}

## All figures

${describeRun(record)}

${chart('contenders.svg', 'Orders per second by contender')}${
      chart('cpu.svg', 'Processor time of one order by contender')
    }${
      Object.keys(WORKS).flatMap(work => {
        const measured = record.comparisons.filter(one => one.work === work)
        return measured.length === 0 ? [] : [renderComparisons(work as Work, measured)]
      }).join('\n\n')
    }

${renderWire(record)}

${renderBulk(record)}

### Cost of one more operation or row

${chart('cost.svg', 'Cost of one operation and of one row, by their number').trimEnd()}

${describeContenders()}

${describeMethod(record)}

${describeLimits()}

${describeRepetition()}`
}

/** The table of every word, if it was measured. */
function describeWords (record: BenchRecord): string {
  const table = renderWordRatios(record, handNames)
  return table === undefined
    ? ''
    : `## Every word

Each [word of the language](../../bench/words/) by itself, without added round trip: what the
language itself costs. The figures are divided by those of an endpoint with the
[statements](../../bench/peers/words.ts) that a person writes.

${table}

${describeGuarded(record)}${describeDuties(record)}`
}

/** The words with triggers on their tables, if they were measured. */
function describeGuarded (record: BenchRecord): string {
  const table = renderWordRatios(record, handNames, true)
  return table === undefined
    ? ''
    : `The same with a trigger on each table that sets \`updated_at\`, and with a function that is
VOLATILE. ${contenders.oneflight.name} protects the next operations and batches from what [code of
the database](how-it-works.md#code-of-the-database) may leave in the session.

${table}

`
}

/** The words beside an endpoint with the same duties, if they were measured. */
function describeDuties (record: BenchRecord): string {
  const table = renderWordRatios(record, dutyNames)
  return table === undefined
    ? ''
    : `Beside an endpoint that also has a request id, metrics (fastify-metrics) and one line of log
per request, as ${contenders.oneflight.name} has:

${table}

`
}

function renderWire ({ wire }: BenchRecord): string {
  const countsOf = ({ afterBatch, roundTrips, underLock }: BenchRecord['wire'][number]) =>
    [afterBatch, roundTrips, underLock].map(String)
  const groups = Map.groupBy(wire, counted => [counted.name, ...countsOf(counted)].join())
  const rows = [...groups.values()].map(group => [
    group[0]?.name ?? '',
    group.map(({ work }) => work).join('; '),
    ...group.slice(0, 1).flatMap(countsOf)
  ])
  return `### Round trips

A proxy between contender and PostgreSQL counts them, for one batch whose statements are prepared.
"Under lock" are those between the first statement that locks a row and its COMMIT: other
transactions that need the row wait during this time.

${renderTable(['Contender', 'Work', 'Right after a batch', 'After a pause', 'Under lock'], rows)}`
}

function renderBulk ({ bulk, memory, large = [] }: BenchRecord): string {
  const rows = bulk.map(({ what, rows, bytes, reference, oneflight, other }) => [
    what,
    show(rows),
    megabytes(bytes),
    spread(milliseconds(oneflight)),
    spread(milliseconds(other)),
    reference
  ])
  const usage = memory.map(({ answerBytes, before, peak }) => [
    megabytes(answerBytes),
    ...[before, peak].map(bytes =>
      spread(bytes.flatMap(value => value === null ? [] : [value / 1e6]), ' MB')
    )
  ])
  const moved = large.map(({ what, rows, bytes, oneflight, other, ...memory }) => [
    what,
    show(rows),
    megabytes(bytes),
    ...[oneflight, other].map(seconds => spread(seconds.map(value => value * 1000))),
    spread(memoryBeyond(memory).map(bytes => bytes / 1e6), ' MB')
  ])
  const columns = ['Work', 'Rows', 'As JSON', 'Oneflight, ms', 'psql copy, ms', 'Memory']
  const beyond = moved.length === 0
    ? ''
    : `

An upload, whose rows are checked while they arrive, a stream, and the memory of the service beyond
that before:

${renderTable(columns, moved)}`
  return `### Many rows

${renderTable(['Work', 'Rows', 'As JSON', 'Oneflight, ms', 'Contender, ms', 'Contender'], rows)}

Resident memory of the service for one response, in a new process that has run small batches
before:

${renderTable(['Response', 'Before', 'Peak'], usage)}${beyond}`
}

function describeRun (
  { date, seconds, commit, changed, machine, versions, database }: BenchRecord
): string {
  const used = Object.entries(versions).map(([name, version]) =>
    `${name} ${version.replace(/^v/, '')}`
  ).join(', ')
  const settings = Object.entries(database.settings).filter(([name]) => name !== 'server_version')
    .map(([name, value]) => `${name} ${value}`).join(', ')
  return `| | |
| --- | --- |
| Date | ${date.slice(0, 16).replace('T', ' ')} UTC, ${seconds} s |
| Commit | ${commit.slice(0, 12)}${changed ? ', with uncommitted changes' : ''} |
| Machine | ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.os}; ` +
    `shared by load, contenders and PostgreSQL; load average before the run ${
      show(machine.loadBefore)
    } |
| Versions | ${used} |
| PostgreSQL | ${
      database.kind === 'embedded'
        ? 'embedded, default configuration'
        : 'the server of DATABASE_URL'
    }: ${settings} |`
}

function renderGoalTable (goals: readonly Goal[]): string {
  return renderTable(
    ['Work', 'Against', 'Ratio or figure', 'Goal'],
    goals.map(goal => {
      const verdict = showVerdict(goal)
      return [
        goal.work,
        goal.against,
        `**${showFigure(goal)}**`,
        verdict === 'missed' ? `${showGoal(goal)}, **missed**` : showGoal(goal)
      ]
    })
  )
}

/** The general case first. */
const WORKS: Readonly<Partial<Record<Work, string>>> = {
  order: 'Order of 5 operations',
  'order with ids': 'Order of 5 operations, ids chosen by the client',
  invoice: 'One hot row (an invoice with the next number)'
}

/** One work with all round trips: the spread of the ratios, and medians. */
function renderComparisons (work: Work, comparisons: readonly Comparison[]): string {
  const rows = comparisons.flatMap(comparison =>
    comparison.contenders.map(({ name, slices }, i) => {
      const { roundTripMs, measuredRoundTripMs } = comparison
      const median = (figure: Spread | undefined): string =>
        figure === undefined ? '–' : show(figure.median)
      const ms = (values: ReadonlyArray<number | null>): string =>
        median(medianOf(values.flatMap(value => value ?? [])))
      return [
        i === 0 ? `${roundTripMs} (${show(measuredRoundTripMs)})` : '',
        name,
        name === contenders.oneflight.name
          ? ''
          : showFigure({ figure: paceRatio(comparison, name), unit: '×' }),
        median(throughputOf(slices)),
        ms(slices.map(({ p50Ms }) => p50Ms)),
        ms(slices.map(({ p99Ms }) => p99Ms)),
        median(cpuPerBatch(slices, 'node')),
        median(cpuPerBatch(slices, 'postgres'))
      ]
    })
  )
  const head = [
    'Round trip, ms (measured)',
    'Contender',
    'Oneflight, ratio',
    'Batches/s',
    'Median, ms',
    '99th percentile, ms',
    'Node CPU, ms',
    'PostgreSQL CPU, ms'
  ]
  return `### ${WORKS[work]}\n\n${renderTable(head, rows)}`
}

const milliseconds = (seconds: readonly number[]): readonly number[] =>
  seconds.map(value => value * 1000)
const megabytes = (bytes: number): string => `${show(bytes / 1e6)} MB`

function spread (values: readonly number[], unit = ''): string {
  const figure = medianOf(values)
  return figure === undefined ? '–' : `${showFigure({ figure, unit: '' })}${unit}`
}

if (import.meta.main) writeReport(readRecord())
