/**
 * Runs a primary and a hot standby. The embedded binaries have no pg_basebackup, so the standby
 * starts from a cold copy. Tests decide when the primary is lost, the standby promoted and the old
 * primary restarted as a standby.
 */
import { randomUUID } from 'node:crypto'
import { chmod, cp, glob, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import type { Test } from 'tap'
import { give, serverAccount } from '../../../scripts/dev/account.ts'
import {
  availableMajors,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from '../../../scripts/dev/postgres.ts'
import { isAlive } from '../process/alive.ts'
import { until } from '../until.ts'

const major = Number(process.env['PG_MAJOR']) || availableMajors().at(-1)

/** Why these tests cannot run here, or false. */
export const skip = major === undefined || !availableMajors().includes(major)
  ? 'no embedded PostgreSQL for this platform'
  : false

export interface Pair {
  readonly primary: Postgres
  readonly standby: Postgres
  /**
   * Stops the primary by a fast shutdown, or kills its postmaster with SIGKILL. Resolves when all
   * its processes have exited.
   */
  losePrimary(how: 'stop' | 'kill'): Promise<void>
  /** Stops the standby. The primary no longer waits for it. */
  loseStandby(): Promise<void>
  /** Promotes the standby. Resolves when it accepts writes. */
  promote(): Promise<void>
  /** Starts the old primary as a standby of the new one. */
  comeBack(): Promise<Postgres>
}

type Settings = Readonly<Record<string, string | number>>

/**
 * Starts a pair of servers for `useService`. TEST_DATABASE_URL determines which of them gets new
 * databases; initially the primary.
 */
export async function useServers (
  t: Pick<Test, 'teardown'>,
  settings: Settings = {}
): Promise<Pair> {
  const before = process.env['TEST_DATABASE_URL']
  const servers = await usePair(t, { major: major as number, settings })
  process.env['TEST_DATABASE_URL'] = servers.primary.url
  t.teardown(() => {
    process.env['TEST_DATABASE_URL'] = before
  })
  return servers
}

/** The name of the standby in synchronous_standby_names. */
const NAME = 'follower'

/**
 * Starts both. The end of `t` stops them. COMMIT waits until the standby has written it to disk, so
 * no failover loses an acknowledged batch. `settings` apply to the standby.
 */
export async function usePair (
  t: Pick<Test, 'teardown'>,
  { major, settings = {} }: { readonly major: number, readonly settings?: Settings }
): Promise<Pair> {
  const [first, second] = [await createDataDirectory(), await createDataDirectory()]
  const servers = new Set<Postgres>()
  const start = async (dataDir: string, settings: Settings, port?: number): Promise<Postgres> => {
    const server = await startPostgres({
      major,
      dataDir,
      settings: { ...common, ...settings },
      ...(port === undefined ? {} : { port })
    })
    servers.add(server)
    return server
  }
  t.teardown(async () => {
    await Promise.all([...servers].map(server => server.stop()))
    await Promise.all([first, second].map(dataDir => rm(dataDir, { recursive: true, force: true })))
  })
  const seed = await start(first, {})
  await seed.stop()
  await copy(first, second)
  const primary = await start(first, {})
  const standby = await start(second, { ...standbySettings(primary), ...settings })
  // Set only now. Without a standby COMMIT would wait forever.
  await execute(
    primary,
    `alter system set synchronous_standby_names = '${NAME}'`,
    'select pg_reload_conf()'
  )
  await until(async () =>
    (await execute(primary, "select from pg_stat_replication where sync_state = 'sync'")).length > 0
  )
  return {
    primary,
    standby,
    async losePrimary (how) {
      if (how === 'stop') return await primary.stop()
      const children = (await execute(primary, 'select pid from pg_stat_activity')).map(({ pid }) =>
        pid as number
      )
      process.kill(primary.pid, 'SIGKILL')
      await until(() => children.every(pid => !isAlive(pid)))
    },
    async loseStandby () {
      await standby.stop()
      await execute(
        primary,
        'alter system reset synchronous_standby_names',
        'select pg_reload_conf()'
      )
    },
    async promote () {
      await execute(standby, 'select pg_promote()')
      await until(async () =>
        (await execute(standby, 'select where not pg_is_in_recovery()')).length > 0
      )
    },
    async comeBack () {
      await writeFile(join(first, 'standby.signal'), '')
      // This server would wait for itself if it were promoted.
      await rm(join(first, 'postgresql.auto.conf'))
      await writeFile(join(first, 'postgresql.auto.conf'), '')
      await give(join(first, 'standby.signal'), serverAccount())
      await give(join(first, 'postgresql.auto.conf'), serverAccount())
      return await start(first, standbySettings(standby), primary.port)
    }
  }
}

/** A standby needs at least as many connections as its primary. */
const common: Settings = {
  max_connections: 60,
  max_wal_senders: 4,
  wal_level: 'replica',
  wal_keep_size: '256MB',
  shared_buffers: '32MB',
  fsync: 'off',
  hot_standby: 'on'
}

function standbySettings ({ port }: Postgres): Settings {
  return {
    primary_conninfo: `host=127.0.0.1 port=${port} user=postgres application_name=${NAME}`,
    recovery_target_timeline: 'latest',
    wal_retrieve_retry_interval: '100ms'
  }
}

function createDataDirectory (): Promise<string> {
  return reachableDataDirectory(join(tmpdir(), `oneflight-pair-${randomUUID()}`))
}

/** Copies the data of a stopped server. */
async function copy (from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true, filter: async path => !path.endsWith('postmaster.pid') })
  await writeFile(join(to, 'standby.signal'), '')
  await giveToServer(to)
}

async function giveToServer (directory: string): Promise<void> {
  await chmod(directory, 0o700)
  await give(directory, serverAccount())
  for await (const path of glob('**/*', { cwd: directory })) {
    await give(join(directory, path), serverAccount())
  }
}

/** Runs statements in order as superuser. Returns the rows of the last one. */
export async function execute (
  { url }: Pick<Postgres, 'url'>,
  ...texts: readonly string[]
): Promise<ReadonlyArray<Record<string, unknown>>> {
  const sql = postgres(url, { max: 1, onnotice () {}, connect_timeout: 5 })
  try {
    let rows: ReadonlyArray<Record<string, unknown>> = []
    for (const text of texts) rows = await sql.unsafe(text)
    return rows
  } finally {
    await sql.end({ timeout: 1 })
  }
}
