/** Reads what the service needs to know about the server of a new connection. */
import type postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { constant, join, render, sql } from '../fragment/fragment.ts'
import type { Backend, Connection } from './connection.ts'
import { recognizeEngine, refuseProduct } from './engine.ts'
import { readExtraSchemas } from './extra-schemas.ts'
import { FIXED_SETTINGS, type ServerFacts, type Settings } from './facts.ts'
import { readRoleSettings } from './role-settings.ts'

export interface InspectOptions {
  /** Whether to read the settings of roles and the extra schemas, which batches need. */
  readonly roleSettings?: boolean | undefined
  /** Configured extra schemas; the safe ones are put on search_path. */
  readonly extraSchemas?: readonly string[] | undefined
  /** Whether statements may be prepared. False behind a transaction pooler. */
  readonly prepares?: boolean | undefined
  /** Settings of the startup message, to which RESET ALL returns. A pooler may refuse them. */
  readonly startup?: Settings | undefined
}

type OwnMember = 'client' | 'socket' | 'prepared' | 'expiresAt' | 'state'

interface Inspected {
  readonly facts: Omit<Connection, OwnMember>
  /** Whether the server matches `target_session_attrs`. */
  readonly matches: boolean
}

/**
 * Inspects the server over a new connection. Throws when the product or the engine is not
 * supported, and DATABASE_ENGINE does not choose one. A server that does not match is not asked
 * about roles and schemas.
 */
export async function inspectServer (
  client: postgres.Sql,
  { hosts, targetSessionAttrs, engine: chosen }: DatabaseTarget,
  options: InspectOptions & { readonly checkPooler: () => Promise<void> }
): Promise<Inspected> {
  const { roleSettings: forBatches = true, extraSchemas: names = [], prepares = true } = options
  // Alone, because another product may not have what the rest reads.
  const [product] = await client.unsafe<[{ version: string }]>('select version() as version')
  const refused = refuseProduct(product.version)
  if (refused !== undefined && chosen === undefined) throw new Error(refused)
  const result = await client.unsafe<[Server]>(SERVER_QUERY)
  const [server] = result
  const matches = matchesSessionAttrs(server, targetSessionAttrs)
  const onStandby = matches && server.standby === 't'
  const { engine, refusal = refused } =
    recognizeEngine({ citus: server.citus, onStandby }, chosen)
  if (refusal !== undefined && chosen === undefined) throw new Error(refusal)
  const complete = matches && forBatches
  const version = Number(server.version)
  const roleSettings = complete ? await readRoleSettings(client, version) : new Map()
  const schemas = await readExtraSchemas(client, complete ? names : [])
  // A pooler reports its own process id at start-up.
  const { pid, started } = server
  const backend = String(result.state.pid) === pid ? { pid, started } : undefined
  if (backend === undefined) await options.checkPooler()
  const facts = {
    backend,
    server: backend === undefined || !prepares ? undefined : readFacts(server, options.startup),
    product: product.version.split(' on ', 1)[0] as string,
    privileged: server.privileged === 't',
    isStandby: server.standby === 't',
    engine,
    overridden: refusal,
    losesCommits: server.asynchronous === 't' && (hosts.length > 1 || server.patroni === 't'),
    roleSettings,
    rolesWithoutLogin: complete && engine === 'citus' ? await readRolesWithoutLogin(client) : [],
    ...schemas
  }
  return { facts, matches }
}

/** Returns the roles that the service can take but that cannot log in. */
async function readRolesWithoutLogin (client: postgres.Sql): Promise<readonly string[]> {
  const rows = await client.unsafe<Array<{ role: string }>>(`
    select rolname as role from pg_roles
    where not rolcanlogin and rolname !~ '^pg_' and pg_has_role(session_user, oid, 'member')
    order by rolname`)
  return rows.map(({ role }) => role)
}

function readFacts (
  { login, linux, serverStarted, openedAt, connectionCheck, defaults }: Server,
  startup: Settings = []
): ServerFacts {
  const names = new Set(defaults.split(','))
  return {
    login,
    isLinux: linux === 't',
    started: serverStarted,
    openedAt,
    connectionCheck,
    defaults: new Map([...FIXED_SETTINGS.filter(([name]) => names.has(name)), ...startup])
  }
}

const fixedSettings = join(
  FIXED_SETTINGS.map(([name, value]) => sql`(${constant(name)}, ${constant(value)})`)
)

/**
 * One row. It calls the function of pg_settings outside of FROM, where its rows would be collected
 * in a temporary file, which `temp_file_limit` may forbid.
 */
const SERVER_QUERY = `
  select pg_is_in_recovery() as standby, current_setting('transaction_read_only') as readonly,
    current_setting('server_version_num') as version,
    pg_backend_pid()::text as pid, (select extract(epoch from backend_start)::text
      from pg_stat_get_activity(pg_backend_pid())) as started,
    (select rolsuper or rolbypassrls from pg_roles where rolname = session_user) as privileged,
    session_user as login, version() ~ 'linux' as linux,
    extract(epoch from pg_postmaster_start_time())::text as "serverStarted",
    extract(epoch from clock_timestamp())::text as "openedAt",
    case when version() ~* 'visual c|msvc|mingw' then '0' else '1000' end as "connectionCheck",
    (select extversion from pg_catalog.pg_extension
      where extname operator(pg_catalog.=) 'citus') as citus,
    not pg_is_in_recovery() and (current_setting('synchronous_standby_names') = ''
      or current_setting('synchronous_commit') in ('off', 'local')) as asynchronous,
    (select (setting).source = 'command line'
      from (select pg_show_all_settings() as setting offset 0) as settings
      where (setting).name = 'cluster_name') as patroni,
    (select coalesce(string_agg(s.name, ','), '')
      from (values ${render(fixedSettings).text}) as s (name, value)
      where current_setting(s.name) = s.value) as defaults`

interface Server extends Backend {
  readonly standby: string
  readonly readonly: string
  readonly version: string
  readonly privileged: string
  readonly login: string
  readonly linux: string
  readonly serverStarted: string
  readonly openedAt: string
  readonly connectionCheck: string
  readonly defaults: string
  /** Whether COMMIT waits for no standby. */
  readonly asynchronous: string
  /** Whether Patroni started the server: it sets cluster_name in the command. */
  readonly patroni: string
  /** The version of the extension; null: the database does not have it. */
  readonly citus: string | null
}

function matchesSessionAttrs (
  { standby, readonly }: Server,
  sessionAttrs: DatabaseTarget['targetSessionAttrs']
): boolean {
  return {
    any: true,
    primary: standby === 'f',
    standby: standby === 't',
    'prefer-standby': standby === 't',
    'read-write': readonly === 'off',
    'read-only': readonly === 'on'
  }[sessionAttrs]
}
