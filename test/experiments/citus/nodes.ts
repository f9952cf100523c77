/**
 * The servers of a Citus cluster on this machine, which the scenario kills and starts again.
 */
import { spawn } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { familyOf, isAlive } from '../../support/process/processes.ts'
import { until } from '../../support/until.ts'
import { waitUntilAccepting } from '../killers.ts'
import { createQueryClient, withTimeout } from '../query-client.ts'

/** Longest time in which a server recovers, in milliseconds. */
const RECOVERY_MS = 60_000

export interface CitusNode {
  /** `coordinator`, `worker 1`, … */
  readonly name: string
  /** The database of the scenario on this server. */
  readonly url: string
  /** Sends SIGKILL to the server and all of its processes. Resolves when none is left. */
  kill(): Promise<void>
  /** Starts the server again. Resolves when it answers. */
  start(): Promise<void>
}

/**
 * Returns the coordinator of the database in `url` and its workers, in this order. They must run on
 * this machine, as the user of this process or if this process is root.
 */
export async function findCitusNodes (url: string): Promise<readonly CitusNode[]> {
  const client = createQueryClient(url)
  try {
    const rows = await client.query('select nodeport from pg_dist_node order by groupid')
    return await Promise.all(rows.map(({ nodeport }, i) =>
      openNode(i === 0 ? 'coordinator' : `worker ${i}`, atPort(url, nodeport as number))
    ))
  } finally {
    client.close()
  }
}

function atPort (url: string, port: number): string {
  return Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href
}

async function openNode (name: string, url: string): Promise<CitusNode> {
  const client = createQueryClient(url)
  const [row] = await client.query("select current_setting('data_directory') as directory")
  client.close()
  const cwd = row?.['directory'] as string
  const { uid, gid } = await stat(cwd)
  const readPid = async (): Promise<number> =>
    Number.parseInt(await readFile(join(cwd, 'postmaster.pid'), 'utf8'))
  const commandLine = await readFile(`/proc/${await readPid()}/cmdline`, 'utf8')
  const [command = '', ...args] = commandLine.split('\0').slice(0, -1)
  return {
    name,
    url,
    kill: async () => killTree(await readPid()),
    async start () {
      // It survives this process.
      const env = { PATH: process.env['PATH'] }
      spawn(command, args, { cwd, uid, gid, env, detached: true, stdio: 'ignore' }).unref()
      await withTimeout(waitUntilAccepting(url), RECOVERY_MS, `${name} did not start`)
    }
  }
}

async function killTree (parent: number): Promise<void> {
  const pids = familyOf(parent)
  for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL')
  await withTimeout(until(() => !pids.some(isAlive)), RECOVERY_MS, 'a killed server still runs')
}
