/**
 * A lane: one database connection with at most one transaction, as a postgres.js client of its own
 * (`max: 1`).
 *
 * postgres.js's pool is not used: when a backend dies its automatic ROLLBACK can write to a null
 * socket and end the process (porsager/postgres #1154, #1066, #1208), the slot stays poisoned,
 * statements of a dead transaction can run inside another request's (#1204, #1216, #1155), its
 * queue has no bound (#824) and a half-open socket waits for ever (#1089). A lane that had
 * connection trouble is never used again: it is dead, and a new one takes its place.
 */
import type { Socket } from 'node:net'
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import type { RoleSettings } from '../sql/session.ts'
import { recognizeEngine } from './engine.ts'
import { hearFarewell, type Farewell } from './fatal-error-watcher.ts'
import { readRoleSettings } from './role-settings.ts'
import { readExtraSchemas, type UnsafeSchema } from './extra-schemas.ts'
import { openSocket } from './connect.ts'

export interface Lane {
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
  readonly farewell: Farewell
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
    /** Called once when the connection is gone; set by the flight that is on the lane. */
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
 * A lane is replaced after about half an hour, so that memory of backends and moved servers are not
 * kept for ever.
 */
const LIFETIME_MS = 30 * 60 * 1000

/**
 * A lane to a server that is not the preferred one, for that is away, is replaced sooner: it may be
 * back.
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
  /** Age at which the lane is to be replaced. */
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
   * Aborted when the lane is not wanted any more: opening it fails at once then. A lane that is
   * open is not concerned.
   */
  readonly signal?: AbortSignal | undefined
}

/**
 * Opens a lane within `target.connectTimeoutMs` a try. Several hosts are tried in their order, each
 * once, until one is what `target_session_attrs` asks for. Throws the last reason when there is
 * none.
 */
export async function openLane (target: DatabaseTarget, options: OpenOptions = {}): Promise<Lane> {
  const hosts: Hosts = { next: 0 }
  const unfit: Lane[] = []
  let reason: unknown
  try {
    while (hosts.next < target.hosts.length) {
      try {
        const { lane, fits } = await connectLane(target, hosts, options)
        if (fits) return lane
        unfit.push(lane)
        reason = new Error(`no server is ${target.targetSessionAttrs}`)
      } catch (error) {
        reason = error
      }
    }
    const [lane] = target.targetSessionAttrs === 'prefer-standby' ? unfit.splice(0, 1) : []
    if (lane !== undefined) {
      return { ...lane, expires: Math.min(lane.expires, performance.now() + SECOND_BEST_MS) }
    }
  } finally {
    await Promise.all(unfit.map(closeLane))
  }
  throw reason
}

/** Whether the lane may carry another transaction. */
export function isUsable ({ state, expires }: Lane): boolean {
  return !state.dead && !state.retired && performance.now() < expires
}

/** Ends the connection: politely, but after a second at once. */
export async function closeLane (lane: Lane): Promise<void> {
  const timeout = lane.state.dead ? 0 : 1
  lane.state.dead = true
  await lane.client.end({ timeout })
  lane.socket.destroy()
}

/**
 * The rows of one query outside of any transaction. Rejects when the connection is gone, whatever
 * postgres.js makes of it.
 */
export function askLane<Row extends Record<string, string | null>> (
  lane: Lane,
  text: string
): Promise<readonly Row[]> {
  return untilLost(lane, lane.client.unsafe<Row[]>(text))
}

/** The same, with values as the bytes that came. */
export function askLaneRaw (
  lane: Lane,
  text: string
): Promise<ReadonlyArray<ReadonlyArray<Buffer | null>>> {
  return untilLost(lane, lane.client.unsafe(text).raw())
}

function untilLost<Answer> (lane: Lane, query: PromiseLike<Answer>): Promise<Answer> {
  return new Promise<Answer>((resolve, reject) => {
    lane.state.onLost = () => reject(new Error('the connection was lost'))
    if (lane.state.dead) lane.state.onLost()
    query.then(resolve, reject)
  }).finally(() => {
    lane.state.onLost = undefined
  })
}

/** `work` on a lane, which is cut when that takes longer than `ms` milliseconds. */
export function within<Answer> (
  ms: number,
  lane: Lane,
  work: (lane: Lane) => Promise<Answer>
): Promise<Answer> {
  const timer = setTimeout(breakLane, ms, lane)
  return work(lane).finally(() => clearTimeout(timer))
}

/** Cuts the connection at once: what waits for an answer on it fails. */
export function breakLane (lane: Lane): void {
  lane.state.dead = true
  lane.socket.destroy()
  // Said here as well: postgres.js may have forgotten a connection that ended while it was asked
  // for something.
  lane.state.onLost?.()
}

/** Number of the host that is to be tried next; all were tried when it is their number. */
interface Hosts {
  next: number
}

async function connectLane (
  target: DatabaseTarget,
  hosts: Hosts,
  options: OpenOptions
): Promise<{ lane: Lane, fits: boolean }> {
  const { lifetimeMs = LIFETIME_MS, prepares = true, signal = NEVER } = options
  const start = hosts.next
  hosts.next = target.hosts.length
  const end = performance.now() + target.connectTimeoutMs
  const state: Lane['state'] = { dead: false, retired: false, onLost: undefined }
  let socket: Socket | undefined
  let farewell: Farewell | undefined
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
      // postgres.js connects again by itself when a connection ends during start-up; a lane has one
      // connection.
      if (socket !== undefined) throw new Error(reason)
      const opened = await openSocket(target, start, target.connectTimeoutMs, signal)
      socket = opened.socket
      farewell = hearFarewell(socket)
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
  // Spread by a tenth, so that lanes opened together do not end together.
  const expires = performance.now() + lifetimeMs * (0.9 + Math.random() / 10)
  const open = {
    client,
    socket: socket as unknown as Socket,
    farewell: farewell as unknown as Farewell
  }
  return { lane: { ...open, prepared: new Set(), prepares, ...found, expires, state }, fits }
}

interface Findings
  extends Pick<Lane, 'backend' | 'privileged' | 'roleSettings' | 'extraSchemas' | 'unsafeSchemas'> {
  /** Whether the server is what the URL asks for. */
  readonly fits: boolean
}

/** Reads what a lane tells of its server. Throws when policies are not kept on such a server. */
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
