/**
 * The account of a development PostgreSQL server. PostgreSQL refuses to run as root, so root runs
 * it under another existing account.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** An account from /etc/passwd; `undefined` is the account of this process. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Accounts that root may run the server under, in order of preference. */
const CANDIDATES = ['postgres', 'nobody']

/**
 * Returns the account of the server: for root `postgres` or else `nobody`, otherwise `undefined`.
 * Throws when the file `passwd` has neither.
 */
export function serverAccount (
  uid = process.getuid?.(),
  passwd = '/etc/passwd'
): Account | undefined {
  if (uid !== 0) return undefined
  const accounts = readFileSync(passwd, 'utf8').split('\n').map(line => line.split(':'))
  for (const name of CANDIDATES) {
    const fields = accounts.find(([candidate]) => candidate === name)
    if (fields !== undefined) return { name, uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  throw new Error(
    'PostgreSQL cannot run as root, and there is no user "postgres" or "nobody" to run it as'
  )
}

/**
 * Returns spawn options to run a child as `account`. The working directory is `/`, because the
 * account may have no access to the caller's. The environment is minimal, because PGDATA or LC_ALL
 * would change the result of initdb.
 */
export function as (account: Account | undefined) {
  const env = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }
  return account === undefined
    ? { cwd: '/', env }
    : { cwd: '/', env, uid: account.uid, gid: account.gid }
}

export function give (path: string, account: Account | undefined): Promise<void> {
  const { uid, gid } = account ?? { uid: -1, gid: -1 } // -1 keeps the owner
  return chown(path, uid, gid)
}

/**
 * Returns whether `account` can enter `directory`. Tested in a child process, because mode bits do
 * not show ACLs or mount options.
 */
export function reaches (account: Account | undefined, directory: string): Promise<boolean> {
  return run('/bin/sh', ['-c', 'test -d "$1" && test -x "$1"', 'sh', directory], as(account)).then(
    () => true,
    () => false
  )
}

/**
 * Returns the first temporary directory that `account` can enter and whose path is short enough for
 * a Unix socket (107 bytes on Linux, 103 on macOS). Throws when there is none.
 */
export async function scratchDirectory (
  account: Account | undefined,
  candidates = [tmpdir(), '/tmp', '/var/tmp']
): Promise<string> {
  for (const candidate of candidates) {
    if (Buffer.byteLength(candidate) <= 60 && await reaches(account, candidate)) return candidate
  }
  throw new Error(
    `no temporary directory that PostgreSQL can use among ${
      candidates.join(', ')
    } (path too long, or not accessible to its user): set TMPDIR`
  )
}
