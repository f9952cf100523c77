/**
 * `npm run bench [part …] [-- --quick]`: runs the benchmark, writes `bench/results.json` and the
 * report. Exit code 1 if a contender did different work than requested. Partial and quick runs
 * write nothing. `--round-trips=0,2.5 --against=postgres.js` selects round trips (ms) and
 * contenders (their keys in bench/contenders.ts, or pgbench) of order and hot.
 *
 * `--words=upsert,call` selects words of the part words, by their names in bench/words/.
 * `--against-checkout=<folder>` compares them also with the service of another checkout, in turns,
 * and prints the ratios of this one to the other one.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { onStage } from '../scripts/dev/stage.ts'
import { readArguments } from './arguments.ts'
import type { Measure } from './compare.ts'
import { CONNECTIONS, findProgram } from './contenders.ts'
import { useDatabase, type Database } from './database.ts'
import { cpuRatio, paceRatio, renderGoals, showFigure } from './goals.ts'
import { renderWords } from './ratios.ts'
import { resultsFile, throughputOf, type BenchRecord, type Comparison } from './record.ts'
import { writeReport } from './report.ts'
import { compareBulk, measureMemory } from './rows/bulk.ts'
import { measureCost, scales } from './rows/cost.ts'
import { compareStreams, compareUploads } from './rows/large.ts'
import { hotMatches, orderMatches, play, selectMatches, type Match } from './rows/throughput.ts'
import { countAll } from './rows/wire.ts'
import { guardedMatches, nameInCheckout, wordMatches } from './rows/words.ts'
import { endAll } from './stage.ts'

const root = join(import.meta.dirname, '..')

type Measured = Pick<
  BenchRecord,
  'comparisons' | 'wire' | 'bulk' | 'memory' | 'large' | 'perOperation' | 'perRow'
>

/** The parts by name. */
const parts: Readonly<
  Record<string, (database: Database, measure: Measure) => Promise<Partial<Measured>>>
> = {
  order: async (database, measure) => ({
    comparisons: await playAll(selectMatches(orderMatches, selection), database, measure)
  }),
  hot: async (database, measure) => ({
    comparisons: await playAll(selectMatches(hotMatches, selection), database, measure)
  }),
  words: async (database, measure) => ({ comparisons: await playWords(database, measure) }),
  guarded: async (database, { seconds, ...measure }) => ({
    comparisons: await playAll(guardedMatches(selection), database, {
      ...measure,
      seconds: seconds / 2
    })
  }),
  wire: async database => ({ wire: await countAll(database) }),
  bulk: async database => ({
    bulk: await compareBulk(database, few * 5),
    memory: await measureMemory(database, few)
  }),
  large: async database => ({
    large: [...await compareUploads(database, few), ...await compareStreams(database, few)]
  }),
  cost: async (database, { seconds }) => ({
    perOperation: await measureCost(database, scales.perOperation, {
      slices: few,
      seconds: seconds / 3
    }),
    perRow: await measureCost(database, scales.perRow, { slices: few, seconds: seconds / 3 })
  })
}

const { quick, names, selection, problem } = readArguments(Object.keys(parts))
// The speed of a shared machine changes within seconds, so the slices are short. But each begins
// after a pause, with new connections, which counts for too much in a slice of less than a second.
const measure: Measure = quick
  ? { slices: 2, seconds: 0.25, warmUp: { batches: 250, seconds: 1 } }
  : { slices: 10, seconds: 1, warmUp: { batches: 16_000, seconds: 8 } }
/** How often that is measured of which one repetition takes long. */
const few = quick ? 2 : 5

/** The maximum time (ms) to clean up after a signal. */
const CLEANUP_MS = 10_000

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    endAll()
    setTimeout(() => process.exit(1), CLEANUP_MS).unref()
  })
}

if (problem !== undefined) {
  console.error(problem)
  process.exitCode = 1
} else {
  await runParts(Object.keys(parts).filter(name => names.length === 0 || names.includes(name)))
    .catch((error: unknown) => {
      console.error(error)
      process.exitCode = 1
    })
}

