/**
 * The database of `npm run dev`, created from an SQL file.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import postgres, { type Sql } from 'postgres'

export interface DatabaseOptions {
  readonly file: string
  readonly name: string
  /** Created if it does not exist. */
  readonly loginRole: string
}

export interface Database {
  readonly url: string
  /** True when the database existed and was created from another text than that of the file. */
  readonly outdated: boolean
  /** Roles that the login role can take and that have privileges or policies in the database. */
  readonly roles: readonly string[]
  /** Tables on which these roles have no privilege, as they are written in SQL. */
  readonly ungranted: readonly string[]
}

/** The databases of a new server. */
const RESERVED = ['postgres', 'template0', 'template1']

/** Creates the database if it does not exist. `url` belongs to a superuser of the server. */
export async function prepareDatabase (
  url: string,
  { file, name, loginRole }: DatabaseOptions
): Promise<Database> {
  if (RESERVED.includes(name)) {
    throw new Error(`${relative('', file)}: rename the file, the server has a database "${name}"`)
  }
  const text = await readFile(file, 'utf8')
  const digest = createHash('sha256').update(text).digest('hex')
  const own = urlOf(url, name)
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  try {
    const [existing] = await admin`
      select shobj_description(oid, 'pg_database') as digest
      from pg_database where datname = ${name}`
    if (existing === undefined) {
      const [role] = await admin`select from pg_roles where rolname = ${loginRole}`
      if (role === undefined) await admin`create role ${admin(loginRole)} login noinherit`
      // Renamed only when complete, so that an interrupted start leaves no partial database.
      const partial = `${name}_new`
      await admin`drop database if exists ${admin(partial)}`
      await admin`create database ${admin(partial)}`
      await runFile(urlOf(url, partial), file, text)
      await admin`comment on database ${admin(partial)} is ${admin.unsafe(`'${digest}'`)}`
      await admin`alter database ${admin(partial)} rename to ${admin(name)}`
    }
    const outdated = existing !== undefined && existing['digest'] !== digest
    return {
      url: own,
      outdated,
      roles: await usableRoles(admin, name, loginRole),
      ungranted: await ungrantedTables(own, loginRole)
    }
  } finally {
    await admin.end()
  }
}

function urlOf (server: string, database: string): string {
  return server.slice(0, server.lastIndexOf('/') + 1) + encodeURIComponent(database)
}

/** Runs the statements of the file as one transaction. An error has the file, and its line. */
async function runFile (url: string, file: string, text: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  // Dumps of pg_dump contain these two commands of psql.
  const statements = text.replace(/^\\(un)?restrict .*$/gm, '')
  try {
    await sql.unsafe(statements)
  } catch (error) {
    const { message, position } = error as Error & { readonly position?: string }
    // PostgreSQL counts characters, and knows the place of names and of faults of the syntax.
    const before = [...statements].slice(0, Number(position) - 1).join('')
    const line = position === undefined ? '' : `:${before.split('\n').length}`
    throw new Error(`${relative('', file)}${line}: ${message}`)
  } finally {
    await sql.end()
  }
}

async function usableRoles (admin: Sql, name: string, loginRole: string): Promise<string[]> {
  const rows = await admin<Array<{ role: string }>>`
    select r.rolname as role
    from pg_roles r
    join pg_auth_members m on m.roleid = r.oid
    join pg_roles l on l.oid = m.member and l.rolname = ${loginRole}
    where exists (
      select from pg_shdepend d
      join pg_database b on b.oid = d.dbid and b.datname = ${name}
      where d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid
    )
    order by role`
  return rows.map(({ role }) => role)
}

/** Tables of the user on which no role that the login role can take has a privilege. */
async function ungrantedTables (url: string, loginRole: string): Promise<string[]> {
  const sql = postgres(url, { max: 1 })
  try {
    const rows = await sql<Array<{ name: string }>>`
      select c.oid::regclass::text as name
      from pg_class c
      where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
        and c.relnamespace in (
          select oid from pg_namespace
          where nspname !~ '^pg_' and nspname not in ('information_schema', 'oneflight'))
        and not exists (
          select from pg_auth_members m
          join pg_roles l on l.oid = m.member and l.rolname = ${loginRole}
          where has_table_privilege(m.roleid, c.oid, 'select, insert, update, delete')
            or has_any_column_privilege(m.roleid, c.oid, 'select, insert, update'))
      order by name`
    return rows.map(({ name }) => name)
  } finally {
    await sql.end()
  }
}
