/**
 * Runs the service as a child process that can be killed and restarted on the same ports. Records
 * every exit that was not requested. A graceful stop is tested in test/e2e/stop.test.ts.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { accepts, freePort } from '../../scripts/dev/port.ts'
import type { Stage } from '../../scripts/dev/stage.ts'
import { until } from '../support/until.ts'
import { SECRET } from './own-server.ts'

export interface RestartableService {
  readonly url: string
  readonly adminUrl: string
  /** Sends SIGKILL and resolves when the process has exited. */
  kill(): Promise<void>
  /** Starts the process and resolves when it listens. */
  start(): Promise<void>
  /** The last output of each process that exited without being killed. */
  readonly crashes: readonly string[]
}

const main = join(import.meta.dirname, '../../src/main.ts')

/** Starts the service. The process is killed at the end of the stage or of this process. */
export async function useRestartableService (
  stage: Stage,
  databaseUrl: string,
  env: Readonly<Record<string, string>> = {}
): Promise<RestartableService> {
  const [port, adminPort] = [await freePort(), await freePort()]
  const settings = {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: SECRET,
    HTTP_PORT: String(port),
    ADMIN_HTTP_PORT: String(adminPort),
    LOG_LEVEL: 'fatal',
    ...env
  }
  const crashes: string[] = []
  let running:
    | { readonly child: ChildProcess, readonly ended: Promise<unknown>, expected: boolean }
    | undefined

  const kill = async (): Promise<void> => {
    if (running === undefined) return
    running.expected = true
    running.child.kill('SIGKILL')
    await running.ended
  }
  const start = async (): Promise<void> => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
      env: { PATH: process.env['PATH'], ...settings },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let printed = ''
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (bytes: Buffer) => {
        printed = (printed + bytes.toString()).slice(-4000)
      })
    }
    const current = { child, expected: false, ended: once(child, 'close') }
    running = current
    current.ended.then(() => {
      if (!current.expected) crashes.push(`${child.exitCode ?? child.signalCode}: ${printed}`)
    })
    await until(async () => child.exitCode !== null || await accepts(port))
    if (child.exitCode !== null) throw new Error(`the service did not start: ${printed}`)
  }
  const killNow = (): void => {
    running?.child.kill('SIGKILL')
  }
  process.on('exit', killNow)
  stage.teardown(async () => {
    await kill()
    process.off('exit', killNow)
  })
  await start()
  return {
    url: `http://127.0.0.1:${port}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    kill,
    start,
    crashes
  }
}
