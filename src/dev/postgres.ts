/**
 * A PostgreSQL server of one's own, from the binaries that npm installed: for `npm run dev` and for
 * tests.
 *
 * In charge of: one server from start to stop, on 127.0.0.1 and a private socket, open to every
 * local user (trust). Refuses to: run in production (no password, no TLS), leave a server behind,
 * or touch this process's signal handlers.
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
export { reachableDataDirectory } from './datadir.ts'

/**
 * How long (ms) a start may take, crash recovery included, and a fast shutdown before it becomes an
 * immediate one.
 */
const START = 30_000
const STOP = 10_000

export interface PostgresOptions {
  /** 14 to 18, one of `availableMajors()`. */
  readonly major: number
  /**
   * Made when absent, reused when it holds this major. Without it the data live in a temporary
   * place and end with the server.
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
  /** A superuser's connection string for the database `postgres`. */
  readonly url: string
  readonly host: string
  readonly port: number
  readonly socketDir: string
  /** The postmaster's process id. */
  readonly pid: number
  readonly dataDir: string
  /**
   * Fast shutdown: open transactions are rolled back, data are flushed; settles when the server is
   * gone.
   */
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
 * Starts a server and settles when it answers. It ends with `stop()`, or at once when this process
 * ends in whatever way; it does not keep this process alive. Throws an Error with the end of the
 * server's log when it does not come up.
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
  return attempt(launch, port, Date.now() + START, port === undefined ? 3 : 1)
}

/** A port that was free may be taken before the server binds it, hence the tries. */
async function attempt (
  launch: Launch,
  port: number | undefined,
  deadline: number,
  tries: number
): Promise<Postgres> {
  try {
    return await start(launch, port ?? await freePort(), deadline)
  } catch (error) {
    if (tries > 1 && Date.now() < deadline) return attempt(launch, port, deadline, tries - 1)
    await discard(launch.temporary, launch.dataDir)
    throw error
  }
}

async function start (launch: Launch, port: number, deadline: number): Promise<Postgres> {
  const { account, dataDir, temporary } = launch
  const socketDir = await mkdtemp(join(launch.scratch, 'oneflight-pg-'))
  const log = await open(join(socketDir, 'server.log'), 'wx')
  await give(socketDir, account)
  const server = startGuarded(command(launch, socketDir, port), account, log.fd, [
    socketDir,
    temporary ? dataDir : ''
  ])
  await log.close()
  try {
    await answering(server, socketDir, port, deadline)
  } catch (error) {
    server.abort()
    await server.ended
    await discard(true, socketDir)
    throw error
  }
  const pid = Number.parseInt(await readFile(join(dataDir, 'postmaster.pid'), 'utf8'), 10)
  const stop = async () => {
    await end(server, pid)
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

/** Asked on the private socket: on the TCP port a stranger's server may be the one that answers. */
async function answering (
  server: Guarded,
  socketDir: string,
  port: number,
  deadline: number
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

async function end (server: Guarded, pid: number): Promise<void> {
  if (server.hasEnded()) return
  server.hold()
  try {
    process.kill(pid, 'SIGINT')
  } catch {
    // ESRCH: it has just died, and we have not been told yet
  }
  await Promise.race([server.ended, sleep(STOP, undefined, { ref: false })])
  server.abort()
  await server.ended
}

async function discard (ours: boolean, directory: string): Promise<void> {
  if (ours) await rm(directory, { recursive: true, force: true, maxRetries: 3 })
}
