/**
 * Runs tap with the reporter of this folder.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Totals } from './reporter.ts'

export interface TapRun {
  /** tap's exit code; 1 after a signal. */
  readonly code: number
  /** Undefined when tap stopped before it had a result. */
  readonly totals: Totals | undefined
}

export const GROUPS = '.tap/groups'
const FILES_OF_GROUP = 8

/** Writes a file for each group of test files that share a process. Returns the paths. */
export function writeGroups (root: string, files: readonly string[]): readonly string[] {
  const folder = join(root, GROUPS)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  return Array.from({ length: Math.ceil(files.length / FILES_OF_GROUP) }, (_, index) => {
    const group = files.slice(index * FILES_OF_GROUP, (index + 1) * FILES_OF_GROUP)
    const path = join(GROUPS, `${index + 1}.ts`)
    writeFileSync(
      join(root, path),
      `import { runFiles } from '../../test/support/runner/group.ts'
await runFiles(${JSON.stringify(group, null, 2)})
`
    )
    return path
  })
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
