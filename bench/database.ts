/**
 * The database of the benchmark: `oneflight_bench` and its two roles, on the embedded PostgreSQL or
 * on the server of DATABASE_URL (a superuser's). It is created at the start and dropped at the end.
 * No setting of the server is changed, so durability is that of its configuration.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres, { type Sql } from 'postgres'
import { availableMajors, startPostgres } from '../scripts/dev/postgres.ts'
import type { Stage } from '../scripts/dev/stage.ts'
import { signToken } from '../src/auth/token.ts'
import { postmasterOf } from './cpu.ts'
import { useScript } from './stage.ts'

const DATABASE = 'oneflight_bench'
/** The roles of bench/schema.sql. */
const LOGIN = 'oneflight_bench_login'
const USER = 'oneflight_bench_user'
export const SECRET = 'a secret of the bench, of more than 32 bytes'

/** There are many tokens, so that a token cache has many entries. */
export const tokens: readonly string[] = Array.from(
  { length: 100 },
  (_, i) =>
    signToken({ role: USER, sub: `caller-${i}`, exp: Math.floor(Date.now() / 1000) + 7200 }, SECRET)
)
export const role = USER

export interface Database {
  /** A client of a superuser. */
  readonly sql: Sql
  /** The URL of the login role. */
  readonly url: string
  /** The address of the server, `host:port`. */
  readonly address: string
  /** The process id of the postmaster, if it runs on this machine and there is a /proc. */
  readonly pid: number | undefined
  /** Settings of the server: `server_version`, `fsync` … */
  readonly settings: Readonly<Record<string, string>>
  /** `embedded` or `DATABASE_URL`. */
  readonly kind: string
}

/** Creates the database. It is dropped at the end of the stage. */
export async function useDatabase (
  stage: Stage,
  serverUrl = process.env['DATABASE_URL']
): Promise<Database> {
  const server = serverUrl ?? await useEmbedded(stage)
  const admin = client(server)
  stage.teardown(() => admin.end({ timeout: 1 }))
  await drop(admin)
  stage.teardown(() => drop(admin))
  await admin.unsafe(
    `create role ${LOGIN} login noinherit password 'login'; create role ${USER} nologin; ` +
      `grant ${USER} to ${LOGIN}`
  )
  await admin.unsafe(`create database ${DATABASE}`)
  const sql = client(withUrlParts(server, { pathname: `/${DATABASE}` }))
  stage.teardown(() => sql.end({ timeout: 1 }))
  const readText = (file: string): string => readFileSync(join(import.meta.dirname, file), 'utf8')
  await sql.unsafe(readText('schema.sql'))
  // The table of idempotency keys.
  await sql.unsafe(readText('../deploy/migrate.sql').replaceAll(':"login_role"', LOGIN))
  const { hostname, port } = new URL(server)
  const [backend] = await sql`select pg_backend_pid() as pid`
  return {
    sql,
    url: withUrlParts(server, { pathname: `/${DATABASE}`, username: LOGIN, password: 'login' }),
    address: `${hostname}:${port === '' ? 5432 : port}`,
    pid: postmasterOf(backend?.['pid'] as number),
    settings: await readSettings(sql),
    kind: serverUrl === undefined ? 'embedded' : 'DATABASE_URL'
  }
}

export interface Route {
  readonly url: string
  /** Switches the delay on or off. */
  slow(yes: boolean): Promise<void>
}

/**
 * Starts a proxy that can add this round trip (ms) to the database. For 0 there is no proxy: all
 * connect directly.
 */
export async function useRoute (
  stage: Stage,
  { url, address }: Pick<Database, 'url' | 'address'>,
  roundTripMs: number
): Promise<Route> {
  if (roundTripMs === 0) return { url, slow: async () => {} }
  const { hello, request } = await useScript(stage, 'delay-proxy.ts', { args: [address] })
  return {
    url: withUrlParts(url, { host: hello.url }),
    slow: yes => request({ roundTripMs: yes ? roundTripMs : 0 })
  }
}

/** Measures the actual round trip: the median time (ms) of `select 1`. */
export async function measureRoundTrip (url: string): Promise<number> {
  const sql = postgres(url, { max: 1 })
  const times: number[] = []
  for (let i = 0; i < 60; i++) {
    const start = performance.now()
    await sql`select 1`
    times.push(performance.now() - start)
  }
  await sql.end()
  return times.slice(10).sort((a, b) => a - b)[25] as number
}

/** Resets every table for the next comparison. */
export async function resetTables (sql: Sql): Promise<void> {
  await sql`call reset_tables()`
  await sql`truncate oneflight.idempotency_keys`
  await sql`vacuum analyze`
}

/** Returns the URL with some of its parts replaced. */
export function withUrlParts (
  url: string,
  parts: Partial<Record<'pathname' | 'username' | 'password' | 'host', string>>
): string {
  return Object.assign(new URL(url), parts).href
}

async function useEmbedded (stage: Stage): Promise<string> {
  const major = [...availableMajors()].at(-1)
  if (major === undefined) {
    throw new Error('no embedded PostgreSQL for this platform: set DATABASE_URL')
  }
  const server = await startPostgres({ major })
  stage.teardown(() => server.stop())
  return server.url
}

async function drop (admin: Sql): Promise<void> {
  await admin.unsafe(`drop database if exists ${DATABASE} with (force)`)
  await admin.unsafe(`drop role if exists ${LOGIN}; drop role if exists ${USER}`)
}

function client (url: string): Sql {
  return postgres(url, { max: 1, onnotice () {} })
}

const SHOWN_SETTINGS = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'shared_buffers',
  'max_connections',
  'jit'
]

async function readSettings (sql: Sql): Promise<Readonly<Record<string, string>>> {
  const rows = await sql`select name, current_setting(name) as value from pg_settings
    where name = any(${SHOWN_SETTINGS}) order by array_position(${SHOWN_SETTINGS}, name)`
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}
