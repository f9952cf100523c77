/**
 * Starts what a scenario runs on: a PostgreSQL server with a database and roles, and the service as
 * a child process. A shared server could be neither killed nor measured.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres, { type Sql } from 'postgres'
import {
  availableMajors,
  reachableDataDirectory,
  startPostgres,
  type Postgres
} from '../../scripts/dev/postgres.ts'
import type { Stage } from '../../scripts/dev/stage.ts'
import { signToken } from '../../src/auth/token.ts'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { childEnvironment } from '../support/process/process.ts'
import { until } from '../support/until.ts'

export const SECRET = 'a secret of the fault harness, more than 32 bytes'
export const ROLE = 'shop_user'

/** The major version of the embedded PostgreSQL; undefined if this platform has none. */
export const embeddedMajor: number | undefined = [
  Number(process.env['PG_MAJOR']),
  ...availableMajors().toReversed()
].find(major => availableMajors().includes(major))

export interface OwnServer {
  /** The running server. */
  readonly server: () => Postgres
  /** The URL of the database for the superuser. */
  readonly url: string
  /** The URL of the database for the service. */
  readonly loginUrl: string
  /** A client of the database, as superuser. */
  readonly sql: Sql
  /** Restarts the server on the same port after it has stopped. */
  start(): Promise<void>
}

/** Creates the table of idempotency keys. */
export async function migrateServer (
  { url, loginUrl }: Pick<OwnServer, 'url' | 'loginUrl'>
): Promise<void> {
  const text = await readFile(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8')
  await migrate(parseDatabaseUrl(url), text, new URL(loginUrl).username)
}

/** Starts a server whose data survives restarts, and creates the database `shop` with `schema`. */
export async function useServer (
  stage: Stage,
  { schema, settings = {} }: {
    readonly schema: string,
    readonly settings?: Readonly<Record<string, string | number>>
  }
): Promise<OwnServer> {
  const dataDir = await reachableDataDirectory(join(tmpdir(), `oneflight-faults-${randomUUID()}`))
  const startServer = (port?: number): Promise<Postgres> =>
    startPostgres({
      major: embeddedMajor ?? 18,
      dataDir,
      settings,
      ...(port === undefined ? {} : { port })
    })
  stage.teardown(() => rm(dataDir, { recursive: true, force: true }))
  let server = await startServer()
  stage.teardown(() => server.stop())
  await prepare(server.url, schema)
  const url = at(server.url, {})
  const sql = postgres(url, { max: 4, onnotice () {} })
  stage.teardown(() => sql.end({ timeout: 1 }))
  return {
    server: () => server,
    url,
    loginUrl: at(server.url, { user: 'oneflight', password: 'login' }),
    sql,
    async start () {
      server = await startServer(server.port)
    }
  }
}

function at (
  url: string,
  { user = 'postgres', password = '' }: { readonly user?: string, readonly password?: string }
): string {
  const target = new URL(url)
  Object.assign(target, { pathname: '/shop', username: user, password })
  return target.href
}

async function prepare (url: string, schema: string): Promise<void> {
  const run = async (url: string, text: string): Promise<void> => {
    const sql = postgres(url, { max: 1, onnotice () {} })
    await sql.unsafe(text)
    await sql.end()
  }
  await run(url, "create role oneflight login noinherit password 'login'")
  await run(url, `create role ${ROLE} nologin; grant ${ROLE} to oneflight`)
  await run(url, 'create database shop')
  await run(at(url, {}), schema)
}

export interface ServiceProcess {
  readonly url: string
  readonly adminUrl: string
  readonly pid: number
  /** The output so far. */
  readonly output: () => string
}

/** Starts the service as `npm start` does. The end of the stage stops it. */
export async function useServiceProcess (
  stage: Stage,
  databaseUrl: string,
  env: Readonly<Record<string, string>> = {}
): Promise<ServiceProcess> {
  const main = join(import.meta.dirname, '../../src/main.ts')
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
    env: childEnvironment({
      DATABASE_URL: databaseUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0',
      LOG_LEVEL: 'info',
      SHUTDOWN_DELAY_MS: '0',
      ...env
    }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let printed = ''
  // Reads all output, otherwise a full pipe would block the service. Keeps only the beginning,
  // which contains the addresses.
  child.stdout.on('data', (bytes: Buffer) => {
    if (printed.length < 1_000_000) printed += bytes.toString()
  })
  const ended = once(child, 'close')
  // A signal ends this process without its teardown.
  const killNow = (): void => {
    child.kill('SIGKILL')
  }
  process.on('exit', killNow)
  stage.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    process.off('exit', killNow)
  })
  const address = (name: string): Promise<string> =>
    until(() => {
      if (child.exitCode !== null) throw new Error(`the service did not start: ${printed}`)
      return new RegExp(`${name} server listening at (http://[^"]+)`).exec(printed)?.[1]
    })
  return {
    url: await address('main'),
    adminUrl: await address('admin'),
    pid: child.pid as number,
    output: () => printed
  }
}

/** Returns an Authorization header with a token for the role of the scenarios. */
export function bearer (): string {
  return `Bearer ${
    signToken({ role: ROLE, sub: 'harness', exp: Math.floor(Date.now() / 1000) + 3600 }, SECRET)
  }`
}

/** Returns the sum of the samples of a metric whose line contains `labels`; 0 if there are none. */
export async function readMetric (
  { adminUrl }: Pick<ServiceProcess, 'adminUrl'>,
  name: string,
  labels = ''
): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`, { headers: { connection: 'close' } }))
    .text()
  return text.split('\n').filter(line => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter(line => line.includes(labels)).reduce(
      (sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))),
      0
    )
}
