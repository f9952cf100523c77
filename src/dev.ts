/**
 * `npm run dev`: starts PostgreSQL with a sample shop, or with the SQL file that is given, and both
 * servers. For development only: everything listens on 127.0.0.1, and a file contains the token
 * secret.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import closeWithGrace from 'close-with-grace'
import postgres from 'postgres'
import { signToken } from './auth/sign-token.ts'
import { parseDatabaseUrl } from './config/database-url.ts'
import { readConfig } from './config/config.ts'
import { accepts } from './dev/port.ts'
import {
  availableMajors,
  deleteDataDirectory,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from './dev/postgres.ts'
import { createLogger, loadPretty } from './server/logger.ts'
import { migrate } from './postgres/migrate.ts'
import { startService, type Service } from './server/service.ts'

const root = resolve(import.meta.dirname, '..')
const SHOP = join(root, 'deploy/shop.sql')
const LOGIN_ROLE = 'oneflight'
/** Used unless it is taken, so that connection settings of other tools stay valid. */
const DATABASE_PORT = 15_432
const TOKEN_SECONDS = 30 * 24 * 3600

const USAGE = 'usage: npm run dev [-- [--reset] [file.sql]]'

interface Options {
  /** Delete all data first. */
  readonly reset: boolean
  /** Creates the database. */
  readonly file: string
  readonly database: string
}

interface Started {
  readonly service: Service
  readonly server: Postgres
  readonly options: Options
  readonly secret: { readonly file: string, readonly text: string }
}

try {
  await start(readOptions(process.argv.slice(2)))
} catch (error) {
  process.stderr.write(`oneflight: ${(error as Error).message}\n`)
  process.exit(1)
}

/** The database is named after the file: `notes.sql` creates `notes`. */
function readOptions (args: string[]): Options {
  const { values, positionals } = parse(args)
  if (positionals.length > 1) throw new Error(`expected at most one file; ${USAGE}`)
  const file = resolve(positionals[0] ?? SHOP)
  if (!existsSync(file)) throw new Error(`no such file: ${file}`)
  return { reset: values.reset === true, file, database: basename(file).replace(/\.sql$/i, '') }
}

function parse (args: string[]) {
  try {
    return parseArgs({ args, options: { reset: { type: 'boolean' } }, allowPositionals: true })
  } catch {
    throw new Error(`unknown option; ${USAGE}`)
  }
}

async function start (options: Options): Promise<void> {
  const state = await reachableDataDirectory('.data')
  await mkdir(state, { recursive: true })
  const dataDir = join(state, 'postgres')
  if (options.reset) await deleteDataDirectory(dataDir)
  print('Starting PostgreSQL …')
  const server = await startPostgres({
    major: [18, ...availableMajors()].at(-1) as number,
    dataDir,
    ...await accepts(DATABASE_PORT) ? {} : { port: DATABASE_PORT }
  })
  const started: Array<{ stop(): Promise<void> }> = [server]
  closeWithGrace({ delay: 15_000, logger: false }, async () => {
    for (const part of started.toReversed()) await part.stop()
  })
  await prepareDatabase(server, options)
  await migrate(
    parseDatabaseUrl(databaseUrl(server, options.database)),
    await readFile(join(root, 'deploy/migrate.sql'), 'utf8'),
    LOGIN_ROLE
  )
  const secret = await developmentSecret(join(state, 'jwt-secret'))
  const service = await startDevelopmentService(server, options, secret.text)
  started.push(service)
  print(describe({ service, server, options, secret }))
}

