/**
 * Opens a connection: tries the hosts in order, starts a session and reads what the service needs
 * to know about the server.
 */
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { connectSocket } from './connect.ts'
import { closeConnection, type Connection, type ConnectionState } from './connection.ts'
import { DriverSocket } from './driver-socket.ts'
import type { Settings } from './facts.ts'
import { inspectServer, type InspectOptions, type Inspected } from './inspect-server.ts'
import { noPreparedStatements, type RecentTexts } from './prepared-statements.ts'

export interface OpenOptions extends InspectOptions {
  /** Shared by the connections of a pool; see toRequests. */
  readonly recentTexts?: RecentTexts | undefined
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
 * Opens a connection. Tries each host once, in order, until one matches `target_session_attrs`;
 * each session must start within `target.connectTimeoutMs`. When no host does, throws the last
 * error, or, if one did not match, an error with the reasons of the others. A connection that is
 * lost while its session starts is opened again: an administrator may have terminated all sessions.
 */
export async function openConnection (
  target: DatabaseTarget,
  options: OpenOptions = {}
): Promise<Connection> {
  const { targetSessionAttrs } = target
  const mismatched: Connection[] = []
  const reasons: string[] = []
  let error: unknown
  let losses = 0
  try {
    for (let nextHost = 0; nextHost < target.hosts.length;) {
      const opening = new Opening(target, options, nextHost)
      try {
        const { facts, matches } = await opening.run()
        const connection = opening.createConnection(facts)
        if (matches) return connection
        mismatched.push(connection)
        reasons.push(...opening.refusals)
      } catch (reason) {
        error = reason
        reasons.push(...opening.refusals, (reason as Error).message)
      }
      const repeats = opening.isLost && ++losses < MAX_LOSSES
      nextHost = repeats ? opening.nextHost - 1 : opening.nextHost
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

/** One attempt to open a connection, on the first host that accepts a socket. */
class Opening {
  /** Index of the host to try after this attempt. */
  nextHost: number
  /** Whether the server or the network ended the session. */
  isLost = false
  /** Why hosts were skipped. */
  refusals: readonly string[] = []
  readonly #target: DatabaseTarget
  readonly #options: OpenOptions
  readonly #firstHost: number
  readonly #end: number
  readonly #client: postgres.Sql
  readonly #state: ConnectionState = {
    dead: false,
    retired: false,
    onLost: undefined,
    transaction: undefined
  }

  #socket: DriverSocket | undefined
  #timer: NodeJS.Timeout | undefined
  #failure = 'the server closed the connection'
  #gaveUp = false

  constructor (target: DatabaseTarget, options: OpenOptions, firstHost: number) {
    this.#target = target
    this.#options = options
    this.#firstHost = firstHost
    this.#end = performance.now() + target.connectTimeoutMs
    this.#client = createClient(target, () => this.#connect(), options.startup)
    this.nextHost = target.hosts.length
  }

  async run (): Promise<Inspected> {
    const { signal } = this.#options
    const cancel = (): void => this.#giveUp('the connection is no longer needed')
    signal?.addEventListener('abort', cancel)
    // postgres.js does not settle queries that wait when their connection closes.
    const lost = Promise.withResolvers<never>()
    const lose = (): void => lost.reject(new Error(this.#failure))
    this.#state.onLost = lose
    const inspected = inspectServer(this.#client, this.#target, {
      ...this.#options,
      checkPooler: client => this.#checkPooler(client)
    })
    return await Promise.race([inspected, lost.promise]).catch(async error => {
      this.isLost = this.#isLoss(error)
      this.#socket?.destroy()
      await this.#client.end({ timeout: 0 })
      throw error
    }).finally(() => {
      this.#state.onLost = undefined
      clearTimeout(this.#timer)
      signal?.removeEventListener('abort', cancel)
    })
  }

  /** A server that refuses a session reports an error before it closes the connection. */
  #isLoss ({ severity, code }: Partial<DatabaseError>): boolean {
    if (severity !== undefined) return code === SqlState.admin_shutdown
    return this.#socket?.readyState === 'closed' && !this.#gaveUp
  }

  /**
   * PgBouncer with pool_mode=statement ends a connection on which a transaction is open after a
   * group of statements. A batch would be committed by then, and its outcome unknown.
   */
  async #checkPooler (client: postgres.Sql): Promise<void> {
    const failure = this.#failure
    this.#failure = STATEMENT_MODE
    await client.unsafe('begin')
    await client.unsafe('rollback')
    this.#failure = failure
  }

  /** The `socket` option of postgres.js. */
  async #connect (): Promise<DriverSocket> {
    // postgres.js reconnects when the connection closes during start-up.
    if (this.#socket !== undefined) throw new Error(this.#failure)
    const { connectTimeoutMs } = this.#target
    const { socket, address, nextHost, refusals } = await connectSocket(this.#target, {
      firstHost: this.#firstHost,
      timeoutMs: connectTimeoutMs,
      signal: this.#options.signal
    })
    this.nextHost = nextHost
    this.refusals = refusals
    // Not the `onclose` option of postgres.js: it was not called for every connection when many
    // backends were terminated at once.
    socket.once('close', () => {
      this.#state.dead = true
      this.#state.onLost?.()
    })
    this.#socket = new DriverSocket(socket)
    const remaining = Math.max(1, this.#end - performance.now())
    const failure = `${address}: no session within ${connectTimeoutMs} ms`
    this.#timer = setTimeout(() => this.#giveUp(failure), remaining)
    return this.#socket
  }

  #giveUp (failure: string): void {
    this.#failure = failure
    this.#gaveUp = true
    this.#socket?.destroy()
  }

  createConnection (facts: Inspected['facts']): Connection {
    const { prepares = true, recentTexts } = this.#options
    const socket = this.#socket as DriverSocket
    socket.keepSettings()
    return {
      client: this.#client,
      socket,
      prepared: noPreparedStatements(recentTexts),
      prepares,
      ...facts,
      // Spread by a tenth: connections opened together do not all close at the same time.
      expiresAt: performance.now() + LIFETIME_MS * (0.9 + Math.random() / 10),
      state: this.#state
    }
  }
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
