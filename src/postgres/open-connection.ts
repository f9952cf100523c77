/**
 * Opens a connection: tries the hosts in order, starts a session and reads what the service needs
 * to know about the server.
 */
import type { Socket } from 'node:net'
import postgres from 'postgres'
import { describeAddress, type DatabaseTarget, type HostAddress } from '../../schemas/database.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { connectSocket, limitTime } from './connect.ts'
import { closeConnection, type Connection, type ConnectionState } from './connection.ts'
import { DriverSocket } from './driver-socket.ts'
import type { Settings } from './facts.ts'
import { inspectServer, type InspectOptions } from './inspect-server.ts'
import { PreparedStatements } from './prepared-statements.ts'

export interface OpenOptions extends InspectOptions {
  /** Cancels the opening of the connection. Has no effect on an open connection. */
  readonly signal?: AbortSignal | undefined
}

/** Connections are replaced, to release the memory of backends and to follow moved servers. */
const LIFETIME_MS = 30 * 60 * 1000

/** Connections to a fallback host are replaced sooner, to return to the preferred one. */
const FALLBACK_LIFETIME_MS = 60_000

/**
 * Connections that may be lost while their session starts. An opening that no batch waits for can
 * be lost twice before one does.
 */
const MAX_LOSSES = 3

const STATEMENT_MODE =
  'the pooler closed the connection when a transaction began, as PgBouncer does with ' +
  'pool_mode=statement. Set pool_mode=transaction for this database, and PREPARED_STATEMENTS=off'

/** Options that are missing from the types of postgres.js. */
interface UntypedOptions {
  /** Leaves out the client for logical replication. */
  readonly no_subscribe: boolean
  /** Documented; see connect.ts. */
  readonly socket: () => Promise<unknown>
}

/**
 * Keeps values as text. These are all oids that postgres.js would convert: a Date drops
 * microseconds, a boolean changes 'true' to false, a Number rounds.
 */
const TEXT_TYPE = {
  to: 25,
  from: [16, 17, 20, 21, 23, 26, 114, 700, 701, 1082, 1114, 1184, 3802],
  serialize: String,
  parse: (text: string) => text
}

/**
 * Opens a connection. Tries each host once, in order, until one matches `target_session_attrs`. The
 * next one that accepts must start its session within `target.connectTimeoutMs`. Until one does,
 * the remaining time is divided evenly among the remaining hosts, so an unresponsive one leaves
 * time for the next. When no host is left, throws the last error, or, if one did not match, an
 * error with the reasons of the others. A connection that is lost while its session starts is
 * opened again: an administrator may have terminated all sessions.
 */
export async function openConnection (
  target: DatabaseTarget,
  options: OpenOptions = {}
): Promise<Connection> {
  const { hosts, tls, connectTimeoutMs, targetSessionAttrs } = target
  const mismatched: Connection[] = []
  const reasons: string[] = []
  /** Why hosts after the last session were not reached. */
  const refusals: string[] = []
  let error: unknown
  let losses = 0
  let end = performance.now() + connectTimeoutMs
  try {
    for (let i = 0; i < hosts.length; i++) {
      const host = hosts[i] as HostAddress
      const timeoutMs = Math.max(1, (end - performance.now()) / (hosts.length - i))
      const socket = await connectSocket(host, tls, { timeoutMs, signal: options.signal })
        .catch(({ message }: Error) => {
          refusals.push(message)
        })
      if (socket === undefined) continue
      reasons.push(...refusals.splice(0))
      const started = await startSession(socket, target, { ...options, host, end })
      end = performance.now() + connectTimeoutMs
      if ('error' in started) {
        ;({ error } = started)
        reasons.push((error as Error).message)
        if (started.isLost && ++losses < MAX_LOSSES) i--
      } else if (started.matches) return started.connection
      else mismatched.push(started.connection)
    }
    if (refusals.length > 0) {
      const message = `no connection to the database: ${refusals.join('; ')}`
      error = new Error(message)
      reasons.push(message)
    }
    const [fallback] = targetSessionAttrs === 'prefer-standby' ? mismatched.splice(0, 1) : []
    if (fallback !== undefined) {
      const latest = performance.now() + FALLBACK_LIFETIME_MS
      return { ...fallback, expiresAt: Math.min(fallback.expiresAt, latest) }
    }
    if (mismatched.length > 0) {
      const mismatch = `no host matches target_session_attrs=${targetSessionAttrs}`
      throw new Error([mismatch, ...reasons].join('; '))
    }
  } finally {
    await Promise.all(mismatched.map(closeConnection))
  }
  throw error
}

