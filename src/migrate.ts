/**
 * `npm run migrate`, `oneflight migrate`: creates the service's own tables for the login role of
 * DATABASE_URL. It connects with MIGRATE_DATABASE_URL if that is set, because a login role should
 * not be able to create schemas. On failure it prints one line and exits with code 1.
 */
import { readFile } from 'node:fs/promises'
import type { DatabaseTarget } from '../schemas/database.ts'
import { readEngine } from './config/config.ts'
import { parseDatabaseUrl } from './config/database-url.ts'
import { isForbidden, migrate } from './postgres/migrate.ts'

// Resolved from the package root, because the compiled file lies in another folder.
const file = new URL('deploy/migrate.sql', import.meta.resolve('oneflight/package.json'))

// As in process.ts.
delete process.env['PGTARGETSESSIONATTRS']

try {
  const { user } = read('DATABASE_URL')
  const target = read(process.env['MIGRATE_DATABASE_URL'] ? 'MIGRATE_DATABASE_URL' : 'DATABASE_URL')
  const engine = readEngine(process.env)
  const text = await readFile(file, 'utf8')
  await migrate({ ...target, engine }, text, user).catch(explainRefusal)
  process.stdout.write(`oneflight: schema oneflight is ready for role ${user}\n`)
} catch (error) {
  process.stderr.write(`oneflight: ${(error as Error).message}\n`)
  process.exitCode = 1
}

/** The login role may create no schema, and should not be able to. */
function explainRefusal (error: unknown): never {
  if (!isForbidden(error)) throw error
  const repair = 'Set MIGRATE_DATABASE_URL to a user that may create the schema, such as the owner'
  throw new Error(`${error.message}. ${repair}`)
}

/** Parses a required variable. */
function read (name: string): DatabaseTarget {
  const text = process.env[name]
  if (!text) throw new Error(`${name}: required`)
  try {
    return parseDatabaseUrl(text)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}
