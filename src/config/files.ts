/**
 * Checks that the files and folders that variables name can be read when the service starts. Their
 * content is read later, and again when it changes.
 */
import { readFileSync, readdirSync } from 'node:fs'
import type { DatabaseTarget } from '../../schemas/database.ts'

/** Returns a line for each file or folder that cannot be read, with its variable. */
export function findUnreadable (
  folder: string | undefined,
  database: DatabaseTarget | undefined,
  replica: DatabaseTarget | undefined
): readonly string[] {
  return [
    ...folder === undefined ? [] : describe('BATCHES_DIR: the folder', folder, readdirSync),
    ...findUnreadableTls('DATABASE_URL', database),
    ...findUnreadableTls('DATABASE_REPLICA_URL', replica)
  ]
}

function findUnreadableTls (name: string, target: DatabaseTarget | undefined): readonly string[] {
  if (target === undefined || target.tls.mode === 'disable') return []
  const { rootCertPath, certPath, keyPath } = target.tls
  return [
    ['sslrootcert', rootCertPath === 'system' ? undefined : rootCertPath],
    ['sslcert', certPath],
    ['sslkey', keyPath]
  ].flatMap(([parameter, path]) =>
    path === undefined ? [] : describe(`${name}: the file of ${parameter},`, path, readFileSync)
  )
}

function describe (what: string, path: string, read: (path: string) => unknown): string[] {
  try {
    read(path)
    return []
  } catch (error) {
    return [`${what} ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`]
  }
}