async function startDevelopmentService (
  server: Postgres,
  { file, database }: Options,
  secret: string
): Promise<Service> {
  const settings = readConfig({
    // Query plans and verbose messages show statistics and values, which are the developer's own.
    EXPLAIN: 'on',
    ERROR_VERBOSITY: 'verbose',
    // There is no load balancer to wait for.
    SHUTDOWN_DELAY_MS: '0',
    ...file === SHOP ? { ANON_ROLE: 'shop_anonymous' } : {},
    ...process.env,
    DATABASE_URL: databaseUrl(server, database).replace('postgres@', `${LOGIN_ROLE}@`),
    JWT_SECRET: secret
  })
  const pretty = await loadPretty(process.stdout)
  return startService({
    ...settings,
    logger: createLogger(settings.config.LOG_LEVEL, process.stdout, pretty)
  })
}

function describe (started: Started): string {
  const { service, server, options: { file, database } } = started
  return `
main server    ${service.url}
admin server   ${service.adminUrl}   /metrics /live /ready /config
API reference  ${service.adminUrl}/reference   send batches from the browser
database       ${databaseUrl(server, database)}
data           ${server.dataDir}

${file === SHOP ? describeShop(started) : describeTokens(started)}
To start again with a fresh database: npm run dev -- --reset
Press Ctrl-C to stop.`
}

function describeShop ({ service, secret }: Started): string {
  const token = signToken({
    role: 'shop_customer',
    sub: 'corner-shop',
    exp: Math.floor(Date.now() / 1000) + TOKEN_SECONDS
  }, secret.text)
  return `Set a token (role shop_customer, valid for 30 days):

export ONEFLIGHT_TOKEN=${token}

Then send a batch:

curl ${service.url} -H "Authorization: Bearer $ONEFLIGHT_TOKEN" \\
  -H 'Content-Type: application/json' -d '[
  {"id": "order", "op": "select", "table": "orders", "where": {"status": {"eq": "paid"}}},
  {"id": "stock", "op": "select", "table": "stock", "where": {"qty": {"gte": 100}}}
]'

Or use the command line, which prints tables:

echo '[{"id": "stock", "op": "select", "table": "stock"}]' | npm run -s oneflight -- run -

More batches: docs/guides/getting-started.md and examples/README.md
`
}

function describeTokens ({ secret }: Started): string {
  return `Set a token for one of your roles that is granted to ${LOGIN_ROLE}:

export JWT_SECRET=$(cat ${relative('', secret.file)})
export ONEFLIGHT_TOKEN=$(npm run -s oneflight -- token --role <role> --sub <subject>)
`
}

/** Creates the database from the file if it does not exist. */
async function prepareDatabase (server: Postgres, { file, database }: Options): Promise<void> {
  const admin = postgres(server.url, { max: 1, onnotice: () => {} })
  try {
    const [existing] = await admin`select from pg_database where datname = ${database}`
    if (existing !== undefined) return
    const [role] = await admin`select from pg_roles where rolname = ${LOGIN_ROLE}`
    if (role === undefined) await admin`create role ${admin(LOGIN_ROLE)} login noinherit`
    // Renamed only when complete, so that an interrupted start leaves no partial database.
    const partial = `${database}_new`
    await admin`drop database if exists ${admin(partial)}`
    await admin`create database ${admin(partial)}`
    const fresh = postgres(databaseUrl(server, partial), { max: 1, onnotice: () => {} })
    await fresh.unsafe(await readFile(file, 'utf8')).finally(() => fresh.end()).catch(
      (error: Error) => {
        throw new Error(`${relative('', file)}: ${error.message}`)
      }
    )
    await admin`alter database ${admin(partial)} rename to ${admin(database)}`
  } finally {
    await admin.end()
  }
}

/** Returns the URL for the superuser. */
function databaseUrl ({ url }: Postgres, database: string): string {
  return url.replace(/[^/]*$/, encodeURIComponent(database))
}

/** Returns the secret of an earlier start, so that tokens stay valid after a restart. */
async function developmentSecret (file: string): Promise<Started['secret']> {
  if (!existsSync(file)) {
    await writeFile(file, randomBytes(32).toString('base64url'), { mode: 0o600 })
  }
  return { file, text: await readFile(file, 'utf8') }
}

function print (text: string): void {
  process.stdout.write(`${text}\n`)
}
