/**
 * Builds the statements that set the role and all settings of a transaction, for this transaction
 * only: before its first operation, and again after each one that can run code of the database.
 */
import {
  constant,
  identifier,
  join,
  parameter,
  render,
  sharedParameter,
  sql,
  type Fragment,
  type Slot
} from '../../fragment/fragment.ts'
import {
  FIXED_SETTINGS,
  type ConnectionFacts,
  type ServerFacts,
  type Settings
} from '../../postgres/facts.ts'
import { raise } from '../statement/raised-error.ts'
import { SEARCH_PATH } from '../statement/settings.ts'
import type { Statement } from '../statement/statement.ts'

/** The identity and the settings of a batch. */
export interface Session {
  readonly role: string
  /** JSON text: the payload of the token, or `{"role": …}` for the anonymous role. */
  readonly claims: string
  readonly requestId: string
  /**
   * Whether the batch can write. Then its transaction gets an id, by which its status is looked up.
   */
  readonly writes?: boolean
  /** Whether operations leave results in settings, which later ones read. */
  readonly keepsResults?: boolean
  /** Additional settings of the transaction. */
  readonly settings?: ReadonlyArray<readonly [name: string, value: string]>
}

/** A session whose values may be slots. */
type AnySession =
  & Omit<Session, 'role' | 'claims' | 'requestId'>
  & Readonly<Record<'role' | 'claims' | 'requestId', string | Slot>>

/** Settings that are the same for every transaction. Times are in milliseconds. */
export interface SessionDefaults {
  readonly schemas: readonly string[]
  readonly statementTimeoutMs: number
  readonly lockTimeoutMs: number
  /** How long the server waits for the rest of a pipeline that has arrived in part. */
  readonly idleTimeoutMs: number
}

/**
 * Makes PostgreSQL cancel the statement of a client that has disconnected. Without it, a service
 * killed with SIGKILL would hold its locks until the statement ends. PostgreSQL on Windows accepts
 * only 0.
 */
export const checkConnection: Fragment =
  sql`pg_catalog.set_config('client_connection_check_interval', case
    when pg_catalog.version() operator(pg_catalog.~*) 'visual c|msvc|mingw' then '0' else '1000'
    end, true)`

const ROLE = sql`'role'`
const REQUEST_ID = sql`'request.id'`

/** Sets the role for this transaction. */
export function setRoleStatement (role: Fragment): Statement {
  return { ...render(sql`set local role ${role}`), prepare: true }
}

/**
 * Builds `select <transaction id or null>, …`, with one `set_config(…, true)` per setting;
 * behind a pooler also the start of the server and its clock. All batches that write share one
 * text, and all others share another, so the statement can be prepared. Roles with their own
 * settings have one text per number of settings. All names include their schema, because the
 * search_path may have been changed.
 *
 * The role is set first, if possible. With settings of its own, it is reset first and set last: the
 * login role may have privileges on settings that other roles lack.
 */
export function sessionStatement (
  session: AnySession,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): Statement {
  const { server, engine } = connection
  // The settings of workers have been set before, search_path in another form.
  const defaultsOf = engine === 'citus' ? undefined : server?.defaults
  const constants = (settings: Settings): readonly Fragment[] =>
    setConstants(settings.filter(([name, value]) => defaultsOf?.get(name) !== value))
  return setSession([
    ...transactionColumns(session.writes === true, connection),
    ...withRole(session, connection, [
      ...constants(timeouts(defaults)),
      ...setOwn(session, connection),
      ...constants([...ownSettings(defaults, connection), ...FIXED_SETTINGS]),
      ...server === undefined ? [checkConnection] : constants([connectionCheck(server)])
    ])
  ])
}

/**
 * Builds the statement that sets again what decides about rights and values, after an operation
 * whose code may have changed any of it. Raises `session` if the rows of the operation have another
 * encoding, and `reset` if a result that later operations may read is lost.
 */
export function sessionAgainStatement (
  session: AnySession,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): Statement {
  return setSession([
    sameEncoding,
    ...session.keepsResults === true ? [keptResults] : [],
    ...withRole(session, connection, [
      ...setOwn(session, connection),
      ...setConstants([...pathSettings(defaults, connection), ...FIXED_SETTINGS])
    ])
  ])
}

function setSession (columns: readonly Fragment[]): Statement {
  return { ...render(sql`select ${join(columns)}`), prepare: true }
}

/** Adds what sets the role to what sets the rest. */
function withRole (
  { role }: AnySession,
  { roleSettings, server }: ConnectionFacts,
  settings: readonly Fragment[]
): readonly Fragment[] {
  return server === undefined || roleSettings.has(role as string) || role === server.login
    ? [setting(ROLE, sql`'none'`), ...settings, setting(ROLE, checkedRole(role))]
    : [setting(ROLE, parameter(role)), ...settings]
}

/**
 * The rows of a statement are rendered before its AFTER triggers, but encoded after them. The
 * number is that of the encoding in FORMAT_NAMES.
 */
const sameEncoding = sql`case when pg_catalog.current_setting('client_encoding')
  operator(pg_catalog.<>) 'UTF8' then ${raise('session', 1)} end`

