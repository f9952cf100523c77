/**
 * Creates a database for each test, as a copy of a template that its file creates once, and the
 * roles that all files share. The test file brings its schema as SQL.
 */
import postgres, { type ISql, type Sql, type TransactionSql } from 'postgres'
import tap, { type Test } from 'tap'
import { grantAll, LOGIN_ROLE, TEST_ROLES } from './roles.ts'

export { LOGIN_ROLE, TEST_ROLES }

export interface Database {
  readonly name: string
  /** Superuser. */
  readonly url: string
  /** Logs in as `oneflight_login`: no superuser, inherits nothing, may take every test role. */
  readonly loginUrl: string
  /** A superuser's client; the end of the test closes it. */
  readonly sql: Sql
}

/** Advisory locks are per database: every file takes this one in the database `postgres`. */
const ROLES_LOCK = 4_000_956_800

const templates = new Map<string, Promise<string>>()
let counter = 0

/**
 * Creates a database with `schema` (SQL text, run once per file as superuser, after the roles
 * exist). Without a GRANT in it, `oneflight_user` may use all tables of the schema public. The end
 * of `t` drops the database, with its connections. Settings of `alter database` are not copied:
 * make them on `sql`.
 */
export async function useDatabase (
  t: Test,
  { schema = '' }: { readonly schema?: string } = {}
): Promise<Database> {
  const template = templates.get(schema) ?? makeTemplate(schema)
  templates.set(schema, template)
  const name = nextName('db')
  await withAdmin(async admin => {
    const [version] = await admin`select current_setting('server_version_num')::int as number`
    // Copies files; the default from PostgreSQL 15 on logs every page and takes twice as long.
    const strategy = version?.['number'] >= 150_000 ? 'strategy file_copy' : ''
    await admin.unsafe(`create database ${name} template ${await template} ${strategy}`)
  })
  const url = urlOf(name)
  const sql = postgres(url, { max: 4, onnotice: () => {} })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    await drop(name)
  })
  return { name, url, loginUrl: urlOf(name, LOGIN_ROLE, 'login'), sql }
}

/**
 * Creates the roles that are missing and grants them to `oneflight_login`. All test files share the
 * roles of the cluster: a test that changes a role uses a name of its own. Attributes as in CREATE
 * ROLE.
 */
export async function ensureRoles (
  names: readonly string[],
  attributes = 'nologin'
): Promise<void> {
  await withRoles(sql => createRoles(sql, names, attributes))
}

export async function createRoles (
  sql: ISql,
  names: readonly string[],
  attributes: string
): Promise<void> {
  const known = new Set(
    (await sql`select rolname from pg_roles`).map(({ rolname }) => rolname as string)
  )
  if (!known.has(LOGIN_ROLE)) {
    await sql.unsafe(`create role ${LOGIN_ROLE} login noinherit password 'login'`)
  }
  for (const name of names.filter(name => !known.has(name))) {
    await sql.unsafe(`create role "${name}" ${attributes}`)
    await sql.unsafe(`grant "${name}" to ${LOGIN_ROLE}`)
  }
}

/**
 * Runs `work`, which creates or changes roles, as superuser in one transaction. A lock excludes the
 * other test files.
 */
export async function withRoles (work: (sql: TransactionSql) => Promise<void>): Promise<void> {
  await withAdmin(admin =>
    admin.begin(async sql => {
      await sql`select pg_advisory_xact_lock(${ROLES_LOCK})`
      await work(sql)
    })
  )
}

/** Connections to the database `postgres`, by the URL of the cluster. To open one takes 30 ms. */
const admins = new Map<string, Sql>()

/** Runs `work` as superuser in the database `postgres` of the cluster. */
export async function withAdmin<T> (work: (sql: Sql) => Promise<T>): Promise<T> {
  const url = clusterUrl()
  const admin = admins.get(url) ??
    postgres(url, { max: 4, idle_timeout: 1, fetch_types: false, onnotice: () => {} })
  admins.set(url, admin)
  return await work(admin)
}

async function makeTemplate (schema: string): Promise<string> {
  await ensureRoles(TEST_ROLES)
  const name = nextName('template')
  // template0 takes any encoding and locale, and no session can be connected to it.
  await withAdmin(admin =>
    admin.unsafe(
      `create database ${name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'`
    )
  )
  tap.teardown(() => drop(name))
  const sql = postgres(urlOf(name), { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    if (!/\bgrant\b/i.test(schema)) await sql.unsafe(grantAll('oneflight_user'))
    await sql.unsafe(schema)
  } finally {
    await sql.end({ timeout: 1 }) // a database with connections cannot be copied
  }
  return name
}

async function drop (name: string): Promise<void> {
  await withAdmin(admin => admin.unsafe(`drop database if exists ${name} with (force)`))
}

function nextName (kind: string): string {
  counter += 1
  return `oneflight_${kind}_${process.pid}_${Date.now().toString(36)}_${counter}`
}

const urlOf = (database: string, ...login: readonly [user?: string, password?: string]): string =>
  urlOn(clusterUrl(), database, ...login)

/** Returns the URL of a database on the server of another URL. */
export function urlOn (
  server: string | URL,
  database: string,
  user?: string,
  password?: string
): string {
  const url = new URL(server)
  url.pathname = `/${database}`
  if (user !== undefined) url.username = user
  if (password !== undefined) url.password = password
  return url.href
}

function clusterUrl (): string {
  const url = process.env['TEST_DATABASE_URL']
  if (!url) {
    throw new Error('no TEST_DATABASE_URL: run the tests by `npm test`, which provides a database')
  }
  return url
}
