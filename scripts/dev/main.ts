/**
 * `npm run dev`: starts PostgreSQL with a sample shop and its named batches, or with the SQL file
 * that is given, and both servers. For development only: everything listens on 127.0.0.1, and a
 * file contains the token secret.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import closeWithGrace from 'close-with-grace'
import { signToken } from '../../src/auth/token.ts'
import { readConfig } from '../../src/config/config.ts'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { onNpmEnded } from '../../src/parent.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { createLogger, loadPretty } from '../../src/server/logger.ts'
import { type Service, startService } from '../../src/server/service.ts'
import { describeStart } from './banner.ts'
import { prepareDatabase, type Database } from './database.ts'
import { preferPort } from './port.ts'
import {
  availableMajors,
  deleteDataDirectory,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from './postgres.ts'

const root = resolve(import.meta.dirname, '../..')
const SHOP = join(root, 'deploy/shop.sql')
const SHOP_BATCHES = join(root, 'deploy/batches')
const LOGIN_ROLE = 'oneflight'
/** Used unless it is taken, so that connection settings of other tools stay valid. */
const DATABASE_PORT = 15_432
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const
const TOKEN_SECONDS = 30 * 24 * 3600

const USAGE = 'usage: npm run dev [-- [--reset] [file.sql]]'

interface Options {
  readonly reset: boolean
  readonly file: string
  readonly database: string
}

interface Started {
  readonly service: Service
  readonly server: Postgres
  readonly options: Options
  readonly database: Database
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
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) {
    throw new Error(`no such file: ${file}`)
  }
  // Without `--` before it, npm 11 keeps the option and passes it on only in this variable.
  const reset = values.reset === true || process.env['npm_config_reset'] === 'true'
  return { reset, file, database: basename(file).replace(/\.sql$/i, '') }
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
    port: await preferPort(DATABASE_PORT)
  })
  const started: Array<{ stop(): Promise<void> }> = [server]
  const skip = [...SIGNALS]
  const grace = closeWithGrace({ delay: 15_000, logger: false, skip }, async () => {
    for (const part of started.toReversed()) await part.stop()
  })
  const asked = Promise.withResolvers<string>()
  for (const signal of SIGNALS) process.on(signal, () => asked.resolve(signal))
  onNpmEnded(() => asked.resolve('npm has ended'))
  asked.promise.then(cause => {
    print(`Stopping: ${cause}`)
    grace.close()
  })
  const database = await prepareDatabase(server.url, {
    file: options.file,
    name: options.database,
    loginRole: LOGIN_ROLE
  })
  await migrate(
    parseDatabaseUrl(database.url),
    await readFile(join(root, 'deploy/migrate.sql'), 'utf8'),
    LOGIN_ROLE
  )
  const secret = await developmentSecret(join(state, 'jwt-secret'))
  const service = await startDevelopmentService(database, options, secret.text)
  started.push(service)
  print(describe({ service, server, options, database, secret }))
}

async function startDevelopmentService (
  { url }: Database,
  { file }: Options,
  secret: string
): Promise<Service> {
  const settings = readConfig({
    // They show statistics, values and names, which are the developer's own.
    EXPLAIN: 'on',
    API_TABLES: 'on',
    ERROR_VERBOSITY: 'verbose',
    MAX_STREAM_ROWS: '100000',
    // There is no load balancer to wait for.
    SHUTDOWN_DELAY_MS: '0',
    ...file === SHOP ? { ANON_ROLE: 'shop_anonymous', BATCHES_DIR: SHOP_BATCHES } : {},
    ...process.env,
    DATABASE_URL: url.replace('postgres@', `${LOGIN_ROLE}@`),
    JWT_SECRET: secret
  })
  const pretty = await loadPretty(process.stdout)
  return startService({
    ...settings,
    logger: createLogger(settings.config.LOG_LEVEL, process.stdout, pretty)
  })
}

function describe (started: Started): string {
  const { service: { url, adminUrl }, server, database, options: { file }, secret } = started
  return describeStart({
    url,
    adminUrl,
    dataDir: server.dataDir,
    database,
    secretFile: relative('', secret.file),
    ...file === SHOP ? { token: shopToken(secret.text) } : { file: relative('', file) }
  })
}

function shopToken (secret: string): string {
  const exp = Math.floor(Date.now() / 1000) + TOKEN_SECONDS
  return signToken({ role: 'shop_customer', sub: 'corner-shop', exp }, secret)
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
