/**
 * Finds and starts programs that a test needs and that may not be installed. Searches PATH and the
 * directories for system programs. Titles of skipped tests name what is missing.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'

/** Programs that must be installed, separated by spaces: no test that needs one may be skipped. */
const required = (process.env['REQUIRE_PROGRAMS'] ?? '').split(' ')

/**
 * Returns the path of the first program found; undefined if none is installed. Throws if one of
 * them must be.
 */
export function findProgram (...names: readonly string[]): string | undefined {
  const found = searchProgram(names)
  if (found === undefined && names.some(name => required.includes(name))) {
    throw new Error(`${names[0]} is not installed, and REQUIRE_PROGRAMS contains it`)
  }
  return found
}

function searchProgram (names: readonly string[]): string | undefined {
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
 * Returns the title and options of `t.test` for a test that is skipped unless all `programs` (by
 * name) are installed. The title includes the reason.
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

/** Runs a program to its end. `output` contains standard output and standard error. */
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

const MAX_OUTPUT = 100_000

export interface Running {
  readonly child: ChildProcess
  /** The output so far, at most MAX_OUTPUT characters. */
  output(): string
  /** Sends a signal and waits for the exit. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** Starts a program. The end of `t` kills it. */
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
      text += bytes.toString()
      if (text.length > 2 * MAX_OUTPUT) text = text.slice(-MAX_OUTPUT)
    })
  }
  const ended = once(child, 'close')
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal)
    await ended
  }
  // A test that exceeds its timeout runs no teardown.
  const kill = (): void => {
    child.kill('SIGKILL')
  }
  process.once('exit', kill)
  ended.then(() => process.off('exit', kill))
  t.teardown(() => end('SIGKILL'))
  return { child, output: () => text.slice(-MAX_OUTPUT), end }
}

function isExecutable (path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
