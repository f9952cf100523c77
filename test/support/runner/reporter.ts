/**
 * A reporter for tap: one line per finished test file and its failures in full, which are repeated
 * at the end, after the skipped tests and their reasons. Sends the totals to the parent process
 * (tap.ts).
 *
 * tap calls it as a React component; it renders nothing. The raw TAP would show a file only when
 * all files before it have finished.
 */
import { readFileSync } from 'node:fs'
import type { Spawn, TAP } from 'tap'
import { addKeptCoverage } from './coverage.ts'
import { GROUPS } from './tap.ts'

/** Assertions ("test points"), as tap counts them. */
export interface Totals {
  readonly passed: number
  readonly failed: number
}

/** What a test file has printed so far. */
interface Output {
  readonly name: string
  readonly start: number
  readonly counts: { pass: number, fail: number, skip: number }
  /** Explain failures: without passed assertions, plans and timings. */
  readonly lines: string[]
  readonly stderr: Buffer[]
}

const NOISE = /^\s*(ok \d|\d+\.\.\d|TAP version|# time=|# \{|$)/

let attached = false

export default function Reporter ({ test }: { readonly test: TAP }): null {
  if (!attached) attach(test)
  attached = true
  return null
}

function attach (suite: TAP): void {
  // tap has just deleted the data of the run before.
  if (process.env['TEST_ADD_COVERAGE'] === 'on') addKeptCoverage(process.cwd())
  const omissions: string[] = []
  const failures: string[] = []
  let added = 0
  let finished = 0
  const report = (output: Output, passed: boolean, end: readonly string[]): void => {
    finished++
    const stderr = Buffer.concat(output.stderr).toString().trimEnd()
    const line = describe(output, passed)
    console.log(`[${finished}/${added}] ${line}`)
    if (stderr !== '') console.log(stderr)
    if (passed) return
    const failure = [...output.lines, ...end].join('\n')
    // At the end of a long run only the last lines may be kept.
    failures.push([line, failure, stderr].join('\n').trimEnd())
    console.log(failure)
  }
  suite.on('subtestAdd', file => {
    added += filesOf(file.name)
    // Each file of a group has its own limit.
    if (file.name.startsWith(GROUPS)) file.options.timeout = 0
    if (process.env['TAP_DISABLE_COVERAGE'] === '1') removeHooks(file as Spawn)
  })
  suite.on('subtestStart', file => watch(file as Spawn, omissions, report))
  suite.on('complete', () => {
    for (const omission of omissions) console.log(`# skipped or to do: ${omission}`)
    const { pass, fail, skip, todo } = suite.counts
    if (skip + todo > 0) console.log(`# ${skip + todo} skipped or to do`)
    if (finished > 1) for (const failure of failures) console.log(failure)
    process.send?.({ passed: pass, failed: fail } satisfies Totals)
  })
}

function filesOf (name: string): number {
  return name.startsWith(GROUPS) ? readFileSync(name, 'utf8').split('.test.ts').length - 1 : 1
}

/**
 * Starts a file without the module hooks of tap, which only coverage and mocks need. They take 0.9
 * s of processor time in every process, since Node does not use its compile cache with them. tap
 * also adds them to NODE_OPTIONS when it spawns the process, so `env` restores the variable.
 */
function removeHooks (file: Spawn): void {
  const args = file.args.filter(arg => !/^--(?:import=|enable-source-maps$)/.test(arg))
  file.args = [`NODE_OPTIONS=${process.env['NODE_OPTIONS'] ?? ''}`, file.command, ...args]
  file.command = 'env'
}

/** Calls `report` at the end of each file of a process. */
function watch (
  process: Spawn,
  omissions: string[],
  report: (output: Output, passed: boolean, end: readonly string[]) => void
): void {
  const { name, parser } = process
  const isGroup = name.startsWith(GROUPS)
  let output = outputOf(name)
  let hasFailed = false
  parser.on('result', ({ ok, skip, todo }) => {
    output.counts[skip || todo ? 'skip' : ok ? 'pass' : 'fail']++
  })
  for (const event of ['skip', 'todo'] as const) {
    parser.on(event, ({ fullname, skip, todo }) => {
      const reason = skip || todo
      // Those that `--grep` leaves out do not count.
      if (String(reason).startsWith('filter')) return
      // Some names repeat the reason.
      const test = fullname.replace(` (skipped: ${reason})`, '')
      const place = isGroup ? test.replace(/^\S+ > /, '') : test
      omissions.push(`${place}: ${reason === true ? 'no reason given' : reason}`)
    })
  }
  parser.on('complete', ({ plan }) => {
    if (plan.skipAll) omissions.push(`${name}: ${plan.skipReason}`)
  })
  parser.on('line', line => {
    if (!NOISE.test(line)) output.lines.push(line.trimEnd())
  })
  process.on('process', child =>
    child.stderr?.on('data', (chunk: Buffer) => output.stderr.push(chunk)))
  if (isGroup) {
    parser.on('child', file => {
      output = outputOf(file.name)
      file.on('complete', ({ ok }: { readonly ok: boolean }) => {
        hasFailed ||= !ok
        report(output, ok, [])
      })
    })
  }
  process.on('end', () => {
    if (!isGroup || (!process.passing() && (!hasFailed || process.options.signal))) {
      report(output, process.passing(), endOf(process))
    }
  })
}

function outputOf (name: string): Output {
  return { name, start: Date.now(), counts: { pass: 0, fail: 0, skip: 0 }, lines: [], stderr: [] }
}

function describe ({ name, start, counts: { pass, fail, skip } }: Output, passed: boolean): string {
  const counts = [`${pass} passed`]
  if (fail > 0) counts.push(`${fail} failed`)
  if (skip > 0) counts.push(`${skip} skipped`)
  return `${passed ? 'ok' : 'FAILED'} ${name} ${((Date.now() - start) / 1000).toFixed(1)} s, ${
    counts.join(', ')
  }`
}

function endOf ({ counts, options: { exitCode, signal } }: Spawn): readonly string[] {
  if (signal) return [`# stopped by ${signal}`]
  if (exitCode) return [`# exit code ${exitCode}`]
  return counts.fail === 0 ? ['# took longer than the timeout of .taprc'] : []
}