/**
 * Sets the encoding before a session whose parameters are not ASCII, because they are read in it.
 */
export const encodingStatement: Statement = {
  ...render(sql`select ${sameEncoding}, ${setting(sql`'client_encoding'`, sql`'UTF8'`)}`),
  prepare: true
}

/**
 * Raises `reset` if the request id is gone: RESET ALL removes all settings that the startup message
 * does not have.
 */
const keptResults = sql`case when coalesce(pg_catalog.current_setting(${REQUEST_ID}, true), '')
  operator(pg_catalog.=) '' then ${raise('reset')} end`

/**
 * The columns that identify the transaction, for batches that write. An id for every select would
 * bring the next VACUUM FREEZE nearer, and a standby cannot assign one.
 */
function transactionColumns (
  writes: boolean,
  { server }: ConnectionFacts
): readonly Fragment[] {
  if (!writes) return [sql`null`]
  const id = sql`pg_catalog.pg_current_xact_id()::pg_catalog.text`
  if (server !== undefined) return [id]
  const seconds = (time: Fragment): Fragment => sql`extract(epoch from ${time})::pg_catalog.text`
  return [
    id,
    seconds(sql`pg_catalog.pg_postmaster_start_time()`),
    seconds(sql`pg_catalog.clock_timestamp()`)
  ]
}

/**
 * Sets the settings of the role and of the batch. Of two values for one setting the last one
 * counts: settings of the role override the timeouts, and the settings after them override those of
 * the role.
 */
function setOwn (session: AnySession, { roleSettings }: ConnectionFacts): readonly Fragment[] {
  return [
    ...[...roleSettings.get(session.role as string) ?? [], ...session.settings ?? []]
      .map(([name, value]) => setting(parameter(name), parameter(value))),
    setting(sql`'request.jwt.claims'`, parameter(session.claims)),
    setting(REQUEST_ID, parameter(session.requestId))
  ]
}

function setConstants (settings: Settings): readonly Fragment[] {
  return settings.map(([name, value]) => setting(constant(name), constant(value)))
}

/**
 * Returns the settings of every batch that a connection can have from its start, given what is
 * known of another connection to the server. None of them starts a timer while no statement runs.
 */
export function startupSettings (
  defaults: SessionDefaults,
  connection: ConnectionFacts
): Settings {
  const { server } = connection
  if (server === undefined) return []
  return [
    ...timeouts(defaults),
    ...ownSettings(defaults, connection),
    connectionCheck(server),
    ...PROBES
  ]
}

/**
 * When the server probes a silent connection, in seconds. Without probes, tcp_user_timeout would
 * not notice that the service is gone while it owes no acknowledgement: the first answers of a
 * batch have been acknowledged, and later ones wait for Sync.
 */
const PROBES: Settings = [['tcp_keepalives_idle', '2'], ['tcp_keepalives_interval', '1']]

/** Settings that roles can override. */
function timeouts ({ statementTimeoutMs, lockTimeoutMs }: SessionDefaults): Settings {
  return [
    ['statement_timeout', String(statementTimeoutMs)],
    ['lock_timeout', String(lockTimeoutMs)]
  ]
}

function connectionCheck (server: ServerFacts): Settings[number] {
  return ['client_connection_check_interval', server.connectionCheck]
}

/** Settings that roles cannot override. */
function ownSettings (defaults: SessionDefaults, connection: ConnectionFacts): Settings {
  const timeout = timeoutName(connection.server)
  return [...pathSettings(defaults, connection), [timeout, String(defaults.idleTimeoutMs)]]
}

function pathSettings (defaults: SessionDefaults, connection: ConnectionFacts): Settings {
  const path = render(searchPath(defaults, connection)).text
  return [['search_path', path], [SEARCH_PATH, path]]
}

/**
 * The search_path. pg_temp is last. If it is not named it comes first, and a temporary table would
 * hide the real one.
 */
export function searchPath (
  { schemas }: Pick<SessionDefaults, 'schemas'>,
  { extraSchemas }: Pick<ConnectionFacts, 'extraSchemas'>
): Fragment {
  return join([...[...schemas, ...extraSchemas].map(identifier), sql`pg_temp`])
}

/**
 * Returns the name of the timeout for the rest of a batch that has arrived in part. If the service
 * or the network is gone, neither results nor probes are acknowledged, which tcp_user_timeout
 * detects. The idle timeout is second choice: before Sync, the server does not count as idle.
 */
function timeoutName (server: ServerFacts | undefined): string {
  return server?.isLinux === true ? 'tcp_user_timeout' : 'idle_in_transaction_session_timeout'
}

/**
 * The role, or for the login role '', which is the name of no role. The server compares them,
 * because a pooler may log in with another name than the URL has.
 */
function checkedRole (role: string | Slot): Fragment {
  const name = sql`${sharedParameter(role)}::pg_catalog.text`
  return sql`case when session_user operator(pg_catalog.=) ${name} then '' else ${name} end`
}

function setting (name: Fragment, value: Fragment): Fragment {
  return sql`pg_catalog.set_config(${name}, ${value}, true)`
}
