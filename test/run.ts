/**
 * Runs the tests with tap on a separate PostgreSQL server. The last line is `N passed, N failed`;
 * it is also written to .tap/summary.
 *
 * The default suite is unit, integration and docs, and `--suite=rest` what it leaves out.
 * `--suite=one-by-one` runs the tests of the language with operations that are sent one by one.
 * `--suite=unit` needs no database, and `--suite=versions` runs what may differ between versions of
 * PostgreSQL, without coverage. Other arguments are passed to tap, for example `npm test --
 * test/integration/batch.test.ts` or `npm test -- --grep=insert`. `npx tap replay --reporter=base`
 * shows the last run in another format.
 *
 * Files share processes, see test/support/runner/group.ts. A file that is named has its own.
 *
 * With TEST_FULL=on, tests of many inputs run fully, and coverage is measured: the rest requires
 * that it is complete, together with the runs of the other two suites before.
 */
import { existsSync, globSync, mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { provideCluster } from './support/database/cluster.ts'
import { coverageGaps, keepCoverage } from './support/runner/coverage.ts'
import type { Totals } from './support/runner/reporter.ts'
import { runTap, writeGroups } from './support/runner/tap.ts'

const SUITES = {
  unit: ['test/unit'],
  default: ['test/unit', 'test/integration', 'test/docs'],
  'one-by-one': [
    'bulk-update', 'computed-set', 'filters', 'fuzz', 'insert', 'join', 'model',
    'named-batches', 'nested', 'on-conflict', 'reference-forms', 'reference-operands',
    'references', 'returning', 'values', 'when'
  ].map(name => `test/integration/${name}.test.ts`),
  rest: ['test/e2e', 'test/experiments'],
  versions: ['test/integration', 'test/experiments']
}

/** Files that take long, measure their own process, or run while no other file runs. */
const ALONE = /^test\/(?:e2e|experiments)\/|\/(?:deadlines|cost)\.test\.ts$/

const root = resolve(import.meta.dirname, '..')
const { suite, args } = readArguments(process.argv.slice(2))
const named = args.some(arg => existsSync(arg))
const filtered = args.some(arg => /^(--grep|-g)/.test(arg))
const isPartial = named || filtered || suite === 'versions'
const withCoverage = process.env['TEST_FULL'] === 'on' && !isPartial

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())

const verdict = await run().catch((error: unknown) => {
  console.error(error)
  return { passed: 0, failed: 1 }
})
const summary = `${verdict.passed} passed, ${verdict.failed} failed`
mkdirSync(join(root, '.tap'), { recursive: true })
writeFileSync(join(root, '.tap', 'summary'), `${summary}\n`)
console.log(summary)
process.exitCode = verdict.failed === 0 ? 0 : 1

async function run (): Promise<Totals> {
  if (suite === 'unit') return runFiles({})
  const cluster = await provideCluster()
  try {
    console.log(`# database: ${cluster.kind}, ${withoutSecrets(cluster.url)}`)
    return await runFiles({ TEST_DATABASE_URL: cluster.url })
  } finally {
    await cluster.stop()
  }
}

async function runFiles (env: NodeJS.ProcessEnv): Promise<Totals> {
  const { code, totals } = await runTap(root, [
    // Most files start processes of their own: with more jobs than cores they time out.
    `--jobs=${availableParallelism()}`,
    ...withCoverage ? ['--allow-incomplete-coverage'] : ['--disable-coverage'],
    ...args,
    ...named ? [] : processesOf(suite)
  ], { env: { ...env, ...environment() }, signal: stopping.signal })
  if (totals === undefined || stopping.signal.aborted) return { passed: 0, failed: 1 }
  if (withCoverage && suite !== 'rest') keepCoverage(root)
  const gaps = withCoverage && suite === 'rest' ? coverageGaps(root) : []
  if (gaps.length > 0) {
    console.log('# coverage is below 100 %, which counts as one failure; not covered:')
    for (const gap of gaps) console.log(`#   ${gap}`)
  }
  const failed = totals.failed + (gaps.length > 0 ? 1 : 0)
  return { passed: totals.passed, failed: failed === 0 && code !== 0 ? 1 : failed }
}

/** The files that tap runs, each in a process of its own. */
function processesOf (suite: keyof typeof SUITES): readonly string[] {
  const files = SUITES[suite].flatMap(path =>
    path.endsWith('.ts') ? path : globSync(`${path}/**/*.test.ts`, { cwd: root }))
  const alone = filtered ? files : files.filter(path => ALONE.test(path))
  return [...alone, ...writeGroups(root, files.filter(path => !alone.includes(path)))]
}

function environment (): NodeJS.ProcessEnv {
  return {
    // Saves half of the start of a service (0.5 s of CPU time), but makes coverage less precise.
    ...withCoverage && suite !== 'default' ? { TEST_ADD_COVERAGE: 'on' } : {},
    ...suite === 'one-by-one' ? { TEST_MODE: suite } : {},
    ...withCoverage
      ? { NODE_OPTIONS: `--import=${join(root, 'test/support/runner/strip-types.mjs')}` }
      : { NODE_COMPILE_CACHE: join(root, '.tap/compile-cache') }
  }
}

function readArguments (argv: readonly string[]) {
  const option = argv.find(arg => arg.startsWith('--suite='))
  const suite = option?.slice('--suite='.length) ?? 'default'
  if (argv.some(arg => /^(--reporter|-R)/.test(arg))) {
    throw new Error('--reporter is fixed; see the last run with: npx tap replay --reporter=base')
  }
  if (!(suite in SUITES)) {
    throw new Error(`unknown suite "${suite}" (expected ${Object.keys(SUITES).join(', ')})`)
  }
  return { suite: suite as keyof typeof SUITES, args: argv.filter(arg => arg !== option) }
}

function withoutSecrets (url: string): string {
  const { host, pathname } = new URL(url)
  return `${host}${pathname}`
}
