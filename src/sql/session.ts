/**
 * The session scope as one statement: everything a transaction relies on, set for this transaction
 * alone. A trigger can leave any setting behind on a connection, so nothing is taken as given.
 */
import {
  constant,
  identifier,
  join,
  parameter,
  render,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'
import type { Statement } from './compile.ts'
import { SEARCH_PATH } from './marker.ts'

/**
 * Who runs the batch. `claims` is JSON text: the token's own payload, or `{"role": …}` for the
 * anonymous role.
 */
export interface Session {
  readonly role: string
  readonly claims: string
  readonly requestId: string
  /**
   * Whether the batch is to change anything: then its transaction is given its id at once, and a
   * lost one can be asked after.
   */
  readonly writes?: boolean
  /** Further settings of the transaction. */
  readonly settings?: ReadonlyArray<readonly [name: string, value: string]>
}

/**
 * What `ALTER ROLE … SET` gave to each role, by its name: settings that a transaction under the
 * role may make. PostgreSQL applies them at login alone, and SET ROLE is none.
 */
export type RoleSettings = ReadonlyMap<
  string,
  ReadonlyArray<readonly [name: string, value: string]>
>

/** What the settings of a transaction depend on; read when its connection was opened. */
export interface ConnectionFacts {
  readonly roleSettings: RoleSettings
  /** Schemas that follow DB_SCHEMAS on search_path and that no operation can name. */
  readonly extraSchemas: readonly string[]
}

const NO_FACTS: ConnectionFacts = { roleSettings: new Map(), extraSchemas: [] }

/** What is the same for every transaction of the service. Times in milliseconds. */
export interface SessionDefaults {
  readonly schemas: readonly string[]
  readonly statementTimeoutMs: number
  readonly lockTimeoutMs: number
  /** How long the server waits for the rest of a flight of which only a part arrived. */
  readonly idleTimeoutMs: number
}

/**
 * A service that is killed with SIGKILL must not hold its locks until the statement ends.
 * PostgreSQL on Windows takes only 0.
 */
export const checkConnection: Fragment =
  sql`pg_catalog.set_config('client_connection_check_interval', case
    when pg_catalog.version() operator(pg_catalog.~*) 'visual c|msvc|mingw' then '0' else '1000'
    end, true)`

/**
 * `select <transaction id or null>, <start of the server>, <its clock>, set_config(…, true), …`:
 * its text is the same for every request that writes, and for every other one, so it is prepared on
 * each connection; roles with settings of their own have one by the number of these. Names are
 * written in full, for it may have to put right a search_path.
 */
export function sessionStatement (
  session: Session,
  defaults: SessionDefaults,
  connection: ConnectionFacts = NO_FACTS
): Statement {
  const { roleSettings, extraSchemas } = connection
  const schemas = [...defaults.schemas, ...extraSchemas].map(name => render(identifier(name)).text)
  // pg_temp at the end: where it is not named it comes first, and a temporary table would stand
  // before the real one.
  const path = constant([...schemas, 'pg_temp'].join(', '))
  // Of a name that comes twice the last one counts: settings of the role take the place of the
  // timeouts, and the others that of theirs.
  const settings = [
    setting(sql`'statement_timeout'`, constant(String(defaults.statementTimeoutMs))),
    setting(sql`'lock_timeout'`, constant(String(defaults.lockTimeoutMs))),
    ...[...roleSettings.get(session.role) ?? [], ...session.settings ?? []].map(([name, value]) =>
      setting(parameter(name), parameter(value))
    ),
    setting(sql`'request.jwt.claims'`, parameter(session.claims)),
    setting(sql`'request.id'`, parameter(session.requestId)),
    setting(sql`'search_path'`, path),
    setting(constant(SEARCH_PATH), path),
    setting(sql`'idle_in_transaction_session_timeout'`, constant(String(defaults.idleTimeoutMs))),
    fixed
  ]
  // First none and last the batch's: the login role may hold rights on settings that other roles
  // lack. To be the login role is refused here as well, for a pooler may log in under another name
  // than the URL has; no role has the name ''.
  const none = sql`pg_catalog.set_config('role', 'none', true)`
  const name = sql`${sharedParameter(session.role)}::pg_catalog.text`
  const role =
    sql`pg_catalog.set_config('role', case when session_user operator(pg_catalog.=) ${name} then ''
      else ${name} end, true)`
  // Only where it is needed: an id taken by every select would bring the next VACUUM FREEZE nearer,
  // and a standby has none to give.
  const xid = session.writes === true
    ? sql`pg_catalog.pg_current_xact_id()::pg_catalog.text`
    : sql`null`
  const seconds = (time: Fragment): Fragment => sql`extract(epoch from ${time})::pg_catalog.text`
  const whereabouts = session.writes === true
    ? [
        seconds(sql`pg_catalog.pg_postmaster_start_time()`),
        seconds(sql`pg_catalog.clock_timestamp()`)
      ]
    : []
  return {
    ...render(
      sql`select ${join([xid, ...whereabouts, none, ...settings, checkConnection, role], sql`, `)}`
    ),
    prepare: true
  }
}

function setting (name: Fragment, value: Fragment): Fragment {
  return sql`pg_catalog.set_config(${name}, ${value}, true)`
}

/** Written out, and not sent as parameters each time. */
const fixed = join(
  [
    ['row_security', 'on'],
    ['client_encoding', 'UTF8'],
    ['DateStyle', 'ISO, YMD'],
    ['IntervalStyle', 'postgres'],
    ['TimeZone', 'UTC'],
    ['bytea_output', 'hex'],
    ['extra_float_digits', '1']
  ].map(([name = '', value = '']) => setting(constant(name), constant(value))),
  sql`, `
)
