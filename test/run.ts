/**
 * `npm test`: a database, tap on it, and a verdict in one last line, `N passed, N failed`.
 *
 * In charge of: the cluster's life around the run, the counts (tap's own: test points), the tests
 * that were not run with their reasons, and full coverage.
 * Refuses to: judge coverage when arguments name single test files.
 *
 * Arguments go to tap as they are: `npm test -- test/integration/batch.test.ts`, `npm test --
 * --grep=insert`. The verdict is also left in .tap/summary; `npx tap replay --reporter=base` shows
 * the run again in other forms.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { provideCluster } from './support/database/cluster.ts'
import { coverageGaps } from './support/runner/coverage.ts'
import { tapReader, type Counts } from './support/runner/tap-reader.ts'

const root = resolve(import.meta.dirname, '..')
const args = process.argv.slice(2)
const partial = args.some(arg =>
  existsSync(arg) || arg.startsWith('--grep') || arg.startsWith('-g')
)

let tap: ChildProcess | undefined
let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true
    tap?.kill(signal)
  })
}

const verdict = await run().catch((error: unknown) => {
  console.error(error)
  return { passed: 0, failed: 1 }
})
const summary = `${verdict.passed} passed, ${verdict.failed} failed`
mkdirSync(join(root, '.tap'), { recursive: true })
writeFileSync(join(root, '.tap', 'summary'), `${summary}\n`)
console.log(summary)
process.exitCode = verdict.failed === 0 ? 0 : 1

async function run (): Promise<{ passed: number, failed: number }> {
  const cluster = await provideCluster()
  try {
    console.log(`# database: ${cluster.kind}, ${withoutSecrets(cluster.url)}`)
    if (interrupted) return { passed: 0, failed: 1 }
    const { code, counts, omissions } = await runTap(cluster.url)
    if (counts === undefined) return { passed: 0, failed: 1 }
    for (const omission of omissions) console.log(`# ${omission}`)
    if (counts.left > 0) console.log(`# ${counts.left} skipped or to do`)
    const gaps = partial ? [] : coverageGaps(root)
    if (gaps.length > 0) {
      console.log(
        `# coverage is below 100 %, which counts as one failure; not covered:\n${
          gaps.map(gap => `#   ${gap}`).join('\n')
        }`
      )
    }
    const failed = counts.failed + (gaps.length > 0 ? 1 : 0)
    return { passed: counts.passed, failed: failed === 0 && code !== 0 ? 1 : failed }
  } finally {
    await cluster.stop()
  }
}

interface TapRun {
  /** 1 when a signal ended it. */
  readonly code: number
  readonly counts: Counts | undefined
  readonly omissions: readonly string[]
}

function runTap (url: string): Promise<TapRun> {
  const options = ['--reporter=tap', ...partial ? ['--disable-coverage'] : []]
  const child = spawn(
    process.execPath,
    [join(root, 'node_modules/.bin/tap'), ...options, ...args],
    {
      cwd: root,
      env: { ...process.env, TEST_DATABASE_URL: url },
      stdio: ['ignore', 'pipe', 'inherit']
    }
  )
  tap = child
  const reader = tapReader()
  createInterface({ input: child.stdout }).on('line', line => {
    const text = reader.take(line)
    if (text !== undefined) console.log(text)
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code =>
      resolve({
        code: interrupted ? 1 : code ?? 1,
        counts: reader.counts(),
        omissions: reader.omissions()
      }))
  })
}

function withoutSecrets (url: string): string {
  const { host, pathname } = new URL(url)
  return `${host}${pathname}`
}
