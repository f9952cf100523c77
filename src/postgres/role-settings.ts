/**
 * Reads the settings that roles were given by ALTER ROLE … SET. PostgreSQL applies them at login,
 * but not on SET ROLE, so every transaction sets them itself. Settings that a transaction cannot
 * set are left out: one that fails would fail every batch of its role.
 */
import postgres from 'postgres'
import { constant, render, sql } from '../fragment/fragment.ts'
import type { RoleSettings } from './facts.ts'

/**
 * Settings that the service controls, that cannot be set within a transaction, or that close the
 * connection and so leave the outcome of the batch unknown. Names without a dot are PostgreSQL's.
 */
const EXCLUDED_NAMES =
  '^(request|oneflight|citus)[.]|^(search_path|row_security|client_encoding|datestyle' +
  '|intervalstyle|timezone|bytea_output|extra_float_digits|array_nulls' +
  '|client_connection_check_interval' +
  '|(default_)?transaction_(isolation|read_only|deferrable)|transaction_timeout' +
  '|idle_(in_transaction_)?session_timeout|tcp_.*|exit_on_error|temp_buffers)$'

/**
 * Limits, because a role can give itself settings: every connection reads them, and every batch of
 * the role sends them.
 */
const MAX_VALUE_BYTES = 1024
const MAX_PER_ROLE = 100
const MAX_SETTINGS = 10_000

/**
 * Reads the settings over a new connection. `version` is the server's, e.g. 150000. ALTER ROLE … IN
 * DATABASE … SET takes precedence.
 */
export async function readRoleSettings (
  client: postgres.Sql,
  version: number
): Promise<RoleSettings> {
  const rows = await client.unsafe<Row[]>(buildQuery(version))
  // Many roles share the same few settings.
  const checks = [...new Set(rows.map(buildCheck))]
  const results = await Promise.all(checks.map(check => succeeds(client, check)))
  const valid = new Set(checks.filter((_, i) => results[i]))
  const settings = new Map<string, Array<readonly [string, string]>>()
  for (const row of rows.filter(row => valid.has(buildCheck(row)))) {
    const ofRole = settings.get(row.role) ?? []
    settings.set(row.role, ofRole)
    if (ofRole.length < MAX_PER_ROLE) ofRole.push([row.name, row.value])
  }
  return settings
}

interface Row {
  readonly role: string
  readonly name: string
  readonly value: string
}

/**
 * Selects settings that any user can set, those that the login role was granted SET on (PostgreSQL
 * 15), and custom ones. Settings of an installed extension that is not loaded are left out: they
 * may turn out to be a superuser's (plpgsql.variable_conflict, once the language is used).
 */
function buildQuery (version: number): string {
  const granted = version >= 150_000
    ? "or has_parameter_privilege(session_user, p.name, 'SET')"
    : ''
  return `
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
      and c.name !~* '${EXCLUDED_NAMES}' and octet_length(c.value) <= ${MAX_VALUE_BYTES}
    order by r.rolname, c.name, s.setdatabase desc limit ${MAX_SETTINGS}`
}

/** Sets the value for the duration of one statement. */
function buildCheck ({ name, value }: Row): string {
  return render(sql`select set_config(${constant(name)}, ${constant(value)}, true)`).text
}

/**
 * Whether a setting can be set. A value can become invalid after ALTER ROLE, e.g. the name of a
 * dropped object; at login PostgreSQL only warns about it.
 */
async function succeeds (client: postgres.Sql, check: string): Promise<boolean> {
  return client.unsafe(check).simple().then(() => true, (error: unknown) => {
    if (error instanceof postgres.PostgresError && error.severity === 'ERROR') return false
    throw error
  })
}
