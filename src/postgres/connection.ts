/**
 * A connection: one database connection with at most one transaction, as a postgres.js client of
 * its own (`max: 1`).
 *
 * postgres.js's pool is not used: when a backend dies its automatic ROLLBACK can write to a null
 * socket and end the process (porsager/postgres #1154, #1066, #1208), the slot stays poisoned,
 * statements of a dead transaction can run inside another request's (#1204, #1216, #1155), its
 * queue has no bound (#824) and a half-open socket waits for ever (#1089). A connection that had
 * connection trouble is never used again: it is dead, and a new one takes its place.
 */
import type { Socket } from 'node:net'
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import type { RoleSettings } from '../sql/session.ts'
import { recognizeEngine } from './engine.ts'
import { watchFatalErrors, type FatalErrorWatcher } from './fatal-error-watcher.ts'
import { readRoleSettings } from './role-settings.ts'
import { readExtraSchemas, type UnsafeSchema } from './extra-schemas.ts'
import { connectSocket } from './connect.ts'

export interface Connection {
  readonly client: postgres.Sql
  /** For corking a flight into one write, and for ending a connection that does not answer. */
  readonly socket: Socket
  /** Texts of the statements that this connection holds prepared, or is just asked to prepare. */
  readonly prepared: Set<string>
  /** Whether statements may be prepared. */
  readonly prepares: boolean
  /**
   * The server's process behind this connection; undefined behind a pooler, where it may be another
   * one for each transaction.
   */
  readonly backend: Backend | undefined
  /** What the server said at last. */
  readonly fatalErrors: FatalErrorWatcher
  /** Whether the login role is superuser or BYPASSRLS. */
  readonly privileged: boolean
  /**
   * Settings that roles were given, as they were when the connection was opened; PostgreSQL too
   * looks at them then.
   */
  readonly roleSettings: RoleSettings
  /** Schemas that follow DB_SCHEMAS on search_path, as they were when the connection was opened. */
  readonly extraSchemas: readonly string[]
  /** Schemas that should follow as well, but in which a token's role can create objects. */
  readonly unsafeSchemas: readonly UnsafeSchema[]
  /** When it is to be replaced, as a time of performance.now(). */
  readonly expires: number
  readonly state: {
    /** The connection is gone or being ended: nothing may be sent any more. */
    dead: boolean,
    /** To be replaced when its transaction is over. */
    retired: boolean,
    /** Called once when the connection is gone; set by the flight that is on the connection. */
    onLost: (() => void) | undefined
  }
}

/**
 * A process of the server: its id and, for ids are used again, when it was started, in seconds.
 * Both are numbers as text.
 */
export interface Backend {
  readonly pid: string
  readonly started: string
}

/**
 * A connection is replaced after about half an hour, so that memory of backends and moved servers
 * are not kept for ever.
 */
const LIFETIME_MS = 30 * 60 * 1000

/**
 * A connection to a server that is not the preferred one, for that is away, is replaced sooner: it
 * may be back.
 */
const SECOND_BEST_MS = 60_000

/** The signal of those who never change their mind. */
const NEVER = new AbortController().signal

/**
 * All oids that postgres.js would translate: a Date would cut microseconds, a boolean would turn
 * 'true' into false, a Number would round.
 */
const asText = {
  to: 25,
  from: [16, 17, 20, 21, 23, 26, 114, 700, 701, 1082, 1114, 1184, 3802],
  serialize: (text: string) => text,
  parse: (text: string) => text
}

export interface OpenOptions {
  /** Age at which the connection is to be replaced. */
  readonly lifetimeMs?: number | undefined
  /** Whether to read the settings of roles, which batches need. */
  readonly roleSettings?: boolean | undefined
  /** Schemas of which those that are safe are read with the settings of roles. */
  readonly extraSchemas?: readonly string[] | undefined
  /**
   * Whether statements may be prepared: not behind a pooler that gives each transaction another
   * connection.
   */
  readonly prepares?: boolean | undefined
  /**
   * Aborted when the connection is not wanted any more: opening it fails at once then. A connection
   * that is open is not concerned.
   */
  readonly signal?: AbortSignal | undefined
}

/**
 * Opens a connection within `target.connectTimeoutMs` a try. Several hosts are tried in their
 * order, each once, until one is what `target_session_attrs` asks for. Throws the last reason when
 * there is none.
 */
