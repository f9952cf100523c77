/**
 * Runs tap with the reporter of this folder.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Totals } from './reporter.ts'

export interface TapRun {
  /** tap's exit code; 1 after a signal. */
  readonly code: number
  /** Undefined when tap stopped before it had a result. */
  readonly totals: Totals | undefined
}

/** Runs tap with the arguments given; `signal` stops it. */
export function runTap (
  root: string,
  args: readonly string[],
  { env, signal }: { readonly env: NodeJS.ProcessEnv, readonly signal: AbortSignal }
): Promise<TapRun> {
  const tap = join(root, 'node_modules/.bin/tap')
  const reporter = './test/support/runner/reporter.ts'
  const child = spawn(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    tap,
    `--reporter=${reporter}`,
    ...args
  ], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    killSignal: 'SIGTERM',
    signal
  })
  let totals: Totals | undefined
  child.on('message', message => {
    totals = message as Totals
  })
  return new Promise((resolve, reject) => {
    child.once('error', error => signal.aborted || reject(error))
    child.once('close', code => resolve({ code: code ?? 1, totals }))
  })
}
