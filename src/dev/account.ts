/**
 * Under which account a development PostgreSQL server runs, and what that account can reach.
 *
 * In charge of: PostgreSQL refuses to run as root, so root lends the server another account.
 * Refuses to: create accounts or change the rights of directories it did not make.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** An account from /etc/passwd; `undefined` everywhere stands for the account of this process. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Accounts a root process may lend to the server, the best first. */
const lendable = ['postgres', 'nobody']

/**
 * The account the server runs under: `undefined` (our own) unless we are root, then `postgres`,
 * else `nobody`. Throws when root finds neither in the file `passwd`.
 */
export function serverAccount (
  uid = process.getuid?.(),
  passwd = '/etc/passwd'
): Account | undefined {
  if (uid !== 0) return undefined
  const accounts = readFileSync(passwd, 'utf8').split('\n').map(line => line.split(':'))
  for (const name of lendable) {
    const fields = accounts.find(([candidate]) => candidate === name)
    if (fields !== undefined) return { name, uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is no user "postgres" or "nobody" to run it as'
  )
}

/**
 * Spawn options that run a child as `account`. The working directory is `/` because the caller's
 * own may be closed to that account, and the environment is bare because a stray PGDATA or LC_ALL
 * changes what initdb makes.
 */
export function as (account: Account | undefined) {
  const env = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }
  return account === undefined
    ? { cwd: '/', env }
    : { cwd: '/', env, uid: account.uid, gid: account.gid }
}

/** Makes `account` the owner of `path` (we stay it when there is no such account). */
export function give (path: string, account: Account | undefined): Promise<void> {
  const { uid, gid } = account ?? { uid: -1, gid: -1 } // -1 leaves the owner as it is
  return chown(path, uid, gid)
}

/**
 * Whether `account` can enter `directory`; asked of the kernel, since mode bits alone do not know
 * ACLs or mounts.
 */
export function reaches (account: Account | undefined, directory: string): Promise<boolean> {
  return run('/bin/sh', ['-c', 'test -d "$1" && test -x "$1"', 'sh', directory], as(account)).then(
    () => true,
    () => false
  )
}

/**
 * The first temporary directory that `account` can enter and whose path leaves room for a unix
 * socket (107 bytes on Linux, 103 on macOS). Throws when there is none.
 */
export async function scratchDirectory (
  account: Account | undefined,
  candidates = [tmpdir(), '/tmp', '/var/tmp']
): Promise<string> {
  for (const candidate of candidates) {
    if (Buffer.byteLength(candidate) <= 60 && await reaches(account, candidate)) return candidate
  }
  throw new Error(
    `no temporary directory that PostgreSQL can use: ${
      candidates.join(', ')
    } (too long, or closed to its user); set TMPDIR`
  )
}
