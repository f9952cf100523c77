/**
 * `npm run dev`: starts PostgreSQL with a sample database and both servers, and sends one batch.
 * For development only: everything listens on 127.0.0.1, and a file contains the token secret.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import postgres from 'postgres'
import { exampleBatch as batch } from '../schemas/example.ts'
import { parseDatabaseUrl } from './config/database-url.ts'
import { readConfig } from './config/config.ts'
import {
  availableMajors,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from './dev/postgres.ts'
import { signToken } from './auth/sign-token.ts'
import { createLogger, loadPretty } from './server/logger.ts'
import { migrate } from './postgres/migrate.ts'
import { startService, type Service } from './server/service.ts'

const root = resolve(import.meta.dirname, '..')
const DATABASE = 'shop'
/** Created by deploy/shop.sql. */
const LOGIN_ROLE = 'oneflight'
const TOKEN_SECONDS = 30 * 24 * 3600

try {
  await start()
} catch (error) {
  process.stderr.write(`oneflight: ${(error as Error).message}\n`)
  process.exit(1)
}

async function start (): Promise<void> {
  const state = await reachableDataDirectory('.data')
  await mkdir(state, { recursive: true })
  print('Starting PostgreSQL …')
  const server = await startPostgres({
    major: [18, ...availableMajors()].at(-1) as number,
    dataDir: join(state, 'postgres')
  })
  const started: Array<{ stop(): Promise<void> }> = [server]
  closeWithGrace({ delay: 15_000, logger: false }, async () => {
    for (const part of started.toReversed()) await part.stop()
  })
  await prepareDatabase(server)
  await migrate(
    parseDatabaseUrl(databaseUrl(server)),
    await readFile(join(root, 'deploy/migrate.sql'), 'utf8'),
    LOGIN_ROLE
  )
  const secret = await developmentSecret(join(state, 'jwt-secret'))
  const service = await startDevelopmentService(server, secret)
  started.push(service)
  const token = signToken({
    role: 'shop_customer',
    sub: 'corner-shop',
    exp: Math.floor(Date.now() / 1000) + TOKEN_SECONDS
  }, secret)
  await sendExample(service, token)
  print(usage({ service, server, token }))
}

async function startDevelopmentService (server: Postgres, secret: string): Promise<Service> {
  const settings = readConfig({
    LOG_LEVEL: 'warn',
    // Query plans reveal statistics, but here there are only the sample data.
    EXPLAIN: 'on',
    // There is no load balancer to wait for.
    SHUTDOWN_DELAY_MS: '0',
    ...process.env,
    DATABASE_URL: `postgres://${LOGIN_ROLE}:oneflight@127.0.0.1:${server.port}/${DATABASE}`,
    JWT_SECRET: secret,
    ANON_ROLE: 'shop_anonymous'
  })
  const pretty = await loadPretty(process.stdout)
  return startService({
    ...settings,
    logger: createLogger(settings.config.LOG_LEVEL, process.stdout, pretty)
  })
}

interface Started {
  readonly service: Service
  readonly server: Postgres
  readonly token: string
}

function usage ({ service, server, token }: Started): string {
  return `
main server    ${service.url}
admin server   ${service.adminUrl}   /metrics /live /ready /config
API reference  ${service.adminUrl}/reference   send batches from the browser
database       postgres://postgres@127.0.0.1:${server.port}/${DATABASE}   data directory
               ${server.dataDir}

Set a development token (role shop_customer, valid for 30 days):

export TOKEN=${token}

Then send a batch:

curl ${service.url} -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '[
  {"id": "order", "op": "select", "table": "orders", "where": {"status": {"eq": "paid"}}},
  {"id": "stock", "op": "select", "table": "stock", "where": {"qty": {"gte": 100}}}
]'

Or use the command line, which prints tables:

ONEFLIGHT_TOKEN=$TOKEN npm run -s oneflight -- run examples/transfer.json

More examples: examples/README.md

Press Ctrl-C to stop.`
}

/** Creates the sample database if it does not exist. */
async function prepareDatabase (server: Postgres): Promise<void> {
  const admin = postgres(server.url, { max: 1, onnotice: () => {} })
  try {
    const [existing] = await admin`select from pg_database where datname = ${DATABASE}`
    if (existing !== undefined) return
    // Renamed only when complete, so that an interrupted start leaves no partial database.
    await admin.unsafe(`drop database if exists ${DATABASE}_new`)
    await admin.unsafe(`create database ${DATABASE}_new`)
    const fresh = postgres(databaseUrl(server, `${DATABASE}_new`), { max: 1 })
    await fresh.unsafe(await readFile(join(root, 'deploy/shop.sql'), 'utf8')).finally(() =>
      fresh.end()
    )
    await admin.unsafe(`alter database ${DATABASE}_new rename to ${DATABASE}`)
  } finally {
    await admin.end()
  }
}

/** Returns the URL for a superuser. */
function databaseUrl ({ url }: Postgres, database = DATABASE): string {
  return url.replace(/[^/]*$/, database)
}

/** Returns the secret of an earlier start, so that tokens stay valid after a restart. */
async function developmentSecret (file: string): Promise<string> {
  if (!existsSync(file)) {
    await writeFile(file, randomBytes(32).toString('base64url'), { mode: 0o600 })
  }
  return readFile(file, 'utf8')
}

async function sendExample (service: Service, token: string): Promise<void> {
  print(`\nPOST ${service.url}\n${formatOperations(batch)}`)
  const response = await fetch(service.url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(batch)
  })
  const answer = await response.text()
  print(
    `\n${response.status} ${response.statusText}\n${
      answer.replace(/\],"/g, '],\n"').replace('{"error":null,"data":{', '{"error":null,"data":{\n')
    }`
  )
}

/** Formats a batch with one operation per line. */
function formatOperations (operations: readonly unknown[]): string {
  return `[\n${operations.map(operation => `  ${JSON.stringify(operation)}`).join(',\n')}\n]`
}

function print (text: string): void {
  process.stdout.write(`${text}\n`)
}
