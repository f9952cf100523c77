/**
 * `npm run migrate`, `oneflight migrate`: creates the service's own tables for the login role of
 * DATABASE_URL. It connects with MIGRATE_DATABASE_URL if that is set, because a login role should
 * not be able to create schemas. On failure it prints one line and exits with code 1.
 */
import { readFile } from 'node:fs/promises'
import { parseDatabaseUrl } from './config/database-url.ts'
import { migrate } from './postgres/migrate.ts'

// Resolved from the package root, because the compiled file lies in another folder.
const file = new URL('deploy/migrate.sql', import.meta.resolve('oneflight/package.json'))

// As in process.ts.
delete process.env['PGTARGETSESSIONATTRS']

try {
  const { user } = readUrl('DATABASE_URL')
  const target = readUrl(
    process.env['MIGRATE_DATABASE_URL'] ? 'MIGRATE_DATABASE_URL' : 'DATABASE_URL'
  )
  await migrate(target, await readFile(file, 'utf8'), user)
  process.stdout.write(`oneflight: schema oneflight is ready for role ${user}\n`)
} catch (error) {
  process.stderr.write(`oneflight: ${(error as Error).message}\n`)
  process.exitCode = 1
}

function readUrl (name: string): ReturnType<typeof parseDatabaseUrl> {
  const text = process.env[name]
  if (!text) throw new Error(`${name}: required`)
  try {
    return parseDatabaseUrl(text)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}
