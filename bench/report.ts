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
  cpuPerBatch,
  readRecord,
  spreadOf,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Cost,
  type Spread
} from './record.ts'

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

Oneflight and its alternatives, measured in turns in one run on one machine. \`npm run bench\`
writes this page; no number is typed by hand.
${describeRun(record)}

${chart('hot-row.svg', 'Batches per second on one hot row, by round trip and contender')}## Goals

A ratio is Oneflight's median divided by that of the other contender. The brackets show the
smallest and the largest ratio that the slices allow. For throughput more is better. For processor
time, memory and cost less is better.

${renderGoalTable(goalsOf(record))}

## All figures

${record.comparisons.map(renderComparison).join('\n\n')}

${chart('order.svg', 'Orders per second by contender')}${
      chart('cpu.svg', 'Processor time of one order by contender')
    }${renderWire(record)}

${renderBulk(record)}

${renderCost(record, chart('cost.svg', 'Cost of one operation and of one row, by their number'))}

${describeContenders()}

${describeMethod(record)}

${describeLimits()}

${describeRepetition()}`
}

function renderWire ({ wire }: BenchRecord): string {
  const rows = wire.map(({ name, work, roundTrips, underLock }) =>
    [name, work, String(roundTrips), String(underLock)]
  )
  return `### Round trips

A proxy between contender and PostgreSQL counts them, for one batch whose statements are prepared.
A round trip is each time that a client sends after it has received. "Under lock" are the round
trips between the first statement that locks a row and its COMMIT: other transactions that need the
row wait during this time.

${table(['Contender', 'Work', 'Round trips', 'Under lock'], rows)}`
}

function renderBulk ({ bulk, memory }: BenchRecord): string {
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
  return `### Many rows

${table(['Work', 'Rows', 'As JSON', 'Oneflight, ms', 'Contender, ms', 'Contender'], rows)}

Resident memory of the service for one response, in a new process that has run small batches
before:

${table(['Response', 'Before', 'Peak'], usage)}`
}

function renderCost ({ perOperation, perRow }: BenchRecord, chart: string): string {
  const rowsOf = (costs: readonly Cost[]) => costs.map(({ size, ms }) => [show(size), spread(ms)])
  return `### Cost of one more operation or row

${chart}${table(['Operations per batch', 'ms per operation'], rowsOf(perOperation))}

${table(['Rows per operation', 'ms per row'], rowsOf(perRow))}`
}

function describeRun (
  { date, seconds, commit, changed, machine, versions, database }: BenchRecord
): string {
  const used = Object.entries(versions).map(([name, version]) =>
    `${name} ${version.replace(/^v/, '')}`
  ).join(', ')
  const settings = Object.entries(database.settings).filter(([name]) => name !== 'server_version')
    .map(([name, value]) => `${name} ${value}`).join(', ')
  return `
| | |
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
  return table(
    ['Work', 'Against', 'Ratio or figure', 'Goal', ''],
    goals.map(goal => {
      const verdict = showVerdict(goal)
      return [
        goal.work,
        goal.against,
        `**${showFigure(goal)}**`,
        showGoal(goal),
        verdict === 'missed' ? '**missed**' : verdict
      ]
    })
  )
}

const WORKS: Readonly<Record<string, string>> = {
  invoice: 'One hot row (an invoice with the next number)',
  order: 'Order of 5 operations',
  'order with ids': 'Order of 5 operations, ids chosen by the client'
}

function renderComparison (comparison: Comparison): string {
  const { work, roundTripMs, measuredRoundTripMs, contenders: all } = comparison
  const how = roundTripMs === 0 ? 'no proxy' : `${roundTripMs} ms added by a proxy`
  const rows = all.map(({ name, slices }) => {
    const ms = (values: ReadonlyArray<number | null>): string =>
      spread(values.flatMap(value => value ?? []))
    return [
      name,
      name === contenders.oneflight.name
        ? ''
        : showFigure({ figure: paceRatio(comparison, name), unit: '×' }),
      showFigure({ figure: throughputOf(slices), unit: '' }),
      ms(slices.map(({ p50Ms }) => p50Ms)),
      ms(slices.map(({ p99Ms }) => p99Ms)),
      showSpread(cpuPerBatch(slices, 'nodeCpuMs')),
      showSpread(cpuPerBatch(slices, 'postgresCpuMs'))
    ]
  })
  return `### ${WORKS[work] ?? work}, ${how}

The round trip of \`select 1\` takes ${show(measuredRoundTripMs)} ms.

${
    table([
      'Contender',
      'Oneflight, ratio',
      'Batches/s',
      'Median, ms',
      '99th percentile, ms',
      'Node CPU per batch, ms',
      'PostgreSQL CPU per batch, ms'
    ], rows)
  }`
}