export async function openConnection (
  target: DatabaseTarget,
  options: OpenOptions = {}
): Promise<Connection> {
  const hosts: Hosts = { next: 0 }
  const unfit: Connection[] = []
  let reason: unknown
  try {
    while (hosts.next < target.hosts.length) {
      try {
        const { connection, fits } = await connectTo(target, hosts, options)
        if (fits) return connection
        unfit.push(connection)
        reason = new Error(`no server is ${target.targetSessionAttrs}`)
      } catch (error) {
        reason = error
      }
    }
    const [connection] = target.targetSessionAttrs === 'prefer-standby' ? unfit.splice(0, 1) : []
    if (connection !== undefined) {
      return {
        ...connection,
        expires: Math.min(connection.expires, performance.now() + SECOND_BEST_MS)
      }
    }
  } finally {
    await Promise.all(unfit.map(closeConnection))
  }
  throw reason
}

/** Whether the connection may carry another transaction. */
export function isUsable ({ state, expires }: Connection): boolean {
  return !state.dead && !state.retired && performance.now() < expires
}

/** Ends the connection: politely, but after a second at once. */
export async function closeConnection (connection: Connection): Promise<void> {
  const timeout = connection.state.dead ? 0 : 1
  connection.state.dead = true
  await connection.client.end({ timeout })
  connection.socket.destroy()
}

/**
 * The rows of one query outside of any transaction. Rejects when the connection is gone, whatever
 * postgres.js makes of it.
 */
export function query<Row extends Record<string, string | null>> (
  connection: Connection,
  text: string
): Promise<readonly Row[]> {
  return untilLost(connection, connection.client.unsafe<Row[]>(text))
}

/** The same, with values as the bytes that came. */
export function queryRaw (
  connection: Connection,
  text: string
): Promise<ReadonlyArray<ReadonlyArray<Buffer | null>>> {
  return untilLost(connection, connection.client.unsafe(text).raw())
}

function untilLost<Answer> (connection: Connection, query: PromiseLike<Answer>): Promise<Answer> {
  return new Promise<Answer>((resolve, reject) => {
    connection.state.onLost = () => reject(new Error('the connection was lost'))
    if (connection.state.dead) connection.state.onLost()
    query.then(resolve, reject)
  }).finally(() => {
    connection.state.onLost = undefined
  })
}

/** `work` on a connection, which is cut when that takes longer than `ms` milliseconds. */
export function withTimeout<Answer> (
  ms: number,
  connection: Connection,
  work: (connection: Connection) => Promise<Answer>
): Promise<Answer> {
  const timer = setTimeout(destroyConnection, ms, connection)
  return work(connection).finally(() => clearTimeout(timer))
}

/** Cuts the connection at once: what waits for an answer on it fails. */
export function destroyConnection (connection: Connection): void {
  connection.state.dead = true
  connection.socket.destroy()
  // Said here as well: postgres.js may have forgotten a connection that ended while it was asked
  // for something.
  connection.state.onLost?.()
}

/** Number of the host that is to be tried next; all were tried when it is their number. */
interface Hosts {
  next: number
}

