/**
 * A lane: one database connection with at most one transaction, as a postgres.js client of its own (`max: 1`).
 *
 * postgres.js's pool is not used: when a backend dies its automatic ROLLBACK can write to a null socket and end the process
 * (porsager/postgres #1154, #1066, #1208), the slot stays poisoned, statements of a dead transaction can run inside another
 * request's (#1204, #1216, #1155), its queue has no bound (#824) and a half-open socket waits for ever (#1089).
 * A lane that had connection trouble is never used again: it is dead, and a new one takes its place.
 */
import type { Socket } from 'node:net'
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { openSocket } from './socket.ts'

export interface Lane {
  readonly client: postgres.Sql
  /** For corking a flight into one write, and for ending a connection that does not answer. */
  readonly socket: Socket
  /** Rejects when the connection is gone; never resolves. */
  readonly lost: Promise<never>
  /** Texts of the statements that this connection holds prepared. */
  readonly prepared: Set<string>
  readonly state: {
    /** The connection is gone or being ended: nothing may be sent any more. */
    dead: boolean
    /** To be replaced when its transaction is over. */
    retired: boolean
  }
}

/** A lane is replaced after about half an hour, so that memory of backends and moved servers are not kept for ever. */
const LIFETIME_MS = 30 * 60 * 1000

/** All oids that postgres.js would translate: a Date would cut microseconds, a boolean would turn 'true' into false, a Number would round. */
const asText = {
  to: 25,
  from: [16, 17, 20, 21, 23, 26, 114, 700, 701, 1082, 1114, 1184, 3802],
  serialize: (text: string) => text,
  parse: (text: string) => text
}

/**
 * Opens a lane within `target.connectTimeoutMs`. Several hosts are tried in their order until one is what
 * `target_session_attrs` asks for. Throws the last reason when there is none.
 */
export async function openLane (target: DatabaseTarget): Promise<Lane> {
  const attempts = target.hosts.map((_, start) => start)
  let reason: unknown
  for (const start of attempts) {
    try {
      const { lane, fits } = await connectLane(target, start)
      if (fits || (target.targetSessionAttrs === 'prefer-standby' && start === attempts.length - 1)) return lane
      await closeLane(lane)
      reason = new Error(`no server is ${target.targetSessionAttrs}`)
    } catch (error) {
      reason = error
    }
  }
  throw reason
}

/** Ends the connection: politely when it is idle, at once when it is not known to answer. */
export async function closeLane (lane: Lane): Promise<void> {
  if (lane.state.dead) return
  lane.state.dead = true
  await lane.client.end({ timeout: 1 })
  lane.socket.destroy()
}

/** Cuts the connection at once. What waits on `lost` hears of it. */
export function breakLane (lane: Lane): void {
  lane.state.dead = true
  lane.socket.destroy()
}

async function connectLane (target: DatabaseTarget, start: number): Promise<{ lane: Lane, fits: boolean }> {
  const { promise: lost, reject } = Promise.withResolvers<never>()
  lost.catch(() => {})
  const state = { dead: false, retired: false }
  let socket: Socket | undefined
  const client = postgres({
    host: 'database',
    user: target.user,
    ...(target.password === undefined ? {} : { password: target.password }),
    database: target.database,
    ssl: false,
    max: 1,
    // One flight is up to MAX_OPS statements; beyond this number postgres.js waits for answers between them.
    max_pipeline: 1_000_000,
    idle_timeout: 0,
    max_lifetime: 0,
    connect_timeout: 0,
    fetch_types: false,
    no_subscribe: true,
    types: { asText },
    connection: { application_name: target.applicationName, ...(target.options === undefined ? {} : { options: target.options }) },
    onnotice () {},
    onclose () {
      state.dead = true
      reject(new Error('the connection to the database was lost'))
    },
    async socket () {
      // postgres.js reconnects by itself when a server hangs up during start-up; a lane has one connection.
      if (socket !== undefined) throw new Error('the server closed the connection')
      const opened = await openSocket(target, start, target.connectTimeoutMs)
      socket = opened.socket
      return socket
    }
  } as postgres.Options<Record<string, postgres.PostgresType>>)
  const timer = setTimeout(() => {
    socket?.destroy()
    client.end({ timeout: 0 }).catch(() => {})
  }, target.connectTimeoutMs)
  try {
    const fits = await inspect(client, target)
    if (socket === undefined) throw new Error('the client connected without its socket')
    const lane = { client, socket, lost, prepared: new Set<string>(), state }
    retireLater(lane)
    return { lane, fits }
  } catch (error) {
    socket?.destroy()
    client.end({ timeout: 0 }).catch(() => {})
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Whether the server is what the URL asks for. */
async function inspect (client: postgres.Sql, { targetSessionAttrs }: DatabaseTarget): Promise<boolean> {
  const [row] = await client.unsafe<Array<{ standby: string, readonly: string }>>(
    "select pg_is_in_recovery() as standby, current_setting('transaction_read_only') as readonly")
  const standby = row?.standby === 't'
  const readOnly = row?.readonly === 'on'
  switch (targetSessionAttrs) {
    case 'any': return true
    case 'primary': return !standby
    case 'standby': case 'prefer-standby': return standby
    case 'read-write': return !standby && !readOnly
    case 'read-only': return standby || readOnly
  }
}

/** Spread by a tenth, so that lanes opened together do not end together. */
function retireLater (lane: Lane): void {
  const timer = setTimeout(() => { lane.state.retired = true }, LIFETIME_MS * (0.9 + Math.random() / 10))
  timer.unref()
  lane.lost.catch(() => clearTimeout(timer))
}