function describeContenders (): string {
  const names = contenders
  return `## Contenders

All contenders use [one schema](../../bench/schema.sql), the same role and the same row-level
security. Each has as many database connections as there are clients, and responds only after the
COMMIT. Every Node contender, ${names.oneflight.name} too, checks the token of every request with
\`@fastify/jwt\`. There are many tokens. Only warnings are logged.

| Contender | What it is |
| --- | --- |
| ${names.oneflight.name} | \`node src/main.ts\`, as deployed. It returns the rows of every ` +
    `operation; the others return those of the last one |
| ${names.awaits.name}; ${names['postgres.js'].name} | ` +
    '[peers/postgres-js.ts](../../bench/peers/postgres-js.ts): a Fastify endpoint with ' +
    '`sql.begin`, one statement for role and claims, each statement awaited, and the default ' +
    `settings of the driver |
| ${names.pg.name} | [peers/pg.ts](../../bench/peers/pg.ts): the same with \`pg\` and named ` +
    `statements |
| ${names['function in begin'].name} | [peers/plpgsql.ts](../../bench/peers/plpgsql.ts): the ` +
    `whole batch as one function, called in \`sql.begin\` after role and claims |
| ${names['bare function'].name} | the same function as a single statement of the login role, ` +
    `without role, claims or transaction block. It is not the same service, but the limit |
| ${names.postgraphile.name} | [peers/postgraphile.ts](../../bench/peers/postgraphile.ts): its ` +
    `documented settings for production, with the plugin for atomic mutations |
| pgbench | [peers/order.sql](../../bench/peers/order.sql): the statements of the hand-written ` +
    `endpoint with \`-M prepared\`, in C, without HTTP, tokens or JSON |
| psql | \`insert … select … from json_populate_recordset\` and \`select json_agg\`, each in ` +
    'its own transaction, in a session that already has the role |'
}

function describeMethod ({ connections, slices, comparisons, bulk }: BenchRecord): string {
  const delayed = comparisons.filter(({ roundTripMs }) => roundTripMs > 0)
    .map(({ roundTripMs: added, measuredRoundTripMs: measured }) =>
      `${added} ms takes ${show(measured)} ms`
    )
  return `## Method

- The load is a closed loop of ${connections} kept connections, by
  [autocannon](../../bench/load.ts) in its own process. Each contender is warmed up with
  ${show(slices.warmUpBatches)} batches, or fewer if these take too long. Then the contenders take
  ${slices.count} slices of about ${slices.seconds} s each, in turns (A B C A B C …). A slice is a
  fixed number of batches, so all of them have a response at its end.
- The contenders send and return many rows ${bulk[0]?.oneflight.length ?? 0} times each, in turns,
  after the same number of repetitions as a warm-up.
- Before the measurement, the run compares the responses of all contenders. After every slice, it
  compares the rows in the database. The run fails if a contender did less or returned an error.
- [A proxy](../../bench/delay-proxy.ts) adds the round trip: it delays each direction by half of
  it, for all contenders. Without it, all connect directly. Timers are not exact${
    delayed.length === 0 ? '.' : `, as measured by\n  \`select 1\`: ${delayed.join(', ')}.`
  }
- Processor time is what the kernel reports for the contender's process, and for all processes of
  the PostgreSQL server. Memory is the resident set and its peak. They are not measured without
  \`/proc\`, or if the server runs on another machine.
- The hot row is the number of the next invoice. As numbering without gaps requires, the first
  statement locks it and everything else follows. This design is made for such a row. The order has
  no contention and shows what remains without it.`
}

function describeLimits (): string {
  return `## What this does not show

- Load, contender and database share the cores of one machine. A contender that needs less
  processor time leaves more of it to the database. That does not apply on separate machines;
  compare processor time instead.
- Unfair to Oneflight: it parses and checks a language instead of one fixed form, returns the rows
  of every operation, and collects metrics. pgbench, psql and the bare function do without HTTP,
  tokens or roles.
- Unfair to the others: the hot row is locked first. Hand-written code can often run the statement
  that locks last. PostGraphile users would write an order as a custom mutation, which is the
  PL/pgSQL function. PostGraphile cannot insert several rows at once, so it needs two more
  mutations.
- Round trips are constant here. A real network has jitter, which costs contenders with many round
  trips the most.
- Each contender is one process. There is one size of the database, which fits in memory.`
}

function describeRepetition (): string {
  return `## Run it again

<!-- not run: it takes minutes and writes the record -->
\`\`\`sh
npm run bench                  # all parts, about 5 minutes, writes this page
npm run bench -- --quick       # short slices, for a test; writes nothing
npm run bench hot wire         # some of hot, order, wire, bulk, cost; writes nothing
npm run bench:report           # writes this page from bench/results.json
\`\`\`

PostgreSQL is the embedded one. Set \`DATABASE_URL\` to the URL of a superuser to use another
server: the run creates the database \`oneflight_bench\` and roles \`oneflight_bench_…\` there,
and drops them at the end. pgbench and psql are included if they are on the PATH.
`
}

const milliseconds = (seconds: readonly number[]): readonly number[] =>
  seconds.map(value => value * 1000)
const megabytes = (bytes: number): string => `${show(bytes / 1e6)} MB`

function spread (values: readonly number[], unit = ''): string {
  return showSpread(spreadOf(values), unit)
}

function showSpread (figure: Spread | undefined, unit = ''): string {
  return figure === undefined ? '–' : `${showFigure({ figure, unit: '' })}${unit}`
}

function table (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  return [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
}

if (import.meta.main) writeReport(readRecord())
