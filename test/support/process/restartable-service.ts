/**
 * Runs the service as a child process that can be stopped, killed and started again on the same
 * ports. Records every exit that was not requested.
 */
import { join } from 'node:path'
import { accepts, freePort } from '../../../scripts/dev/port.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { SECRET } from '../environment.ts'
import { until } from '../until.ts'
import { childEnvironment } from './process.ts'
import { startProgram, type Running } from './programs.ts'

export interface RestartableService {
  readonly url: string
  readonly adminUrl: string
  /** The id of the process that was started last. */
  readonly pid: () => number
  /** The output of this process so far, at most 100 000 characters. */
  readonly output: () => string
  /** The last output of each process that exited without being asked to. */
  readonly crashes: readonly string[]
  /** Sends a signal. Resolves with the exit code when the process has exited; null: by a signal. */
  readonly end: (signal: NodeJS.Signals) => Promise<number | null>
  /** Starts the process again and resolves when it listens. */
  readonly start: () => Promise<void>
  /** Resolves when `/ready` of the admin server returns 200. */
  readonly ready: () => Promise<unknown>
}

const main = join(import.meta.dirname, '../../../src/main.ts')

const STOP_MS = 30_000

/** Starts the service as `npm start` does. The end of the stage stops it with `lastSignal`. */
export async function useRestartableService (
  stage: Stage,
  env: Readonly<Record<string, string>>,
  lastSignal: NodeJS.Signals = 'SIGTERM'
): Promise<RestartableService> {
  const settings = {
    JWT_SECRET: SECRET,
    HTTP_PORT: String(await freePort()),
    ADMIN_HTTP_PORT: String(await freePort()),
    SHUTDOWN_DELAY_MS: '0',
    ...env
  }
  const { HTTP_PORT: port, ADMIN_HTTP_PORT: adminPort } = settings
  const crashes: string[] = []
  let running: Running
  let isAsked = false
  const start = async (): Promise<void> => {
    isAsked = false
    const started = startProgram(
      stage,
      process.execPath,
      ['--disable-warning=ExperimentalWarning', main],
      childEnvironment(settings)
    )
    running = started
    const { child, output } = started
    child.once('close', (code, signal) => {
      if (!isAsked) crashes.push(`${code ?? signal}: ${output().slice(-4000)}`)
    })
    await until(async () => {
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`the service did not start: ${output()}`)
      }
      return await accepts(Number(port)) && await accepts(Number(adminPort))
    })
  }
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    isAsked = true
    const killing = setTimeout(() => running.child.kill('SIGKILL'), STOP_MS)
    await running.end(signal)
    clearTimeout(killing)
    return running.child.exitCode
  }
  await start()
  stage.teardown(() => end(lastSignal))
  const adminUrl = `http://127.0.0.1:${adminPort}`
  return {
    url: `http://127.0.0.1:${port}`,
    adminUrl,
    pid: () => running.child.pid as number,
    output: () => running.output(),
    crashes,
    end,
    start,
    ready: () =>
      until(async () => {
        // A kept connection would delay the stop of the service.
        const { status } = await fetch(`${adminUrl}/ready`, { headers: { connection: 'close' } })
        return status === 200
      })
  }
}