const CLOSED = 'the server closed the connection'

type Started =
  | { readonly connection: Connection, readonly matches: boolean }
  /** `isLost`: the server or the network ended the session. */
  | { readonly error: unknown, readonly isLost: boolean }

/** Starts a session on a socket, by `end`, a time of performance.now(). */
async function startSession (
  plain: Socket,
  target: DatabaseTarget,
  { host, end, signal, ...options }: OpenOptions & {
    readonly host: HostAddress
    readonly end: number
  }
): Promise<Started> {
  const state: ConnectionState = {
    dead: false,
    retired: false,
    onLost: undefined,
    transaction: undefined
  }
  const socket = new DriverSocket(plain)
  let failure = CLOSED
  // postgres.js does not settle queries that wait when their connection closes.
  const lost = Promise.withResolvers<never>()
  const lose = (): void => lost.reject(new Error(failure))
  state.onLost = lose
  // postgres.js listens for errors only a moment later.
  socket.once('error', ({ message }: Error) => {
    if (failure === CLOSED) failure = message
  })
  // Not the `onclose` option of postgres.js: it was not called for every connection when many
  // backends were terminated at once.
  plain.once('close', () => {
    state.dead = true
    state.onLost?.()
  })
  const client = createClient(target, async () => {
    // postgres.js reconnects when the connection closes during start-up.
    if (state.dead) throw new Error(failure)
    return socket
  }, options.startup)
  // PgBouncer with pool_mode=statement ends a connection on which a transaction is open after a
  // group of statements. A batch would be committed by then, and its outcome unknown.
  const checkPooler = async (): Promise<void> => {
    const before = failure
    failure = STATEMENT_MODE
    await client.unsafe('begin')
    await client.unsafe('rollback')
    failure = before
  }
  const inspected = inspectServer(client, target, { ...options, checkPooler })
  const timeoutMs = Math.max(1, end - performance.now())
  const late =
    new Error(`${describeAddress(host)}: no session within ${target.connectTimeoutMs} ms`)
  const session = Promise.race([inspected, lost.promise])
  return await limitTime(session, { socket, timeoutMs, late, signal })
    .then(({ facts, matches }): Started => {
      socket.keepSettings()
      const connection = {
        client,
        socket,
        prepared: new PreparedStatements(options.prepares),
        ...facts,
        // Spread by a tenth: connections opened together do not all close at the same time.
        expiresAt: performance.now() + LIFETIME_MS * (0.9 + Math.random() / 10),
        state
      }
      return { connection, matches }
    })
    .catch(async (error: Partial<DatabaseError>): Promise<Started> => {
      // A server that refuses a session reports an error before it closes the connection.
      const isLost = error.severity === undefined
        ? socket.readyState === 'closed' && error !== late
        : error.code === SqlState.admin_shutdown
      socket.destroy()
      await client.end({ timeout: 0 })
      return { error, isLost }
    })
    .finally(() => {
      state.onLost = undefined
    })
}

function createClient (
  target: DatabaseTarget,
  socket: () => Promise<DriverSocket>,
  startup: Settings = []
): postgres.Sql {
  const options = {
    host: 'database',
    user: target.user,
    // A function, because postgres.js replaces an empty text by PGPASSWORD. Only the URL counts.
    password: () => target.password ?? '',
    database: target.database,
    ssl: false,
    max: 1,
    idle_timeout: 0,
    max_lifetime: 0,
    connect_timeout: 0,
    fetch_types: false,
    prepare: false,
    no_subscribe: true,
    types: { text: TEXT_TYPE },
    connection: {
      application_name: target.applicationName,
      // Poolers know these two as well.
      DateStyle: 'ISO, YMD',
      TimeZone: 'UTC',
      ...Object.fromEntries(startup),
      ...(target.options === undefined ? {} : { options: target.options })
    },
    onnotice () {},
    socket
  } satisfies postgres.Options<Record<string, postgres.PostgresType>> & UntypedOptions
  return postgres(options)
}
