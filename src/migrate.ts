/**
 * `npm run migrate`, `oneflight migrate`: makes in the database what the service keeps there, for
 * the login role of DATABASE_URL. It connects by MIGRATE_DATABASE_URL where that is set, since a
 * login role should not be allowed to create schemas. Exit code 1 with one line when it cannot.
 */
import { readFile } from 'node:fs/promises'
import { parseDatabaseUrl } from './config/database-url.ts'
import { migrate } from './postgres/migrate.ts'

// From the root of the package, which is another way from the compiled file.
const file = new URL('deploy/migrate.sql', import.meta.resolve('oneflight/package.json'))

// As in main.ts.
delete process.env['PGTARGETSESSIONATTRS']

try {
  const { user } = readUrl('DATABASE_URL')
  const target = readUrl(
    process.env['MIGRATE_DATABASE_URL'] ? 'MIGRATE_DATABASE_URL' : 'DATABASE_URL'
  )
  await migrate(target, await readFile(file, 'utf8'), user)
  process.stdout.write(`oneflight: the schema oneflight is there, and ${user} may use it\n`)
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
