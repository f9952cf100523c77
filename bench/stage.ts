/**
 * Starts the processes of the benchmark, waits until they are ready, and stops each by its id.
 */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { accepts, freePort } from '../scripts/dev/port.ts'
import type { Stage } from '../scripts/dev/stage.ts'

const running = new Set<ChildProcess>()
const state = { stopping: false }

/** Stops all processes and starts no more. Callers that wait for them fail and clean up. */
export function endAll (): void {
  state.stopping = true
  for (const child of running) child.kill('SIGTERM')
}

// Stops the processes also if the benchmark exits without cleaning up, for example by
// process.exit().
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** The maximum time (ms) for a process to start, and to stop after SIGTERM. */
const START_MS = 30_000
const STOP_MS = 10_000

const bench = import.meta.dirname
const quiet = [
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=DEP0169',
  '--disable-warning=DEP0040'
]

/** Environment variables of a process. */
export type Environment = Readonly<Record<string, string>>

export interface ScriptProcess {
  readonly pid: number
  /** Sends a message and returns the reply. Throws if the process ends instead. */
  request(message: unknown): Promise<any>
}

/** Starts a script of the benchmark. `hello` is its first message, unless `sendsHello` is false. */
export async function useScript (
  stage: Stage,
  script: string,
  { args = [], env = {}, sendsHello = true }: {
    readonly args?: readonly string[],
    readonly env?: Environment,
    readonly sendsHello?: boolean
  } = {}
): Promise<ScriptProcess & { readonly hello: any }> {
  const child = fork(join(bench, script), [...args], {
    execArgv: quiet,
    env: { PATH: process.env['PATH'], NODE_ENV: 'production', ...env },
    stdio: ['ignore', outputOf(env), 'inherit', 'ipc']
  })
  stopWithStage(stage, child)
  const nextMessage = async (): Promise<any> => {
    const waiting = new AbortController()
    const { signal } = waiting
    const message = once(child, 'message', { signal }).then(([message]) => message)
    const end = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`${script} ended (${code})`)
    })
    return Promise.race([message, end]).finally(() => waiting.abort())
  }
  const hello = sendsHello ? await withTimeout(nextMessage(), `${script} to start`) : undefined
  return {
    pid: child.pid as number,
    hello,
    async request (message) {
      const reply = nextMessage()
      child.send(message as object)
      return reply
    }
  }
}

/** Starts Oneflight, this one or that of another folder, and waits until it is ready. */
export async function useService (
  stage: Stage,
  env: Environment,
  checkout = join(bench, '..')
): Promise<{ readonly pid: number, readonly url: string }> {
  const port = await freePort()
  const child = spawn(process.execPath, [...quiet, join(checkout, 'src/main.ts')], {
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      HTTP_PORT: String(port),
      ADMIN_HTTP_PORT: '0',
      LOG_LEVEL: 'warn',
      // No load balancer has to notice the end.
      SHUTDOWN_DELAY_MS: '0',
      ...env
    },
    stdio: ['ignore', outputOf(env), 'inherit']
  })
  stopWithStage(stage, child)
  const deadline = Date.now() + START_MS
  while (!await accepts(port)) {
    if (child.exitCode !== null || Date.now() > deadline) {
      throw new Error('the service did not start')
    }
    await sleep(20)
  }
  return { pid: child.pid as number, url: `http://127.0.0.1:${port}` }
}

/** The output of a process that logs its requests is discarded. */
const outputOf = (env: Environment) => env['LOG_LEVEL'] === 'info' ? 'ignore' : 'inherit'

function stopWithStage (stage: Stage, child: ChildProcess): void {
  running.add(child)
  if (state.stopping) child.kill('SIGTERM')
  const ended = once(child, 'exit').then(() => {
    running.delete(child)
  })
  stage.teardown(async () => {
    child.kill('SIGTERM')
    const killing = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(killing)
  })
}

async function withTimeout<T> (promise: Promise<T>, what: string): Promise<T> {
  const waiting = new AbortController()
  const late = sleep(START_MS, undefined, { signal: waiting.signal }).then(() => {
    throw new Error(`waited ${START_MS} ms for ${what}`)
  })
  return Promise.race([promise, late]).finally(() => {
    late.catch(() => {})
    waiting.abort()
  })
}
