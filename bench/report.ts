/**
 * `npm run bench:report`: makes docs/internals/benchmarks.md and its charts from
 * bench/results.json.
 *
 * In charge of: the page. Every figure of it comes from the record, every contender from the list.
 * Refuses to: measure, or to keep a number of its own.
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
  type Spread
} from './record.ts'

const root = join(import.meta.dirname, '..')
const CHARTS = 'docs/internals/benchmarks'

/** Every file of the report by its path from the root of the project. */
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

Oneflight beside what else would be written, in one run on one machine, in turns. Made by \`npm ` +
    `run bench\`; no number on this page was typed.
${describeRun(record)}

${chart('hot-row.svg', 'Batches a second on one hot row, by round trip and contender')}## The goals

A ratio is Oneflight's median over the other's; in brackets the least and the most that the ` +
    `slices allow. Throughput: more is better.
Processor time, memory and cost: less is better.

${renderGoalTable(goalsOf(record))}

## All figures

${record.comparisons.map(renderComparison).join('\n\n')}

${chart('order.svg', 'Orders a second by contender')}${
      chart('cpu.svg', 'Processor time of one order by contender')
    }### On the wire

Counted by a proxy between contender and PostgreSQL, one batch whose statements are prepared. A ` +
    `round trip is each time that a client speaks after
it has heard something; under lock are those between its first statement that locks a row and ` +
    `its COMMIT, time in which everybody waits who needs that row.

${
      table(
        ['Contender', 'Work', 'Round trips', 'Under lock'],
        record.wire.map((
          { name, work, roundTrips, underLock }
        ) => [name, work, String(roundTrips), String(underLock)])
      )
    }

### Many rows

${
      table(
        ['Work', 'Rows', 'As JSON', 'Oneflight, ms', 'The other, ms', 'The other'],
        record.bulk.map((
          { what, rows, bytes, reference, oneflight, other }
        ) => [
          what,
          show(rows),
          megabytes(bytes),
          spread(milliseconds(oneflight)),
          spread(milliseconds(other)),
          reference
        ])
      )
    }

Memory of the service for one answer, resident, in a fresh process that has answered small ` +
    `batches before:

${
      table(
        ['Answer', 'Before', 'At its peak'],
        record.memory.map((
          { answerBytes, before, peak }
        ) => [
          megabytes(answerBytes),
          ...[before, peak].map(bytes =>
            spread(bytes.flatMap(value => value === null ? [] : [value / 1e6]), ' MB')
          )
        ])
      )
    }

### Cost of one more

${chart('cost.svg', 'Cost of one operation and of one row, by how many there are')}${
      table(
        ['Operations of a batch', 'ms of one'],
        record.perOperation.map(({ size, ms }) => [show(size), spread(ms)])
      )
    }

${
      table(
        ['Rows of an operation', 'ms of one'],
        record.perRow.map(({ size, ms }) => [show(size), spread(ms)])
      )
    }

${describeContenders()}

${describeMethod(record)}
`
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
| When | ${date.slice(0, 16).replace('T', ' ')} UTC, ${seconds} s |
| Commit | ${commit.slice(0, 12)}${changed ? ', with changes that were not committed' : ''} |
| Machine | ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.os}; ` +
    `load, contenders and PostgreSQL share it; load average before the run ${
      show(machine.loadBefore)
    } |
