/**
 * Programs that a test needs and a machine may not have: found on PATH, or where Debian puts those
 * of administrators.
 *
 * In charge of: finding them, and of starting one that ends with its test.
 * Refuses to: install anything, or to hide that a program is not there: titles say so.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'

/** Where the program is, which may go by several names; undefined when it is not installed. */
export function findProgram (...names: readonly string[]): string | undefined {
  const directories = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/local/bin',
    '/usr/bin',
    '/usr/sbin'
  ]
  return directories.flatMap(directory => names.map(name => join(directory, name))).find(
    isExecutable
  )
}

/**
 * What `t.test` needs for a test that runs only where all of `programs` (by name) were found: the
 * reason is part of the title.
 */
export function needs (
  title: string,
  programs: Readonly<Record<string, string | undefined>>
): readonly [title: string, options: { readonly skip: string | false }] {
  const missing = Object.keys(programs).filter(name => programs[name] === undefined)
  if (missing.length === 0) return [title, { skip: false }]
  const reason = `${missing.join(' and ')} not installed`
  return [`${title} (skipped: ${reason})`, { skip: reason }]
}

export interface Outcome {
  readonly code: number
  readonly output: string
}

/** Runs it to its end; `output` is all that it printed. */
export function runProgram (
  path: string,
  args: readonly string[],
  options: { readonly cwd?: string, readonly env?: Readonly<Record<string, string>> } = {}
): Promise<Outcome> {
  return new Promise(resolve => {
    const child = execFile(
      path,
      args,
      { maxBuffer: 2 ** 26, ...options },
      (_error, stdout, stderr) =>
        resolve({ code: child.exitCode ?? 1, output: `${stdout}${stderr}` })
    )
  })
}

export interface Running {
  readonly child: ChildProcess
  /** What it has printed so far. */
  output(): string
  /** Sends a signal and waits for its end. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** Starts it; it is killed at the end of `t`. */
export function startProgram (
  t: Pick<Test, 'teardown'>,
  path: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env
): Running {
  const child = spawn(path, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      text = (text + bytes.toString()).slice(-100_000)
    })
  }
  const ended = once(child, 'close')
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal)
    await ended
  }
  // A test that runs out of time is not torn down.
  const kill = (): void => {
    child.kill('SIGKILL')
  }
  process.once('exit', kill)
  t.teardown(async () => {
    process.off('exit', kill)
    await end('SIGKILL')
  })
  return { child, output: () => text, end }
}

function isExecutable (path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
