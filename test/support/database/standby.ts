/**
 * Runs a primary and a hot standby. The embedded binaries have no pg_basebackup, so the standby
 * starts from a cold copy. Tests decide when the primary is lost, the standby promoted and the old
 * primary restarted as a standby.
 */
import { chmod, cp, glob, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { give, serverAccount } from '../../../scripts/dev/account.ts'
import type { Postgres } from '../../../scripts/dev/postgres.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { until } from '../until.ts'
import { changeSetting, execute } from './execute.ts'
import {
  createDataDirectory,
  useRestartableServer,
  type ServerSettings
} from './restartable-server.ts'

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

/**
 * Starts a pair of servers for `useService`. TEST_DATABASE_URL determines which of them gets new
 * databases; initially the primary.
 */
export async function useServers (
  t: Stage,
  settings: ServerSettings = {}
): Promise<Pair> {
  const before = process.env['TEST_DATABASE_URL']
  const servers = await usePair(t, settings)
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
async function usePair (t: Stage, settings: ServerSettings): Promise<Pair> {
  const first = await useRestartableServer(t, common)
  await first.stop()
  const directory = await createDataDirectory(t)
  await copy(first.current().dataDir, directory)
  await first.start()
  const primary = first.current()
  const second = await useRestartableServer(
    t,
    { ...common, ...standbySettings(primary), ...settings },
    directory
  )
  const standby = second.current()
  // Set only now. Without a standby COMMIT would wait forever.
  await changeSetting(primary, 'synchronous_standby_names', NAME)
  await until(async () =>
    (await execute(primary, "select from pg_stat_replication where sync_state = 'sync'")).length > 0
  )
  return {
    primary,
    standby,
    losePrimary: how => first[how](),
    async loseStandby () {
      await second.stop()
      await changeSetting(primary, 'synchronous_standby_names', '')
    },
    async promote () {
      await execute(standby, 'select pg_promote()')
      await until(async () =>
        (await execute(standby, 'select where not pg_is_in_recovery()')).length > 0
      )
    },
    async comeBack () {
      const { dataDir } = primary
      // Without `synchronous_standby_names`: it would wait for itself if it were promoted.
      for (const name of ['standby.signal', 'postgresql.auto.conf']) {
        await rm(join(dataDir, name), { force: true })
        await writeFile(join(dataDir, name), '')
        await give(join(dataDir, name), serverAccount())
      }
      await first.start({ ...common, ...standbySettings(standby) })
      return first.current()
    }
  }
}

/** A standby needs at least as many connections as its primary. */
const common: ServerSettings = {
  max_connections: 60,
  max_wal_senders: 4,
  wal_level: 'replica',
  wal_keep_size: '256MB',
  shared_buffers: '32MB',
  fsync: 'off',
  hot_standby: 'on'
}

function standbySettings ({ port }: Postgres): ServerSettings {
  return {
    primary_conninfo: `host=127.0.0.1 port=${port} user=postgres application_name=${NAME}`,
    recovery_target_timeline: 'latest',
    wal_retrieve_retry_interval: '100ms'
  }
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
