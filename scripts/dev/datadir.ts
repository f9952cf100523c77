/**
 * The data directory of a development server: created by initdb, kept between starts, and never
 * shared by two servers. Existing files are not overwritten, and data of another major version is
 * not upgraded.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { as, give, reaches, serverAccount, type Account } from './account.ts'
import { accepts } from './port.ts'

const run = promisify(execFile)

/** How long, in milliseconds, a server that is stopping may still use the directory. */
const STOPPING_MS = 2000

export interface DataDirectory {
  readonly dataDir: string
  readonly major: number
  readonly bin: string
  readonly account: Account | undefined
  /** False for temporary data: initdb then skips the flush to disk. */
  readonly durable: boolean
}

/**
 * Returns `preferred` if the server's account can reach it, otherwise a fixed directory for that
 * path under /var/tmp. The account cannot reach a project of root below /root.
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
 * Prepares `dataDir` for a server: runs initdb unless it contains data. Throws when the server's
 * account cannot reach the directory, when it contains other files or data of another major
 * version, or when a server is running on it.
 */
export async function prepareDataDirectory (wanted: DataDirectory): Promise<void> {
  const { dataDir, major, account } = wanted
  const parent = dirname(dataDir)
  await mkdir(parent, { recursive: true })
  if (!await reaches(account, parent)) {
    throw new Error(
      `${parent} is not accessible to the user that runs PostgreSQL: choose another data directory`
    )
  }
  const version = await readIfPresent(join(dataDir, 'PG_VERSION'))
  if (version === undefined) return initialise(wanted)
  if (version.trim() !== String(major)) {
    throw new Error(
      `${dataDir} contains data of PostgreSQL ${version.trim()}, not ${major}: start that ` +
        'version, or choose another directory'
    )
  }
  await releaseLock(dataDir)
}

/** Deletes a data directory. Throws when a server is running on it. */
export async function deleteDataDirectory (dataDir: string): Promise<void> {
  if (!existsSync(join(dataDir, 'PG_VERSION'))) return
  await releaseLock(dataDir)
  await rm(dataDir, { recursive: true })
}

/** Runs initdb in a temporary directory and renames it, so that no partial cluster is left. */
async function initialise ({ dataDir, bin, account, durable }: DataDirectory): Promise<void> {
  if ((await readdir(dataDir).catch(() => [])).length > 0) {
    throw new Error(`${dataDir} is not empty and contains no PostgreSQL data`)
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
 * Removes a postmaster.pid whose process id now belongs to another program, which is common after a
 * container restart. PostgreSQL ignores only a file whose process does not exist. Throws when a
 * server is running on the directory.
 */
async function releaseLock (dataDir: string): Promise<void> {
  const file = join(dataDir, 'postmaster.pid')
  const deadline = Date.now() + STOPPING_MS
  for (;;) {
    const lock = await readIfPresent(file)
    if (lock === undefined) return
    const [pid, , , port, socketDir] = lock.split('\n')
    if (!isAlive(Number(pid))) return
    const answers = await Promise.all([
      accepts({ path: `${socketDir}/.s.PGSQL.${port}` }),
      accepts(Number(port))
    ])
    if (!answers.includes(true)) return rm(file, { force: true })
    if (Date.now() > deadline) {
      throw new Error(
        `another "npm run dev" is using ${dataDir} (PostgreSQL has process id ${pid} and port ` +
          `${port}): stop it first`
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

function readIfPresent (file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}
