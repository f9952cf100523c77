/**
 * Child processes of tests: their environment, and process groups that end with the test.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Test } from 'tap'

/** The environment of a child: `env`, and what Node, its compile cache and coverage need. */
export function childEnvironment (
  env: Readonly<Record<string, string | undefined>> = {}
): Record<string, string> {
  const { PATH, NODE_COMPILE_CACHE, NODE_V8_COVERAGE, NODE_OPTIONS } = process.env
  return Object.fromEntries(
    Object.entries({ PATH, NODE_COMPILE_CACHE, NODE_V8_COVERAGE, NODE_OPTIONS, ...env }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined
    )
  )
}

/**
 * Returns variables that run JavaScript in every process before its main module. `id` is 0 in the
 * process that the test starts, and the number of a worker in the others.
 */
export function preload (script: string): Record<string, string> {
  const code = `import cluster from 'node:cluster'; const id = cluster.worker?.id ?? 0; ${script}`
  return {
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=data:text/javascript,${
      encodeURIComponent(code).replaceAll("'", '%27')
    }`
  }
}

export interface Group {
  readonly child: ChildProcess
  /** The output so far. */
  output(): string
  /**
   * The exit code of the first process, or the signal that ended it. Resolves when no process holds
   * its output: the processes that it started have exited too.
   */
  readonly ended: Promise<number | string>
}

export type Line = Readonly<Record<string, any>>

export interface Main extends Group {
  /** The log lines so far. */
  lines(): readonly Line[]
  /** The URL of the server of this name; undefined: it does not listen yet. */
  address(name: 'main' | 'admin'): string | undefined
}

const main = join(import.meta.dirname, '../../../src/main.ts')

/** Starts the service as leader of a process group, with only `env` and what Node needs. */
export function startMain (
  t: Pick<Test, 'teardown'>,
  env: Readonly<Record<string, string>>,
  program: readonly string[] = [main]
): Main {
  const args = ['--disable-warning=ExperimentalWarning', ...program]
  const group = startGroup(t, [process.execPath, args], { env: childEnvironment(env) })
  const { output } = group
  return {
    ...group,
    lines: () =>
      output().split('\n').slice(0, -1).filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line) as Line),
    address: name => new RegExp(`${name} server listening at (http://[^"]+)`).exec(output())?.[1]
  }
}

/** Spawns the leader of a process group; the rest of the group is killed at the end of `t`. */
export function startGroup (
  t: Pick<Test, 'teardown'>,
  [program, args]: readonly [program: string, args: readonly string[]],
  options: { readonly env?: NodeJS.ProcessEnv, readonly cwd?: string }
): Group {
  const child = spawn(program, args, {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  t.teardown(async () => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch { /* No process is left. */ }
    await ended
  })
  return { child, output: () => text, ended }
}
