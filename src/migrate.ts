/**
 * `npm run migrate`, `oneflight migrate`: creates the service's own tables for the login role of
 * DATABASE_URL, or in every database of DATABASE_ROUTES. It connects with the variable of the same
 * name after MIGRATE_ if that is set, because a login role should not be able to create schemas. On
 * failure it prints one line and exits with code 1; databases before that one are migrated.
 */
import { readFile } from 'node:fs/promises'
import type { DatabaseTarget } from '../schemas/database.ts'
import { readEngine } from './config/config.ts'
import { parseDatabaseRoutes, parseDatabaseUrl } from './config/database-url.ts'
import { isForbidden, migrate } from './postgres/migrate.ts'

// Resolved from the package root, because the compiled file lies in another folder.
const file = new URL('deploy/migrate.sql', import.meta.resolve('oneflight/package.json'))

// As in process.ts.
delete process.env['PGTARGETSESSIONATTRS']

try {
  const { user, targets } = process.env['DATABASE_ROUTES'] ? readRoutes() : readDatabase()
  const engine = readEngine(process.env)
  const text = await readFile(file, 'utf8')
  for (const [name, target] of targets) {
    await migrate({ ...target, engine }, text, user).catch(explainRefusal)
    process.stdout.write(`oneflight: schema oneflight is ready for role ${user}${name}\n`)
  }
} catch (error) {
  process.stderr.write(`oneflight: ${(error as Error).message}\n`)
  process.exitCode = 1
}

/** The login role may create no schema, and should not be able to. */
function explainRefusal (error: unknown): never {
  if (!isForbidden(error)) throw error
  const name = process.env['DATABASE_ROUTES'] ? 'MIGRATE_DATABASE_ROUTES' : 'MIGRATE_DATABASE_URL'
  const repair = `Set ${name} to a user that may create the schema, such as the owner`
  throw new Error(`${error.message}. ${repair}`)
}

interface Migration {
  /** The login role of the service. */
  readonly user: string
  /** The databases; with routes the name of each, for the output. */
  readonly targets: ReadonlyArray<readonly [name: string, target: DatabaseTarget]>
}

function readDatabase (): Migration {
  const { user } = read('DATABASE_URL', parseDatabaseUrl)
  const name = process.env['MIGRATE_DATABASE_URL'] ? 'MIGRATE_DATABASE_URL' : 'DATABASE_URL'
  return { user, targets: [['', read(name, parseDatabaseUrl)]] }
}

function readRoutes (): Migration {
  const { all } = read('DATABASE_ROUTES', parseDatabaseRoutes)
  const migrating = process.env['MIGRATE_DATABASE_ROUTES']
    ? read('MIGRATE_DATABASE_ROUTES', parseDatabaseRoutes).all
    : all
  // A pooler may have another host, so names are not compared.
  if (migrating.length !== all.length) {
    throw new Error(
      `MIGRATE_DATABASE_ROUTES: has ${migrating.length} databases, DATABASE_ROUTES ${all.length}`
    )
  }
  return {
    user: all[0].target.user,
    targets: migrating.map(({ name, target }) => [` in ${name}`, target])
  }
}

/** Parses a required variable. */
function read<Parsed> (name: string, parse: (text: string) => Parsed): Parsed {
  const text = process.env[name]
  if (!text) throw new Error(`${name}: required`)
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}