async function connectTo (
  target: DatabaseTarget,
  hosts: Hosts,
  options: OpenOptions
): Promise<{ connection: Connection, fits: boolean }> {
  const { lifetimeMs = LIFETIME_MS, prepares = true, signal = NEVER } = options
  const start = hosts.next
  hosts.next = target.hosts.length
  const end = performance.now() + target.connectTimeoutMs
  const state: Connection['state'] = { dead: false, retired: false, onLost: undefined }
  let socket: Socket | undefined
  let fatalErrors: FatalErrorWatcher | undefined
  let timer: NodeJS.Timeout | undefined
  let reason = 'the server closed the connection'
  const giveUp = (why: string): void => {
    reason = why
    socket?.destroy()
  }
  const aborted = (): void => giveUp('not wanted any more')
  const client = postgres({
    host: 'database',
    user: target.user,
    // A function, for postgres.js takes PGPASSWORD in the place of an empty text; the URL alone
    // counts.
    password: () => target.password ?? '',
    database: target.database,
    ssl: false,
    max: 1,
    // One flight is up to MAX_OPS statements; beyond this number postgres.js waits for answers
    // between them.
    max_pipeline: 1_000_000,
    idle_timeout: 0,
    max_lifetime: 0,
    connect_timeout: 0,
    fetch_types: false,
    // Otherwise the library prepares its own COMMIT and ROLLBACK.
    prepare: prepares,
    no_subscribe: true,
    types: { asText },
    connection: {
      application_name: target.applicationName,
      ...(target.options === undefined ? {} : { options: target.options })
    },
    onnotice () {},
    async socket () {
      // postgres.js connects again by itself when a connection ends during start-up; a connection
      // has one connection.
      if (socket !== undefined) throw new Error(reason)
      const opened = await connectSocket(target, start, target.connectTimeoutMs, signal)
      socket = opened.socket
      fatalErrors = watchFatalErrors(socket)
      // The socket's own word: postgres.js's onclose did not come for every connection (seen under
      // a storm of terminations).
      socket.once('close', () => {
        state.dead = true
        state.onLost?.()
      })
      hosts.next = opened.next
      timer = setTimeout(
        giveUp,
        Math.max(1, end - performance.now()),
        `${opened.address}: no session within ${target.connectTimeoutMs} ms`
      )
      return socket
    }
  } as postgres.Options<Record<string, postgres.PostgresType>>)
  signal.addEventListener('abort', aborted)
  // postgres.js says nothing of queries that were waiting when their connection ended.
  const lost = new Promise<never>((_resolve, reject) => {
    state.onLost = () => reject(new Error(reason))
  })
  const inspected = inspect(client, target, options)
  const { fits, ...found } = await Promise.race([inspected, lost]).catch(async (error: unknown) => {
    socket?.destroy()
    await client.end({ timeout: 0 })
    throw error
  }).finally(() => {
    state.onLost = undefined
    clearTimeout(timer)
    signal.removeEventListener('abort', aborted)
  })
  // Spread by a tenth, so that connections opened together do not end together.
  const expires = performance.now() + lifetimeMs * (0.9 + Math.random() / 10)
  const open = {
    client,
    socket: socket as unknown as Socket,
    fatalErrors: fatalErrors as unknown as FatalErrorWatcher
  }
  return { connection: { ...open, prepared: new Set(), prepares, ...found, expires, state }, fits }
}

interface Findings
  extends
  Pick<Connection, 'backend' | 'privileged' | 'roleSettings' | 'extraSchemas' | 'unsafeSchemas'> {
  /** Whether the server is what the URL asks for. */
  readonly fits: boolean
}

/**
 * Reads what a connection tells of its server. Throws when policies are not kept on such a server.
 */
async function inspect (
  client: postgres.Sql,
  { targetSessionAttrs }: DatabaseTarget,
  options: OpenOptions
): Promise<Findings> {
  const { roleSettings: forBatches = true, extraSchemas: names = [] } = options
  const engine = await recognizeEngine(client)
  if (engine !== undefined) throw new Error(engine.refusal)
  const rows = await client.unsafe<Server[]>(`
    select pg_is_in_recovery() as standby, current_setting('transaction_read_only') as readonly,
      current_setting('server_version_num') as version,
      pg_backend_pid()::text as pid, (select extract(epoch from backend_start)::text
        from pg_stat_get_activity(pg_backend_pid())) as started,
      (select rolsuper or rolbypassrls from pg_roles where rolname = session_user) as privileged`)
  const server = rows[0] as Server
  const fits = isFit(server, targetSessionAttrs)
  const wanted = fits && forBatches
  const version = Number(server.version)
  const roleSettings: RoleSettings = wanted ? await readRoleSettings(client, version) : new Map()
  const schemas = await readExtraSchemas(client, wanted ? names : [])
  // A pooler names a process of its own in the start-up.
  const { pid, started } = server
  const backend = String(rows.state.pid) === pid ? { pid, started } : undefined
  return { fits, backend, privileged: server.privileged === 't', roleSettings, ...schemas }
}

interface Server extends Backend {
  readonly standby: string
  readonly readonly: string
  readonly version: string
  readonly privileged: string
}

function isFit (
  { standby, readonly }: Server,
  wanted: DatabaseTarget['targetSessionAttrs']
): boolean {
  switch (wanted) {
    case 'any':
      return true
    case 'primary':
      return standby === 'f'
    case 'standby':
    case 'prefer-standby':
      return standby === 't'
    case 'read-write':
      return readonly === 'off'
    case 'read-only':
      return readonly === 'on'
  }
}
