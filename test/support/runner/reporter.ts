/**
 * A reporter for tap: one line per finished test file and its failures in full, which are repeated
 * at the end, after the skipped tests and their reasons. Sends the totals to the parent process
 * (tap.ts).
 *
 * tap calls it as a React component; it renders nothing. The raw TAP would show a file only when
 * all files before it have finished.
 */
import type { Base, Spawn, TAP } from 'tap'
import { addKeptCoverage } from './coverage.ts'

/** Assertions ("test points"), as tap counts them. */
export interface Totals {
  readonly passed: number
  readonly failed: number
}

interface Output {
  /** The output that explains failures, without passed assertions, plans and timings. */
  failures(): string
  /** One line for each skipped or pending test: file, test names, reason. */
  readonly omissions: readonly string[]
  stderr(): string
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
  const outputs = new Map<Base, Output>()
  const omissions: string[] = []
  const failures: string[] = []
  let added = 0
  let finished = 0
  suite.on('subtestAdd', file => {
    added++
    if (process.env['TAP_DISABLE_COVERAGE'] === '1') removeHooks(file as Spawn)
  })
  suite.on('subtestStart', file => outputs.set(file, watch(file as Spawn)))
  suite.on('subtestEnd', file => {
    const output = outputs.get(file) ?? watch(file as Spawn)
    finished++
    omissions.push(...output.omissions)
    console.log(`[${finished}/${added}] ${describe(file)}`)
    if (output.stderr() !== '') console.log(output.stderr())
    if (file.passing()) return
    const failure = describeFailure(file, output.failures())
    // At the end of a long run only the last lines may be kept.
    failures.push([describe(file), failure, output.stderr()].join('\n').trimEnd())
    console.log(failure)
  })
  suite.on('complete', () => {
    for (const omission of omissions) console.log(`# skipped or to do: ${omission}`)
    const { pass, fail, skip, todo } = suite.counts
    if (skip + todo > 0) console.log(`# ${skip + todo} skipped or to do`)
    if (finished > 1) for (const failure of failures) console.log(failure)
    process.send?.({ passed: pass, failed: fail } satisfies Totals)
  })
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

function watch (file: Spawn): Output {
  const { name, parser } = file
  const [lines, omissions]: [string[], string[]] = [[], []]
  const stderr: Buffer[] = []
  for (const event of ['skip', 'todo'] as const) {
    parser.on(event, ({ fullname, skip, todo }) => {
      const reason = skip || todo
      // Those that `--grep` leaves out do not count.
      if (String(reason).startsWith('filter')) return
      // Some names repeat the reason.
      const test = fullname.replace(` (skipped: ${reason})`, '')
      omissions.push(`${test}: ${reason === true ? 'no reason given' : reason}`)
    })
  }
  parser.on('complete', ({ plan }) => {
    if (plan.skipAll) omissions.push(`${name}: ${plan.skipReason}`)
  })
  parser.on('line', line => {
    if (!NOISE.test(line)) lines.push(line.trimEnd())
  })
  file.on('process', child => child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk)))
  return {
    failures: () => lines.join('\n'),
    omissions,
    stderr: () => Buffer.concat(stderr).toString().trimEnd()
  }
}

function describe (file: Base): string {
  const { pass, fail, skip, todo } = file.counts
  const counts = [`${pass} passed`]
  if (fail > 0) counts.push(`${fail} failed`)
  if (skip + todo > 0) counts.push(`${skip + todo} skipped`)
  return `${file.passing() ? 'ok' : 'FAILED'} ${file.name} ${(file.time / 1000).toFixed(1)} s, ${
    counts.join(', ')
  }`
}

function describeFailure (file: Base, failures: string): string {
  const { exitCode, signal } = file.options
  const end = signal
    ? `stopped by ${signal}`
    : exitCode
      ? `exit code ${exitCode}`
      : file.counts.fail === 0 ? 'took longer than the timeout of .taprc' : undefined
  return [...failures === '' ? [] : [failures], ...end === undefined ? [] : [`# ${end}`]].join('\n')
}