async function runParts (chosen: readonly string[]): Promise<void> {
  const start = performance.now()
  // Read now, because a commit may happen during the run.
  const tree = readTree()
  const loadBefore = loadavg()[0] ?? 0
  const measured: Array<Partial<Measured>> = []
  const database = await onStage(async stage => {
    const database = await useDatabase(stage)
    for (const name of chosen) {
      const partStart = performance.now()
      measured.push(await parts[name]?.(database, measure) ?? {})
      console.log(`# ${name}: ${((performance.now() - partStart) / 1000).toFixed(0)} s`)
    }
    return database
  })
  const record: BenchRecord = {
    date: new Date().toISOString(),
    seconds: Math.round((performance.now() - start) / 1000),
    ...tree,
    machine: {
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: availableParallelism(),
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      os: `${platform()} ${release()} ${arch()}`,
      loadBefore
    },
    versions: readVersions(database),
    database: { kind: database.kind, settings: database.settings },
    connections: CONNECTIONS,
    slices: {
      count: measure.slices,
      seconds: measure.seconds,
      warmUpBatches: measure.warmUp.batches
    },
    comparisons: measured.flatMap(({ comparisons = [] }) => comparisons),
    wire: measured.flatMap(({ wire = [] }) => wire),
    bulk: measured.flatMap(({ bulk = [] }) => bulk),
    memory: measured.flatMap(({ memory = [] }) => memory),
    large: measured.flatMap(({ large = [] }) => large),
    perOperation: measured.flatMap(({ perOperation = [] }) => perOperation),
    perRow: measured.flatMap(({ perRow = [] }) => perRow)
  }
  console.log(renderGoals(record))
  // Some parts or short slices must not be mixed with the results of another run.
  const complete = !quick && names.length === 0 &&
    Object.values(selection).every(chosen => chosen === undefined)
  if (!complete) return console.log('incomplete run: nothing was written')
  writeFileSync(resultsFile, `${JSON.stringify(record, null, 1)}\n`)
  writeReport(record)
  console.log(
    'written: bench/results.json, docs/internals/benchmarks.md, docs/internals/benchmarks/'
  )
}

async function playAll (
  matches: readonly Match[],
  database: Database,
  measure: Measure
): Promise<BenchRecord['comparisons']> {
  const played = []
  for (const match of matches) {
    const comparison = await play(match, database, measure)
    console.log(describeComparison(comparison))
    played.push(comparison)
  }
  return played
}

/** Half a slice is enough: there are many words, and all of them are fast. */
async function playWords (
  database: Database,
  { seconds, ...measure }: Measure
): Promise<BenchRecord['comparisons']> {
  const comparisons = await playAll(wordMatches(selection), database, {
    ...measure,
    seconds: seconds / 2
  })
  const hand = renderWords({ comparisons })
  const checkout = renderWords({ comparisons }, nameInCheckout)
  console.log(`\nDivided by the endpoint:\n\n${hand}\n`)
  if (checkout !== undefined) {
    console.log(`Divided by the other checkout, ${selection.checkout}:\n\n${checkout}\n`)
  }
  return comparisons
}

/** The batches per second of each contender, and what Oneflight's are divided by them. */
function describeComparison (comparison: Comparison): string {
  const { work, roundTripMs, contenders: all } = comparison
  const rates = all.map(({ name, slices }) => `${name} ${throughputOf(slices)?.median.toFixed(0)}`)
  const ratios = all.slice(1).map(({ name }) => {
    const [pace, node, postgres] = [
      paceRatio(comparison, name),
      cpuRatio(comparison, name, 'node'),
      cpuRatio(comparison, name, 'postgres')
    ].map(figure => showFigure({ figure, unit: '×' }))
    return `#     against ${name}: ${pace}, Node CPU ${node}, PostgreSQL CPU ${postgres}`
  })
  return [`#   ${work}, ${roundTripMs} ms, batches/s: ${rates.join(', ')}`, ...ratios].join('\n')
}

/** Returns the commit, and whether measured files have uncommitted changes. */
function readTree (): Pick<BenchRecord, 'commit' | 'changed'> {
  try {
    const git = (...args: readonly string[]): string =>
      execFileSync('git', args, {
        cwd: root,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore']
      }).trim()
    return {
      commit: git('rev-parse', 'HEAD'),
      changed: git(
        'status',
        '--porcelain',
        '--',
        'src',
        'plugins',
        'schemas',
        'package.json',
        'bench',
        ':!bench/results.json'
      ) !== ''
    }
  } catch {
    return { commit: 'unknown', changed: false }
  }
}

function readVersions ({ settings }: Database): Readonly<Record<string, string>> {
  const installed = [
    'fastify',
    'postgres',
    'pg',
    'postgraphile',
    'autocannon'
  ].map(name => [name, versionOf(name)])
  return {
    node: process.version,
    postgresql: settings['server_version'] ?? '',
    psql: findProgram('psql') ?? 'none',
    pgbench: findProgram('pgbench') ?? 'none',
    ...Object.fromEntries(installed)
  }
}

function versionOf (name: string): string {
  const file = findPackageJSON(name, import.meta.url) as string
  return JSON.parse(readFileSync(file, 'utf8')).version
}
