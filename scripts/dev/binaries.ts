/**
 * Finds the PostgreSQL programs that npm installed for this platform. Restores their library links
 * when install scripts were blocked, and copies them when the server's account cannot read them,
 * for example in a project below /root.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, lstat, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { as, type Account } from './account.ts'

const run = promisify(execFile)

/** Supported major versions, oldest first. */
const majors = [14, 15, 16, 17, 18] as const

/** Where npm installs the packages: the newest version, and the others for the version matrix. */
const folders = ['node_modules', 'test/matrix/node_modules'].map(folder =>
  join(import.meta.dirname, '../..', folder)
)

/** An installed package: `native` contains `bin`, `lib` and `share`. */
export interface Installed {
  readonly native: string
  readonly version: string
}

/** Returns the major versions installed for this platform, oldest first. */
export function availableMajors (): number[] {
  return majors.filter(major => packageDirectory(major) !== undefined)
}

/** Returns the installed package of `major`. Throws when there is none for this platform. */
export async function installedPackage (major: number): Promise<Installed> {
  const directory = packageDirectory(major)
  if (directory === undefined) {
    throw new Error(
      `no embedded PostgreSQL ${major} for ${process.platform}-${process.arch} (14 to 17 need ` +
        '"npm ci --prefix test/matrix"): set TEST_DATABASE_URL (tests) or DATABASE_URL (service) ' +
        'to use another server'
    )
  }
  const { version } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as {
    version: string
  }
  return { native: join(directory, 'native'), version }
}

/**
 * Returns a directory with programs that `account` can run: the package, or a copy in `scratch`
 * (one per version and owner, 60 MB, shared by parallel starts). Throws when the programs do not
 * run on this system.
 */
export async function runnableBinaries (
  { native, version }: Installed,
  account: Account | undefined,
  scratch: string
): Promise<string> {
  // Fails in a read-only node_modules; the copy then gets the links.
  await restoreLinks(native).catch(() => undefined)
  if (await runs(native, account)) return native
  const copy = join(scratch, `oneflight-postgres-${version}-${process.getuid?.()}`)
  if (await isOurs(copy) && await runs(copy, account)) return copy
  await makeCopy(native, copy, account)
  if (await runs(copy, account)) return copy
  throw new Error(
    `the embedded PostgreSQL ${version} does not run on this system (its C library?): ` +
      'set TEST_DATABASE_URL (tests) or DATABASE_URL (service) to use another server'
  )
}

function packageDirectory (major: number): string | undefined {
  const name = `postgres-${major}-${process.platform}-${process.arch}`
  return folders.map(folder => join(folder, name)).find(directory =>
    existsSync(join(directory, 'package.json'))
  )
}

/**
 * Creates the symbolic links that npm packages cannot contain. The package lists them with paths
 * that begin with `native/`.
 */
async function restoreLinks (native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(list) as Array<{ source: string, target: string }>
  for (const { source, target } of links) {
    await symlink(relative(dirname(target), source), join(native, '..', target)).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      }
    )
  }
}

async function runs (directory: string, account: Account | undefined): Promise<boolean> {
  const script = 'cd "$1" && test -r share/postgresql/postgres.bki && test -r ' +
    'share/postgresql/timezonesets/Default && bin/initdb --version && bin/postgres ' +
    '--version'
  return await run('/bin/sh', ['-c', script, 'sh', directory], as(account)).then(
    () => true,
    () => false
  )
}

/** Trusts a copy in a shared directory only if no other user can have created it. */
async function isOurs (directory: string): Promise<boolean> {
  const stat = await lstat(directory).catch(() => undefined)
  return stat !== undefined && stat.isDirectory() && stat.uid === process.getuid?.() &&
    (stat.mode & 0o022) === 0
}

/** Copies under a temporary name first, so that a parallel start never sees a partial copy. */
async function makeCopy (
  native: string,
  copy: string,
  account: Account | undefined
): Promise<void> {
  const own = await mkdtemp(`${copy}.`)
  const fresh = join(own, basename(native))
  try {
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true })
    await restoreLinks(fresh)
    await run('chmod', ['-R', 'u+rwX,go+rX,go-w', fresh])
    await run('chmod', ['a+x', join(fresh, 'bin', 'initdb'), join(fresh, 'bin', 'postgres')])
    await rename(fresh, copy).catch(async () => {
      // A parallel start was faster, which a test cannot force.
      /* c8 ignore next */
      if (await isOurs(copy) && await runs(copy, account)) return
      await rename(copy, join(own, 'broken')) // temporary files were cleaned up
      await rename(fresh, copy)
    })
  } finally {
    await rm(own, { recursive: true, force: true })
  }
}
