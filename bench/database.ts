/**
 * The database of the bench: on the embedded PostgreSQL, or on the server of DATABASE_URL (a
 * superuser's).
 *
 * In charge of: the database `oneflight_bench` and its two roles, made at the start and dropped at
 * the end; what the server is; URLs through a proxy. Refuses to: change any setting of the server,
 * so that it is as durable as it comes.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres, { type Sql } from 'postgres'
import { availableMajors, startPostgres } from '../src/dev/postgres.ts'
import { signToken } from '../src/dev/token.ts'
import { postmasterOf } from './cpu.ts'
import type { Stage } from '../src/dev/stage.ts'
import { useScript } from './stage.ts'

const DATABASE = 'oneflight_bench'
/** The roles of bench/schema.sql. */
const LOGIN = 'oneflight_bench_login'
const USER = 'oneflight_bench_user'
export const SECRET = 'a secret of the bench, of more than 32 bytes'

/** As many callers as tokens: nobody who keeps what it knows of a token gets away with one. */
export const tokens: readonly string[] = Array.from(
  { length: 100 },
  (_, i) =>
    signToken({ role: USER, sub: `caller-${i}`, exp: Math.floor(Date.now() / 1000) + 7200 }, SECRET)
)
export const role = USER

export interface Database {
  /** A superuser's client. */
  readonly sql: Sql
  /** The login role's URL. */
  readonly url: string
  /** Where the server is, `host:port`. */
  readonly address: string
  /** The postmaster's process, where it runs on this machine and there is a /proc. */
  readonly pid: number | undefined
  /** What `version`, `fsync` and so on are there. */
  readonly settings: Readonly<Record<string, string>>
  /** `embedded`, or that it is DATABASE_URL's. */
  readonly kind: string
}

/** Makes the database anew; it is dropped with the stage. */
export async function useDatabase (
  stage: Stage,
  given = process.env['DATABASE_URL']
): Promise<Database> {
  const server = given ?? await useEmbedded(stage)
  const admin = client(server)
  stage.teardown(() => admin.end({ timeout: 1 }))
  await drop(admin)
  stage.teardown(() => drop(admin))
  await admin.unsafe(
    `create role ${LOGIN} login noinherit password 'login'; create role ${USER} nologin; ` +
      `grant ${USER} to ${LOGIN}`
  )
  await admin.unsafe(`create database ${DATABASE}`)
  const sql = client(led(server, { pathname: `/${DATABASE}` }))
  stage.teardown(() => sql.end({ timeout: 1 }))
  await sql.unsafe(readFileSync(join(import.meta.dirname, 'schema.sql'), 'utf8'))
  const { hostname, port } = new URL(server)
  const [backend] = await sql`select pg_backend_pid() as pid`
  return {
    sql,
    url: led(server, { pathname: `/${DATABASE}`, username: LOGIN, password: 'login' }),
    address: `${hostname}:${port === '' ? 5432 : port}`,
    pid: postmasterOf(backend?.['pid'] as number),
    settings: await readSettings(sql),
    kind: given === undefined ? 'embedded' : 'DATABASE_URL'
  }
}

export interface Route {
  readonly url: string
  /** Gives it its round trip, or takes it away. */
  slow(yes: boolean): Promise<void>
}

/**
 * The database through a proxy that gives it this round trip (ms), as soon as it is told to. At 0
 * there is none: everybody connects directly.
 */
export async function useRoute (
  stage: Stage,
  { url, address }: Pick<Database, 'url' | 'address'>,
  roundTripMs: number
): Promise<Route> {
  if (roundTripMs === 0) return { url, slow: async () => {} }
  const { hello, ask } = await useScript(stage, 'delay-proxy.ts', { args: [address] })
  return {
    url: led(url, { host: hello.url }),
    slow: yes => ask({ roundTripMs: yes ? roundTripMs : 0 })
  }
}

/** The median time (ms) of `select 1` over this URL: what the round trip is in fact. */
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

/** Every table as a comparison is to find it. */
export async function startOver (sql: Sql): Promise<void> {
  await sql`call start_over()`
  await sql`vacuum analyze`
}

/** The URL with these parts in the place of its own. */
export function led (
  url: string,
  parts: Partial<Record<'pathname' | 'username' | 'password' | 'host', string>>
): string {
  return Object.assign(new URL(url), parts).href
}

async function useEmbedded (stage: Stage): Promise<string> {
  const major = [...availableMajors()].at(-1)
  if (major === undefined) {
    throw new Error('there is no embedded PostgreSQL for this platform: set DATABASE_URL')
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

const told = [
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
      where name = any(${told}) order by array_position(${told}, name)`
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}
