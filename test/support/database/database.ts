/**
 * A database of its own for each test, cloned from a template that its file makes once.
 *
 * In charge of: databases, their clients, and the roles that the whole suite shares.
 * Refuses to: know any schema; the test file brings it as SQL.
 */
import postgres, { type Sql, type TransactionSql } from 'postgres'
import tap, { type Test } from 'tap'

export interface Database {
  readonly name: string
  /** Superuser. */
  readonly url: string
  /** `oneflight_login`: no superuser, inherits nothing, may take every test role. */
  readonly loginUrl: string
  /** A superuser's client, closed at the test's end. */
  readonly sql: Sql
}

/** The role a service under test logs in with (password `login`), and the roles it may take. */
export const LOGIN_ROLE = 'oneflight_login'
export const TEST_ROLES = ['oneflight_user', 'oneflight_other', 'oneflight_anon'] as const

/**
 * Locks are per database, so every file takes this one in the cluster's own database. Any constant
 * will do.
 */
const ROLES_LOCK = 4_000_956_800

const templates = new Map<string, Promise<string>>()
let counter = 0

/**
 * A fresh database with `schema` (SQL text, run once per file as superuser; roles exist by then).
 * It is dropped at the end of `t`, whoever is still connected. Settings made by `alter database`
 * are not cloned: make them on `sql`.
 */
export async function useDatabase (
  t: Test,
  { schema = '' }: { readonly schema?: string } = {}
): Promise<Database> {
  const template = templates.get(schema) ?? makeTemplate(schema)
  templates.set(schema, template)
  const name = nextName('db')
  await withAdmin(async admin => admin.unsafe(`create database ${name} template ${await template}`))
  const url = urlOf(name)
  const sql = postgres(url, { max: 4, onnotice: () => {} })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    await drop(name)
  })
  return { name, url, loginUrl: urlOf(name, LOGIN_ROLE, 'login'), sql }
}

/**
 * Makes roles that are missing and lets `oneflight_login` take them. Roles belong to the cluster,
 * and test files run in parallel: names are shared, so give a role its own name when a test changes
 * it. Attributes as in CREATE ROLE.
 */
export async function ensureRoles (
  names: readonly string[],
  attributes = 'nologin'
): Promise<void> {
  await withRoles(async sql => {
    const known = new Set(
      (await sql`select rolname from pg_roles`).map(({ rolname }) => rolname as string)
    )
    if (!known.has(LOGIN_ROLE)) {
      await sql.unsafe(`create role ${LOGIN_ROLE} login noinherit password 'login'`)
    }
    for (const name of names.filter(name => !known.has(name))) {
      await sql.unsafe(`create role "${name}" ${attributes}; grant "${name}" to ${LOGIN_ROLE}`)
    }
  })
}

/**
 * Runs `work`, which makes roles or changes them, as superuser in one transaction, while no other
 * test file does.
 */
export async function withRoles (work: (sql: TransactionSql) => Promise<void>): Promise<void> {
  await withAdmin(admin =>
    admin.begin(async sql => {
      await sql`select pg_advisory_xact_lock(${ROLES_LOCK})`
      await work(sql)
    })
  )
}

/** Runs `work` as superuser in the cluster's own database, for what no test database can do. */
export async function withAdmin<T> (work: (sql: Sql) => Promise<T>): Promise<T> {
  const admin = postgres(clusterUrl(), { max: 1, onnotice: () => {} })
  try {
    return await work(admin)
  } finally {
    await admin.end({ timeout: 1 })
  }
}

async function makeTemplate (schema: string): Promise<string> {
  await ensureRoles(TEST_ROLES)
  const name = nextName('template')
  // template0: no other session can hold it, and it takes any encoding and locale
  await withAdmin(admin =>
    admin.unsafe(
      `create database ${name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'`
    )
  )
  tap.teardown(() => drop(name))
  const sql = postgres(urlOf(name), { max: 1, onnotice: () => {} })
  try {
    await sql.unsafe(schema)
  } finally {
    await sql.end({ timeout: 1 }) // a database somebody is connected to cannot be cloned
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

function urlOf (database: string, user?: string, password?: string): string {
  const url = new URL(clusterUrl())
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
