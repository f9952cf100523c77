/**
 * PostgreSQL servers that a test or an experiment stops, kills and starts again. Their data survive
 * that. A server that other tests share could be neither killed nor measured.
 */
import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  availableMajors,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from '../../../scripts/dev/postgres.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { familyOf, isAlive } from '../process/processes.ts'
import { until } from '../until.ts'

export const major = Number(process.env['PG_MAJOR']) || availableMajors().at(-1) || 0

/** Why no server can be started here, or false: the option `skip` of a test. */
export const skip = availableMajors().includes(major)
  ? false
  : 'no embedded PostgreSQL for this platform'

export type ServerSettings = Readonly<Record<string, string | number>>

export interface RestartableServer {
  /** The server that was started last. */
  readonly current: () => Postgres
  /** Stops it by a fast shutdown. */
  readonly stop: () => Promise<void>
  /**
   * Sends SIGKILL to the postmaster. Nothing is shut down: its lock file and shared memory remain.
   * Its children exit when they notice. Resolves when none is left.
   */
  readonly kill: () => Promise<void>
  /** Starts it again on the same port, with the same settings or others. */
  readonly start: (settings?: ServerSettings) => Promise<void>
}

/** Starts a server. The end of the stage stops it and deletes its data. */
export async function useRestartableServer (
  stage: Stage,
  settings: ServerSettings = {},
  dataDir?: string
): Promise<RestartableServer> {
  const directory = dataDir ?? await createDataDirectory(stage)
  let server = await startPostgres({ major, dataDir: directory, settings })
  const stop = (): Promise<void> => server.stop()
  stage.teardown(stop)
  return {
    current: () => server,
    stop,
    async kill () {
      const processes = familyOf(server.pid)
      process.kill(server.pid, 'SIGKILL')
      // A new postmaster refuses to start while one of them is running.
      await until(() => !processes.some(isAlive))
      await stop()
    },
    async start (others = settings) {
      server = await startPostgres({
        major,
        dataDir: directory,
        settings: others,
        port: server.port
      })
    }
  }
}

/** Returns the path of a new directory for data. The end of the stage or process deletes it. */
export async function createDataDirectory (stage: Stage): Promise<string> {
  const path = await reachableDataDirectory(join(tmpdir(), `oneflight-server-${randomUUID()}`))
  const remove = (): void => rmSync(path, { recursive: true, force: true })
  process.on('exit', remove)
  stage.teardown(() => {
    process.off('exit', remove)
    remove()
  })
  return path
}
