/**
 * `npm run bench [part …] [-- --quick]`: runs the benchmark, writes `bench/results.json` and the
 * report. Exit code 1 if a contender did different work than requested. Partial and quick runs
 * write nothing.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Measure } from './compare.ts'
import { CONNECTIONS, findProgram } from './contenders.ts'
import { useDatabase, type Database } from './database.ts'
import { renderGoals } from './goals.ts'
import { resultsFile, throughputOf, type BenchRecord } from './record.ts'
import { writeReport } from './report.ts'
import { compareBulk, measureMemory } from './rows/bulk.ts'
import { measureCost, scales } from './rows/cost.ts'
import { hotMatches, orderMatches, play } from './rows/throughput.ts'
import { countAll } from './rows/wire.ts'
import { onStage } from '../src/dev/stage.ts'
import { endAll } from './stage.ts'

const root = join(import.meta.dirname, '..')

type Measured = Pick<
  BenchRecord,
  'comparisons' | 'wire' | 'bulk' | 'memory' | 'perOperation' | 'perRow'
>

/** The parts by name. */
const parts: Readonly<
  Record<string, (database: Database, measure: Measure) => Promise<Partial<Measured>>>
> = {
  hot: async (database, measure) => ({ comparisons: await playAll(hotMatches, database, measure) }),
  order: async (database, measure) => ({
    comparisons: await playAll(orderMatches, database, measure)
  }),
  wire: async database => ({ wire: await countAll(database) }),
  bulk: async (database, { slices }) => ({
    bulk: await compareBulk(database, slices * 8),
    memory: await measureMemory(database, slices)
  }),
  cost: async (database, { slices, seconds }) => ({
    perOperation: await measureCost(database, scales.perOperation, {
      slices,
      seconds: seconds / 5
    }),
    perRow: await measureCost(database, scales.perRow, { slices, seconds: seconds / 5 })
  })
}

const args = process.argv.slice(2)
const quick = args.includes('--quick')
const names = args.filter(arg => !arg.startsWith('--'))
const unknown = [
  ...names.filter(name => !(name in parts)),
  ...args.filter(arg => arg.startsWith('--') && arg !== '--quick')
]
const measure: Measure = quick
  ? { slices: 2, seconds: 0.7, warmUp: { batches: 250, seconds: 1 } }
  : { slices: 3, seconds: 2.5, warmUp: { batches: 8000, seconds: 10 } }

/** The maximum time (ms) to clean up after a signal. */
const CLEANUP_MS = 10_000

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    endAll()
    setTimeout(() => process.exit(1), CLEANUP_MS).unref()
  })
}

if (unknown.length > 0) {
  console.error(
    `unknown part ${unknown.join(', ')} (expected ${Object.keys(parts).join(', ')} or --quick)`
  )
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
    perOperation: measured.flatMap(({ perOperation = [] }) => perOperation),
    perRow: measured.flatMap(({ perRow = [] }) => perRow)
  }
  console.log(renderGoals(record))
  // Some parts or short slices must not be mixed with the results of another run.
  if (quick || names.length > 0) return console.log('incomplete run: nothing was written')
  writeFileSync(resultsFile, `${JSON.stringify(record, null, 1)}\n`)
  writeReport(record)
  console.log(
    'written: bench/results.json, docs/internals/benchmarks.md, docs/internals/benchmarks/'
  )
}

async function playAll (
  matches: typeof hotMatches,
  database: Database,
  measure: Measure
): Promise<BenchRecord['comparisons']> {
  const played = []
  for (const match of matches) {
    const comparison = await play(match, database, measure)
    const figures = comparison.contenders.map(({ name, slices }) =>
      `${name} ${throughputOf(slices)?.median.toFixed(0)}`
    )
    console.log(
      `#   ${comparison.work}, ${comparison.roundTripMs} ms, batches/s: ${figures.join(', ')}`
    )
    played.push(comparison)
  }
  return played
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
    'postgraphile-plugin-atomic-mutations',
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
