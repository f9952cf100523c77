/**
 * A database connection: a postgres.js client with one socket (`max: 1`) and at most one
 * transaction at a time.
 *
 * The pool of postgres.js is not used. When a backend dies, its automatic ROLLBACK can write to a
 * null socket and crash the process (porsager/postgres #1154, #1066, #1208), and the slot stays
 * unusable. Statements of a dead transaction can run inside another request's (#1204, #1216,
 * #1155). Its queue is unbounded (#824), and a half-open socket waits forever (#1089). A connection
 * with a network failure is therefore marked dead and never reused.
 */
import type postgres from 'postgres'
import type { DriverSocket } from './driver-socket.ts'
import type { UnsafeSchema } from './extra-schemas.ts'
import type { ConnectionFacts } from './facts.ts'
import type { PreparedStatements } from './prepared-statements.ts'

export interface Connection extends ConnectionFacts {
  readonly client: postgres.Sql
  readonly socket: DriverSocket
  readonly prepared: PreparedStatements
  /**
   * The server process of this connection. Undefined behind a pooler, where it can change with
   * every transaction.
   */
  readonly backend: Backend | undefined
  /** The product and its version, such as `PostgreSQL 18.4`. */
  readonly product: string
  /** Whether the login role is superuser or BYPASSRLS. */
  readonly privileged: boolean
  /** Whether the server is a standby, which accepts no writes. */
  readonly isStandby: boolean
  /** Why the connection would be refused if DATABASE_ENGINE did not choose its engine. */
  readonly overridden: string | undefined
  /**
   * Whether another server can take over that lacks the last commits: the server is one of several
   * hosts or managed by Patroni, and COMMIT does not wait for a standby.
   */
  readonly losesCommits: boolean
  /**
   * Only for Citus: roles that cannot log in. Their batches fail, because Citus logs in to workers
   * as the role.
   */
  readonly rolesWithoutLogin: readonly string[]
  /** Configured schemas that are left off, because a token's role can create objects in them. */
  readonly unsafeSchemas: readonly UnsafeSchema[]
  /** When to replace the connection, as a time of performance.now(). */
  readonly expiresAt: number
  readonly state: ConnectionState
}

export interface ConnectionState {
  /** The connection is closed or closing: nothing may be sent. */
  dead: boolean
  /** The connection is to be replaced after its current transaction. */
  retired: boolean
  /** Called when the connection is lost. Set by the transaction or query that uses it. */
  onLost: (() => void) | undefined
  /** The callback of the `sql.begin` that runs. */
  transaction: (() => Promise<void>) | undefined
}

/**
 * A server process: its id and, because ids are reused, its start time in seconds. Both are numbers
 * as text.
 */
export interface Backend {
  readonly pid: string
  readonly started: string
}

/** Whether the connection can run another transaction. */
export function isUsable ({ state, expiresAt }: Connection): boolean {
  return !state.dead && !state.retired && performance.now() < expiresAt
}

/**
 * Whether the server has reported that a setting of the session is another one than at the start.
 * Behind a pooler, a report can be about another session.
 */
export function hasChangedSettings ({ server, socket }: Connection): boolean {
  return server !== undefined && socket.hasChangedSettings
}

/** Closes the connection gracefully, or forcibly after a second. */
export async function closeConnection (connection: Connection): Promise<void> {
  const timeout = connection.state.dead ? 0 : 1
  connection.state.dead = true
  await connection.client.end({ timeout })
  connection.socket.destroy()
}

/** Closes the connection at once. Everything that waits for a result on it fails. */
export function destroyConnection (connection: Connection): void {
  connection.state.dead = true
  connection.socket.destroy()
  // Called here too: postgres.js can lose track of a connection that closes while a query starts.
  connection.state.onLost?.()
}

/** Returns the rows of a query outside of any transaction. Rejects when the connection is lost. */
export function query<Row extends Record<string, string | null>> (
  connection: Connection,
  text: string
): Promise<readonly Row[]> {
  return rejectOnLoss(connection, connection.client.unsafe<Row[]>(text))
}

/** Like `query`, with each row as an array of the bytes received. */
export function queryRaw (
  connection: Connection,
  text: string
): Promise<ReadonlyArray<ReadonlyArray<Buffer | null>>> {
  return rejectOnLoss(connection, connection.client.unsafe(text).raw())
}

/** postgres.js does not settle every query of a connection that closes. */
function rejectOnLoss<Result> (
  connection: Connection,
  query: PromiseLike<Result>
): Promise<Result> {
  return new Promise<Result>((resolve, reject) => {
    const lose = (): void => reject(new Error('the connection was lost'))
    connection.state.onLost = lose
    if (connection.state.dead) lose()
    query.then(resolve, reject)
  }).finally(() => {
    connection.state.onLost = undefined
  })
}

/** Runs `work` on a connection, which is destroyed after `timeoutMs`. */
export function withTimeout<Result> (
  timeoutMs: number,
  connection: Connection,
  work: (connection: Connection) => Promise<Result>
): Promise<Result> {
  const timer = setTimeout(destroyConnection, timeoutMs, connection)
  return work(connection).finally(() => clearTimeout(timer))
}

/**
 * Terminates the backend of a lost connection and returns whether it still existed. PostgreSQL
 * notices the loss late, and until then keeps the locks of a transaction that arrived in part. With
 * synchronous standbys, only a backend that is idle or waits for the rest of a batch is terminated:
 * another one may wait for them in COMMIT, and the commit could be lost with the server. Before
 * Sync a backend that waits for the service has the state active.
 */
export async function terminateBackend (
  connection: Connection,
  { pid, started }: Backend
): Promise<boolean> {
  const rows = await query(
    connection,
    `
    select case when pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.=)
      '' or state operator(pg_catalog.~) '^idle' or wait_event operator(pg_catalog.=) 'ClientRead'
      then pg_catalog.pg_terminate_backend(pid) end
    from pg_catalog.pg_stat_get_activity(${pid}) where extract(epoch
      from backend_start)::pg_catalog.text operator(pg_catalog.=) '${started}'`
  )
  return rows.length > 0
}

/**
 * Returns the delay in milliseconds after which `time`, of performance.now(), has surely passed:
 * Node truncates fractions and can fire a fraction of a millisecond early.
 */
export function millisecondsUntil (time: number): number {
  return Math.max(1, Math.ceil(time - performance.now()) + 1)
}
