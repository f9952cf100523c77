/**
 * The service as a process that is killed and started again, on the same ports.
 *
 * In charge of: its life, and of noticing when it ends without having been told to, which is the
 * one thing it must never do. Refuses to: end it in a friendly way before the stage is cleared
 * (test/e2e/stop.test.ts does).
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { accepts, freePort } from '../../src/dev/port.ts'
import type { Stage } from '../../src/dev/stage.ts'
import { until } from '../support/until.ts'
import { SECRET } from './own-server.ts'

export interface RestartableService {
  readonly url: string
  readonly adminUrl: string
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves when it listens. */
  start(): Promise<void>
  /** What it said last, for each time that it ended by itself. */
  readonly crashes: readonly string[]
}

const main = join(import.meta.dirname, '../../src/main.ts')

/**
 * Starts the service for the first time; it ends with the stage, at the latest with this process.
 */
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
    | { readonly child: ChildProcess, readonly ended: Promise<unknown>, wanted: boolean }
    | undefined

  const kill = async (): Promise<void> => {
    if (running === undefined) return
    running.wanted = false
    running.child.kill('SIGKILL')
    await running.ended
  }
  const start = async (): Promise<void> => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
      env: { PATH: process.env['PATH'], ...settings },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let said = ''
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (bytes: Buffer) => {
        said = (said + bytes.toString()).slice(-4000)
      })
    }
    const own = { child, wanted: true, ended: once(child, 'close') }
    running = own
    own.ended.then(() => {
      if (own.wanted) crashes.push(`${child.exitCode ?? child.signalCode}: ${said}`)
    })
    await until(async () => child.exitCode !== null || await accepts(port))
    if (child.exitCode !== null) throw new Error(`the service did not start: ${said}`)
  }
  const end = (): void => {
    running?.child.kill('SIGKILL')
  }
  process.on('exit', end)
  stage.teardown(async () => {
    await kill()
    process.off('exit', end)
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