| Versions | ${used} |
| PostgreSQL | ${
      database.kind === 'embedded' ? 'embedded, as it comes' : 'the server of DATABASE_URL'
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

const works: Readonly<Record<string, string>> = {
  invoice: 'One hot row (an invoice with the next number)',
  order: 'Order of 5 operations',
  'order with ids': 'Order of 5 operations, ids chosen by the client'
}

function renderComparison (comparison: Comparison): string {
  const { work, roundTripMs, measuredRoundTripMs, contenders: all } = comparison
  const how = roundTripMs === 0 ? 'no proxy' : `${roundTripMs} ms by a proxy`
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
  return `### ${works[work] ?? work}, ${how}

The round trip of \`select 1\` is ${show(measuredRoundTripMs)} ms.

${
    table([
      'Contender',
      'Oneflight does',
      'Batches/s',
      'Median, ms',
      '99th percentile, ms',
      'Node CPU a batch, ms',
      'PostgreSQL CPU a batch, ms'
    ], rows)
  }`
}

function describeContenders (): string {
  return `## What each contender does

All work on [one schema](../../bench/schema.sql), under the same role and the same row level ` +
    `security, with as many connections to the database as there are
clients, and answer only when the COMMIT has. Every Node contender checks the token of every ` +
    `request with \`@fastify/jwt\` (${contenders.oneflight.name} too), one of many
tokens, and logs warnings alone.

| Contender | What it is |
| --- | --- |
| ${contenders.oneflight.name} | \`node src/main.ts\`, as it is deployed; it answers the rows of ` +
    `every operation, the others those of the last one |
| ${contenders.awaits.name}; ${
      contenders['postgres.js'].name
    } | [peers/postgres-js.ts](../../bench/peers/postgres-js.ts): a Fastify endpoint, ` +
    '`sql.begin`, one statement for role and claims, each statement awaited; the driver as ' +
    `it comes |
| ${contenders.pg.name} | [peers/pg.ts](../../bench/peers/pg.ts): the same with \`pg\` and named ` +
    `statements |
| ${
      contenders['function in begin'].name
    } | [peers/plpgsql.ts](../../bench/peers/plpgsql.ts): the whole batch as one ` +
    'function, called ' +
    `in \`sql.begin\` after role and claims |
| ${
      contenders['bare function'].name
    } | the same function as a single statement of the login role: no role, no claims, no ` +
    `transaction block. Not the same service, but the limit |
| ${contenders.postgraphile.name} | ` +
    '[peers/postgraphile.ts](../../bench/peers/postgraphile.ts): its ' +
    `documented settings for production, with the plugin for atomic mutations |
| pgbench | [peers/order.sql](../../bench/peers/order.sql): the statements of the hand-written ` +
    `endpoint with \`-M prepared\`, in C, without HTTP, tokens or JSON |
| psql | \`insert … select … from json_populate_recordset\` and \`select json_agg\`, each a ` +
    'transaction of its own, in a session that has taken the role already |'
}

function describeMethod ({ connections, slices, comparisons, bulk }: BenchRecord): string {
  const delayed = comparisons.filter(({ roundTripMs }) => roundTripMs > 0).map((
    { roundTripMs, measuredRoundTripMs }
  ) => `${roundTripMs} ms is ${show(measuredRoundTripMs)} ms`)
  return `## How it is measured

- A closed loop of ${connections} connections that are kept, by ` +
    '[autocannon](../../bench/load.ts) ' +
    `in a process of its own. Contenders are warmed up by ${
      show(slices.warmUpBatches)
    } batches each (fewer
  where these take too long), then take ${slices.count} slices of about ${slices.seconds} s each ` +
    'in turns (A B C A B C …). A slice is a fixed number of batches, so that every one is ' +
    `answered when it ends.
- Many rows are sent and answered ${
      bulk[0]?.oneflight.length ?? 0
    } times by each in turns, after as many times that do not count.
- Before any time is taken, the answers of all contenders are compared; after every slice the ` +
    `rows in the database are. A contender that did less, or
  answered anything but success, fails the run.
- The round trip is given by [a proxy](../../bench/delay-proxy.ts) that holds back each ` +
    'direction ' +
    `for half of it, the same for all; without one everybody connects directly.
  Timers are not exact${
      delayed.length === 0 ? '' : `: measured by \`select 1\`, ${delayed.join(', ')}`
    }.
- Processor time is what the kernel says of the contender's process, and of all processes of the ` +
    `PostgreSQL server; memory is the resident set and its
  peak. Where there is no \`/proc\`, or the server is elsewhere, these are not measured.
- The hot row is the number of the next invoice: the first statement locks it, everything else ` +
    `comes after it, as numbering without gaps wants it. It is what
  this design is made for; where nobody waits for anybody the order shows what is left of it.

## What this does not show

- Load, contender and database share the cores of one machine. A contender that needs less ` +
    `processor time leaves more to the database, as it would not
  on machines of their own; look at processor time for that.
- Unfair to Oneflight: it parses and checks a language instead of one fixed form, answers the ` +
    `rows of every operation, keeps metrics, and pgbench, psql and the bare
  function do without HTTP, tokens, roles or all of these.
- Unfair to the others: the hot row is locked first. A person can often put the statement that ` +
    `locks last, and PostGraphile users would write
  a custom mutation for an order, which is then the PL/pgSQL function. PostGraphile has no ` +
    `insert of several rows, so it has two mutations more.
- Round trips are constant here; a real network has jitter, which costs those most who make most ` +
    `of them.
- One process each. One size of the database, which fits in memory.

## Again

<!-- not run: it takes minutes and writes the record -->
\`\`\`sh
npm run bench                  # all of it, about 5 minutes, writes this page
npm run bench -- --quick       # short slices, to try it; writes nothing
npm run bench hot wire         # some of hot, order, wire, bulk, cost; writes nothing
npm run bench:report           # this page again from bench/results.json
\`\`\`

PostgreSQL is the embedded one unless \`DATABASE_URL\` names another (a superuser's; the ` +
    `database \`oneflight_bench\` and roles \`oneflight_bench_…\` are made there and dropped
at the end). pgbench and psql take part when they are on the PATH.`
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
