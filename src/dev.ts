/**
 * `npm run dev`: a real PostgreSQL, the sample shop, both servers, and one batch sent over HTTP to
 * show that it works. For development alone: everything listens on 127.0.0.1 and the token secret
 * lies in a file.
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
import { signToken } from './dev/token.ts'
import { createLogger, loadPretty } from './server/logger.ts'
import { migrate } from './postgres/migrate.ts'
import { startService, type Service } from './server/service.ts'

const root = resolve(import.meta.dirname, '..')
const DATABASE = 'shop'
/** Made by deploy/shop.sql. */
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
  say('starting PostgreSQL …')
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
  const settings = readConfig({
    LOG_LEVEL: 'warn',
    // There is nobody else's data.
    EXPLAIN: 'on',
    // And nobody who looks away.
    SHUTDOWN_DELAY_MS: '0',
    ...process.env,
    DATABASE_URL: `postgres://${LOGIN_ROLE}:oneflight@127.0.0.1:${server.port}/${DATABASE}`,
    JWT_SECRET: secret,
    ANON_ROLE: 'shop_anonymous'
  })
  const service = await startService({
    ...settings,
    logger: createLogger(
      settings.config.LOG_LEVEL,
      process.stdout,
      await loadPretty(process.stdout)
    )
  })
  started.push(service)
  const token = signToken({
    role: 'shop_customer',
    sub: 'corner-shop',
    exp: Math.floor(Date.now() / 1000) + TOKEN_SECONDS
  }, secret)
  await demonstrate(service, token)
  say(`
main server    ${service.url}
admin server   ${service.adminUrl}   /metrics /live /ready /config
reference      ${service.adminUrl}/reference   try batches in the browser
database       postgres://postgres@127.0.0.1:${server.port}/${DATABASE}   PostgreSQL,
  data in ${server.dataDir}

A token for development (role shop_customer, for 30 days):

export TOKEN=${token}

Paste it, then try:

curl ${service.url} -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '[
  {"id": "order", "op": "select", "table": "orders", "where": {"status": {"eq": "paid"}}},
  {"id": "stock", "op": "select", "table": "stock", "where": {"qty": {"gte": 100}}}
]'

The same with tables, from the command line:

ONEFLIGHT_TOKEN=$TOKEN npm run -s oneflight -- run examples/transfer.json

More batches to paste: examples/README.md

Ctrl-C stops all of it.`)
}

/** Makes the sample shop unless an earlier start has. */
async function prepareDatabase (server: Postgres): Promise<void> {
  const admin = postgres(server.url, { max: 1, onnotice: () => {} })
  try {
    const [known] = await admin`select from pg_database where datname = ${DATABASE}`
    if (known !== undefined) return
    // Under another name until it is whole: half a shop never looks like one.
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

/** Of a superuser. */
function databaseUrl ({ url }: Postgres, database = DATABASE): string {
  return url.replace(/[^/]*$/, database)
}

/** The same secret at every start, so that a token outlives a restart. */
async function developmentSecret (file: string): Promise<string> {
  if (!existsSync(file)) {
    await writeFile(file, randomBytes(32).toString('base64url'), { mode: 0o600 })
  }
  return readFile(file, 'utf8')
}

async function demonstrate (service: Service, token: string): Promise<void> {
  say(`\nPOST ${service.url}\n${lines(batch)}`)
  const response = await fetch(service.url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(batch)
  })
  const answer = await response.text()
  say(
    `\n${response.status} ${response.statusText}\n${
      answer.replace(/\],"/g, '],\n"').replace('{"error":null,"data":{', '{"error":null,"data":{\n')
    }`
  )
}

/** One operation a line. */
function lines (operations: readonly unknown[]): string {
  return `[\n${operations.map(operation => `  ${JSON.stringify(operation)}`).join(',\n')}\n]`
}

function say (text: string): void {
  process.stdout.write(`${text}\n`)
}
