/** The programs of a Patroni cluster, as Debian's packages install them. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { as, type Account } from '../../../scripts/dev/account.ts'
import { findProgram } from '../../support/process/programs.ts'

/** The directory of the newest PostgreSQL of Debian; undefined if none is installed. */
export const binDirectory = findPostgres()

/** The path of each program; undefined if it is not installed. */
export const programs: Readonly<Record<string, string | undefined>> = {
  patroni: findProgram('patroni'),
  etcd: findProgram('etcd'),
  haproxy: findProgram('haproxy'),
  'postgresql (package of Debian)': binDirectory
}

/** Returns the name and the version of each program: `Patroni 3.0.2`. */
export function readVersions (): readonly string[] {
  const commands = [
    ['Patroni', programs['patroni'], '--version'],
    ['etcd', programs['etcd'], '--version'],
    ['HAProxy', programs['haproxy'], '-v'],
    ['PostgreSQL', join(binDirectory ?? '', 'postgres'), '--version']
  ] as const
  return commands.map(([name, program, option]) => {
    const printed = execFileSync(program as string, [option], { encoding: 'utf8' })
    return `${name} ${/\d+(\.\d+)+/.exec(printed)?.[0] ?? ''}`
  })
}

/** Where the programs of one cluster run. */
export interface Host {
  readonly account: Account | undefined
  readonly directory: string
  readonly etcdPort: number
}

/** Copies a shipped file to the cluster's directory. Resolves with the path of the copy. */
export async function copyShipped (
  { directory }: Host,
  name: string,
  change: (text: string) => string = text => text
): Promise<string> {
  const copy = join(directory, name)
  const original = join(import.meta.dirname, '../../../deploy/patroni', name)
  await writeFile(copy, change(await readFile(original, 'utf8')))
  return copy
}

/** Starts a program. Its output goes to a file of the cluster's directory. */
export function spawnProgram (
  { account, directory }: Host,
  program: string,
  args: readonly string[],
  { name = program, env = {} }: { name?: string, env?: Readonly<Record<string, string>> } = {}
): ChildProcess {
  const log = openSync(join(directory, `${name}.log`), 'a')
  const options = as(account)
  const child = spawn(programs[program] as string, args, {
    ...options,
    env: { ...options.env, ...env },
    stdio: ['ignore', log, log]
  })
  closeSync(log)
  return child
}

function findPostgres (): string | undefined {
  const versions = '/usr/lib/postgresql'
  if (!existsSync(versions)) return undefined
  const newest = readdirSync(versions).map(Number).sort((a, b) => b - a)[0]
  return newest === undefined ? undefined : join(versions, String(newest), 'bin')
}
