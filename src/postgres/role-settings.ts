/**
 * The settings that roles were given by ALTER ROLE … SET. PostgreSQL applies them at login, and SET
 * ROLE is none, so every transaction makes them itself. In charge of which of them it can make: one
 * that fails would end every batch of its role.
 */
import postgres from 'postgres'
import { constant, render, sql } from '../sql/fragment.ts'
import type { RoleSettings } from '../sql/session.ts'

/**
 * Settings that stay the service's own, that cannot be made in the middle of a transaction, or that
 * end the connection, so that what became of the batch would be in doubt. Names without dots are
 * those of PostgreSQL.
 */
const LEFT_OUT =
  '^(request|oneflight)[.]|^(search_path|row_security|client_encoding|datestyle|intervalstyle' +
  '|timezone|bytea_output|extra_float_digits|client_connection_check_interval' +
  '|(default_)?transaction_(isolation|read_only|deferrable)|transaction_timeout' +
  '|idle_(in_transaction_)?session_timeout|tcp_.*|exit_on_error|temp_buffers)$'

/**
 * A role can give settings to itself, and every batch of it would carry them, every connection read
 * them.
 */
const MAX_VALUE_BYTES = 1024
const MAX_PER_ROLE = 100
const MAX_SETTINGS = 10_000

/**
 * Reads them over a connection that was just opened. ALTER ROLE … IN DATABASE … SET wins. Taken are
 * settings that everybody may make, those that the login role was granted SET on (`version`, of the
 * server, 150000 or later), and custom ones; not those of an extension that is not loaded, for it
 * may turn out that they are a superuser's (plpgsql.variable_conflict, once the language was used).
 */
export async function readRoleSettings (
  client: postgres.Sql,
  version: number
): Promise<RoleSettings> {
  const granted = version >= 150_000
    ? "or has_parameter_privilege(session_user, p.name, 'SET')"
    : ''
  const rows = await client.unsafe<Row[]>(`
    select distinct on (r.rolname, c.name) r.rolname as role, c.name, c.value
    from pg_db_role_setting as s
    join pg_roles as r on r.oid = s.setrole and r.rolname <> session_user and
      pg_has_role(session_user, r.oid, 'MEMBER')
    cross join lateral (
      select split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value,
        substring(entry from '^([^=.]+)[.][^=]*=') as prefix
      from unnest(s.setconfig) as entry
    ) as c
    left join pg_settings as p on p.name = c.name
    where s.setdatabase in ('0', (select oid from pg_database where datname = current_database()))
      and (p.context = 'user' or (p.name is null and c.prefix <> '' and c.prefix not in (select
        extname from pg_extension)) ${granted})
      and c.name !~* '${LEFT_OUT}' and octet_length(c.value) <= ${MAX_VALUE_BYTES}
    order by r.rolname, c.name, s.setdatabase desc limit ${MAX_SETTINGS}`)
  // Many roles have the same few.
  const checks = [...new Set(rows.map(checkOf))]
  const succeeded = await Promise.all(checks.map(check => succeeds(client, check)))
  const possible = new Set(checks.filter((_, i) => succeeded[i]))
  const settings = new Map<string, Array<readonly [string, string]>>()
  for (const row of rows.filter(row => possible.has(checkOf(row)))) {
    const own = settings.get(row.role) ?? []
    settings.set(row.role, own)
    if (own.length < MAX_PER_ROLE) own.push([row.name, row.value])
  }
  return settings
}

interface Row {
  readonly role: string
  readonly name: string
  readonly value: string
}

/** The setting made for a statement alone. */
function checkOf ({ name, value }: Row): string {
  return render(sql`select set_config(${constant(name)}, ${constant(value)}, true)`).text
}

/**
 * A value that was good when it was given may be none any more, e.g. the name of what was dropped;
 * a login then only warns.
 */
async function succeeds (client: postgres.Sql, check: string): Promise<boolean> {
  return client.unsafe(check).simple().then(() => true, (error: unknown) => {
    if (error instanceof postgres.PostgresError && error.severity === 'ERROR') return false
    throw error
  })
}
