/**
 * Where the PostgreSQL programs are that npm installed, made ready to run.
 *
 * In charge of: finding them for this platform, restoring their library links when install scripts
 * were blocked, and copying them where the server's account can read them (the project may lie in a
 * home closed to others). Refuses to: download anything.
 */
import { execFile } from 'node:child_process'
import { cp, lstat, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { as, type Account } from './account.ts'

const run = promisify(execFile)

/** Every major this project supports, oldest first. */
const majors = [14, 15, 16, 17, 18] as const

/**
 * An installed package: `native` holds `bin`, `lib` and `share`; `version` is the package's own.
 */
export interface Installed {
  readonly native: string
  readonly version: string
}

/** The majors whose binaries npm installed for this platform, oldest first. */
export function availableMajors (): number[] {
  return majors.filter(major => packageDirectory(major) !== undefined)
}

/**
 * The installed package of `major`; throws one line that names the way out when there is none for
 * this platform.
 */
export async function installedPackage (major: number): Promise<Installed> {
  const directory = packageDirectory(major)
  if (directory === undefined) {
    throw new Error(
      `no embedded PostgreSQL ${major} for ${process.platform}-${process.arch}: point ` +
        'TEST_DATABASE_URL (tests) or DATABASE_URL (service) to a server of yours'
    )
  }
  const { version } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as {
    version: string
  }
  return { native: join(directory, 'native'), version }
}

/**
 * A directory with `bin`, `lib` and `share` that `account` can run: the package itself, else a copy
 * in `scratch` (one per version and owner, 60 MB, shared by parallel starts). Throws when the
 * programs do not run here at all.
 */
export async function runnableBinaries (
  { native, version }: Installed,
  account: Account | undefined,
  scratch: string
): Promise<string> {
  // a read-only node_modules: the copy gets its links
  await restoreLinks(native).catch(() => undefined)
  if (await runs(native, account)) return native
  const copy = join(scratch, `oneflight-postgres-${version}-${process.getuid?.()}`)
  if (await isOurs(copy) && await runs(copy, account)) return copy
  await makeCopy(native, copy, account)
  if (await runs(copy, account)) return copy
  throw new Error(
    `the embedded PostgreSQL ${version} does not run on this system (its C library?): ` +
      'point TEST_DATABASE_URL (tests) or DATABASE_URL (service) to a server of yours'
  )
}

function packageDirectory (major: number): string | undefined {
  try {
    const entry = fileURLToPath(
      import.meta.resolve(`postgres-${major}-${process.platform}-${process.arch}`)
    )
    return join(dirname(entry), '..')
  } catch {
    return undefined
  }
}

/**
 * npm packages cannot hold symbolic links: the package lists them, with paths that begin with
 * `native/`.
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

/** A copy in a directory open to all is trusted only when nobody else can have put it there. */
async function isOurs (directory: string): Promise<boolean> {
  const stat = await lstat(directory).catch(() => undefined)
  return stat !== undefined && stat.isDirectory() && stat.uid === process.getuid?.() &&
    (stat.mode & 0o022) === 0
}

/** Copies under a temporary name first, so that a parallel start never sees half a copy. */
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
      // A parallel start was faster. Which one is, is chance, and with it whether a test comes
      // through here:
      /* c8 ignore next */
      if (await isOurs(copy) && await runs(copy, account)) return
      await rename(copy, join(own, 'broken')) // a cleaner of temporary files has been there
      await rename(fresh, copy)
    })
  } finally {
    await rm(own, { recursive: true, force: true })
  }
}
