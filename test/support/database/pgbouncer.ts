/**
 * Runs PgBouncer in front of a test database, if it is installed on PATH or in /usr/sbin.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { as, give, scratchDirectory, serverAccount } from '../../../scripts/dev/account.ts'
import { accepts, freePort } from '../../../scripts/dev/port.ts'
import { findProgram } from '../process/programs.ts'
import { until } from '../until.ts'

/** The path of the program; undefined if it is not installed. */
export const program = findProgram('pgbouncer')

export interface Pooler {
  /** `url` with its host and port replaced by PgBouncer's. */
  through(url: string): string
  /** Kills PgBouncer with SIGKILL and starts it again. */
  kill(): Promise<void>
  /** Sends a signal. Resolves with the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>
  output(): string
}

export interface PoolerOptions {
  /** Maximum number of connections to the server. */
  readonly size: number
  /** More settings, as in pgbouncer.ini. */
  readonly settings?: Readonly<Record<string, string | number>>
}

/** Starts PgBouncer in transaction mode for all databases of the server of `url`. */
export function usePooler (
  t: Pick<Test, 'teardown'>,
  url: string,
  { size, settings = {} }: PoolerOptions
): Promise<Pooler> {
  return startPooler(t, url, ({ directory, port, server }) => {
    const allSettings = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'trust',
      auth_file: join(directory, 'users.txt'),
      pool_mode: 'transaction',
      default_pool_size: size,
      max_client_conn: 200,
      // Retries logins at once instead of after a timer.
      server_login_retry: 0,
      ...settings
    }
    return {
      'pgbouncer.ini': `[databases]\n* = ${server}\n[pgbouncer]\n${
        Object.entries(allSettings).map(([name, value]) => `${name} = ${value}\n`).join('')
      }`,
      'users.txt': '"oneflight_login" "login"\n'
    }
  })
}

/** Where PgBouncer runs, and the address of its server. */
interface Place {
  readonly directory: string
  readonly port: number
  readonly server: string
}

/**
 * Starts PgBouncer with files, among them pgbouncer.ini, in front of the server of `url`. The end
 * of `t` stops it.
 */
export async function startPooler (
  t: Pick<Test, 'teardown'>,
  url: string,
  filesOf: (place: Place) => Readonly<Record<string, string>>
): Promise<Pooler> {
  const { hostname, port: serverPort } = new URL(url)
  const account = serverAccount()
  const directory = await mkdtemp(join(await scratchDirectory(account), 'oneflight-pgbouncer-'))
  const port = await freePort()
  const files = filesOf({ directory, port, server: `host=${hostname} port=${serverPort}` })
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  for (const name of ['.', ...Object.keys(files)]) await give(join(directory, name), account)

  let output = ''
  const start = async () => {
    const child = spawn(program as string, [join(directory, 'pgbouncer.ini')], {
      ...as(account), stdio: ['ignore', 'ignore', 'pipe']
    })
    child.stderr.on('data', (bytes: Buffer) => {
      output += bytes.toString()
    })
    const ended = once(child, 'exit').then(([code]) => code as number | null)
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`PgBouncer ended: ${output}`)
      return await accepts(port)
    })
    return { child, ended }
  }
  let running = await start()
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    running.child.kill(signal)
    return await running.ended
  }
  t.teardown(async () => {
    await end('SIGKILL')
    await rm(directory, { recursive: true, force: true })
  })
  return {
    through: url => Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href,
    async kill () {
      await end('SIGKILL')
      running = await start()
    },
    end,
    output: () => output
  }
}
