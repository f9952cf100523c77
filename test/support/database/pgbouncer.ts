/**
 * Runs PgBouncer in transaction mode in front of a test database, if it is installed on PATH or in
 * /usr/sbin.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import type { Test } from 'tap'
import { as, give, scratchDirectory, serverAccount } from '../../../scripts/dev/account.ts'
import { freePort } from '../../../scripts/dev/port.ts'
import { findProgram } from '../process/programs.ts'
import { until } from '../until.ts'

/** The path of the program; undefined if it is not installed. */
export const program = findProgram('pgbouncer')

export interface Pooler {
  /** `url` with its host and port replaced by PgBouncer's. */
  through(url: string): string
  /** Kills PgBouncer with SIGKILL and starts it again. */
  kill(): Promise<void>
}

export interface PoolerOptions {
  /** Maximum number of connections to the server. */
  readonly size: number
  /** More settings, as in pgbouncer.ini. */
  readonly settings?: Readonly<Record<string, string | number>>
}

/** Starts PgBouncer for all databases of the server of `url`. The end of `t` stops it. */
export async function usePooler (
  t: Pick<Test, 'teardown'>,
  url: string,
  { size, settings = {} }: PoolerOptions
): Promise<Pooler> {
  const { hostname, port: serverPort } = new URL(url)
  const account = serverAccount()
  const directory = await mkdtemp(join(await scratchDirectory(account), 'oneflight-pgbouncer-'))
  const port = await freePort()
  const file = join(directory, 'pgbouncer.ini')
  const allSettings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(directory, 'users.txt'),
    admin_users: 'console',
    pool_mode: 'transaction',
    default_pool_size: size,
    max_client_conn: 200,
    // Retries logins at once instead of after a timer.
    server_login_retry: 0,
    ...settings
  }
  await writeFile(
    file,
    `[databases]\n* = host=${hostname} port=${serverPort}\n[pgbouncer]\n${
      Object.entries(allSettings).map(([name, value]) => `${name} = ${value}\n`).join('')
    }`
  )
  await writeFile(
    join(directory, 'users.txt'),
    '"oneflight_login" "login"\n"postgres" ""\n"console" ""\n'
  )
  for (const path of [directory, file, join(directory, 'users.txt')]) await give(path, account)

  const start = async (): Promise<ChildProcess> => {
    const child = spawn(program as string, ['-q', file], { ...as(account), stdio: 'ignore' })
    await until(() => {
      if (child.exitCode !== null) throw new Error(`PgBouncer ended with ${child.exitCode}`)
      return answers(port).then(() => true, () => false)
    })
    return child
  }
  let child = await start()
  const stop = async (): Promise<void> => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(async () => {
    await stop()
    await rm(directory, { recursive: true, force: true })
  })
  return {
    through (url) {
      const target = new URL(url)
      target.host = `127.0.0.1:${port}`
      return target.href
    },
    async kill () {
      await stop()
      child = await start()
    }
  }
}

/** Rejects unless the console answers. */
async function answers (port: number): Promise<void> {
  const sql = postgres({
    host: '127.0.0.1',
    port,
    user: 'console',
    password: '',
    database: 'pgbouncer',
    max: 1,
    fetch_types: false,
    connect_timeout: 2,
    onnotice () {}
  })
  try {
    await sql.unsafe('show version').simple()
  } finally {
    await sql.end({ timeout: 0 })
  }
}
