/**
 * The data directory of a development server: made once, kept between starts, never shared by two
 * servers.
 *
 * In charge of: initdb, the check of its major, and leftovers of a server that was killed. Refuses
 * to: delete or overwrite anything it did not make, or to upgrade a cluster of another major.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, readdir, rename, rm } from 'node:fs/promises'
import { connect, type NetConnectOpts } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { as, give, reaches, serverAccount, type Account } from './account.ts'

const run = promisify(execFile)

/**
 * A server that was just told to stop, or lost its parent, gets this long (ms) to leave its
 * directory.
 */
const LEAVING = 2000

export interface DataDirectory {
  readonly dataDir: string
  readonly major: number
  readonly bin: string
  readonly account: Account | undefined
  /** Whether initdb flushes to disk; a throw-away cluster need not. */
  readonly durable: boolean
}

/**
 * `preferred` when the server's account can reach it, else a stable place of the same meaning under
 * /var/tmp (a project in /root, started by root, is closed to the account that runs the server).
 */
export async function reachableDataDirectory (
  preferred: string,
  account = serverAccount(),
  elsewhere = '/var/tmp'
): Promise<string> {
  const path = resolve(preferred)
  let ancestor = dirname(path)
  while (!existsSync(ancestor)) ancestor = dirname(ancestor)
  if (await reaches(account, ancestor)) return path
  return join(
    elsewhere,
    `oneflight-${createHash('sha256').update(path).digest('hex').slice(0, 12)}`
  )
}

/**
 * Leaves a cluster of `major` in `dataDir` that a server may be started on: an existing one as it
 * is, else a new one. Throws when the directory is out of the server's reach, or holds another
 * major, other files, or a server that runs.
 */
export async function prepareDataDirectory (wanted: DataDirectory): Promise<void> {
  const { dataDir, major, account } = wanted
  const parent = dirname(dataDir)
  await mkdir(parent, { recursive: true })
  if (!await reaches(account, parent)) {
    throw new Error(
      `${parent} is closed to the user that runs PostgreSQL: name another data directory`
    )
  }
  const version = await readIfPresent(join(dataDir, 'PG_VERSION'))
  if (version === undefined) return initialise(wanted)
  if (version.trim() !== String(major)) {
    throw new Error(
      `${dataDir} holds data of PostgreSQL ${version.trim()}, not ${major}: start that ` +
        'major, or name another directory'
    )
  }
  await releaseLock(dataDir)
}

/**
 * initdb works beside the directory and the result is renamed into place: half a cluster never
 * looks like one.
 */
async function initialise ({ dataDir, bin, account, durable }: DataDirectory): Promise<void> {
  if ((await readdir(dataDir).catch(() => [])).length > 0) {
    throw new Error(`${dataDir} is not empty and holds no PostgreSQL data`)
  }
  const fresh = await mkdtemp(`${dataDir}.new-`)
  try {
    await give(fresh, account)
    const options = [
      '-D',
      fresh,
      '--encoding=UTF8',
      '--locale=C',
      '--auth=trust',
      '-U',
      'postgres',
      ...durable ? [] : ['--no-sync']
    ]
    await run(join(bin, 'initdb'), options, as(account))
    await rename(fresh, dataDir)
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}

/**
 * PostgreSQL itself ignores a postmaster.pid whose process is gone, but not one whose number
 * meanwhile belongs to a stranger (usual after a container restart): that file is removed. Throws
 * when a server really runs on the directory.
 */
async function releaseLock (dataDir: string): Promise<void> {
  const file = join(dataDir, 'postmaster.pid')
  const deadline = Date.now() + LEAVING
  for (;;) {
    const lock = await readIfPresent(file)
    if (lock === undefined) return
    const [pid, , , port, socketDir] = lock.split('\n')
    if (!isAlive(Number(pid))) return
    const answers = await Promise.all([
      accepts({ path: `${socketDir}/.s.PGSQL.${port}` }),
      accepts({ host: '127.0.0.1', port: Number(port) })
    ])
    if (!answers.includes(true)) return rm(file, { force: true })
    if (Date.now() > deadline) {
      throw new Error(
        `a PostgreSQL server (process ${pid}, port ${port}) already runs on ${dataDir}: ` +
          'stop it first'
      )
    }
    await sleep(50)
  }
}

function isAlive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function accepts (address: NetConnectOpts): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(address)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

function readIfPresent (file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}
