/**
 * One transaction in one flight, and the only `sql.begin` of the service:
 *
 *     BEGIN                                                     flight 1: nothing is locked yet
 *     settings, operation 1 … n, COMMIT AND CHAIN, RESET ALL    flight 2: one write; the answer can go out when COMMIT is answered
 *     COMMIT of the empty chained transaction                   flight 3: nobody waits for it
 *
 * Everything of flight 2 is issued in one go, so no lock is ever held while the network is slow. This file decides nothing about
 * failures: it tells what happened, and fly.ts and explain.ts make something of it.
 */
import postgres from 'postgres'
import type { DatabaseError } from '../errors/postgres.ts'
import type { Statement } from '../sql/compile.ts'
import type { Lane } from './lane.ts'
import { shouldPrepare } from './prepare.ts'

/** What flies: the session scope, then the operations. */
export interface Flight { readonly session: Statement, readonly operations: readonly Statement[] }

/** Where a statement stood: the number of an operation, the session scope before them or the COMMIT after them. */
export type Place = number | 'session' | 'commit'

/**
 * How a flight ended. `times`: milliseconds (performance.now) of the take-off and of each answer: session, then operations.
 * `lost`: the connection went away; `sent` tells whether COMMIT may have been read by the server.
 */
export type Landing =
  | { readonly kind: 'committed', readonly rows: readonly Buffer[], readonly times: readonly number[] }
  | { readonly kind: 'failed', readonly error: DatabaseError, readonly at: Place, readonly times: readonly number[] }
  | { readonly kind: 'lost', readonly sent: boolean, readonly times: readonly number[] }

/** `landed` as soon as the outcome is known, `over` when the lane is free for the next. Neither rejects. */
export interface Launched { readonly landed: Promise<Landing>, readonly over: Promise<void> }

// Explicit, for a trigger may have left default_transaction_* behind on the connection.
const BEGIN = 'isolation level read committed read write not deferrable'

/** Starts a flight on a lane that nobody else uses. */
export function launch (lane: Lane, flight: Flight): Launched {
  const { promise: landed, resolve: land } = Promise.withResolvers<Landing>()
  const times: number[] = []
  let sent = false
  const begun = lane.client.begin(BEGIN, transaction => new Promise<void>((resolve, reject) => {
    // Nothing may be sent on a dead lane, and this promise must not settle: postgres.js would write a ROLLBACK to a socket
    // that is gone. `lost` ends the wait.
    if (lane.state.dead) return
    sent = true
    board(lane, flight, transaction as unknown as Transaction, { land, times, resolve, reject })
  }))
  const over = Promise.race([begun, lane.lost]).then(() => {}, () => {
    // BEGIN refused or connection lost. After a landing this changes nothing: the first one counts.
    land({ kind: 'lost', sent, times })
    if (!sent) lane.state.retired = true
  })
  return { landed, over }
}

/** What postgres.js gives to the callback of `begin`, as far as it is used. */
interface Transaction {
  unsafe (text: string, parameters: readonly [], options: { prepare: boolean, simple: boolean }): Query
}

/** A query of postgres.js. `parameters` and `prepared` are fields of its own that are set here; see `send`. */
interface Query extends PromiseLike<Answer> {
  raw (): Query
  execute (): Query
  parameters: ReadonlyArray<string | null>
  prepared: boolean
}
type Answer = ReadonlyArray<readonly [Buffer]> & { readonly command: string }

interface Boarding {
  readonly land: (landing: Landing) => void
  readonly times: number[]
  /** Lets postgres.js end the chained transaction with COMMIT. */
  readonly resolve: () => void
  /** Lets postgres.js end the chained transaction with ROLLBACK. */
  readonly reject: (error: unknown) => void
}

function board (lane: Lane, flight: Flight, transaction: Transaction, { land, times, resolve, reject }: Boarding): void {
  const rows: Buffer[] = []
  let failed: { error: DatabaseError, at: Place } | undefined
  times.push(performance.now())
  lane.socket.cork()
  const queries = [flight.session, ...flight.operations].map(statement => send(lane, transaction, statement))
  // The simple protocol: with the extended one, 79 of 282 batches that failed under backend terminations had in fact committed.
  const commit = transaction.unsafe('commit and chain', [], { prepare: false, simple: true }).execute()
  // Settings that a trigger left behind must not reach the next request; done in the chained transaction, for which nobody waits.
  const reset = transaction.unsafe('reset all', [], { prepare: false, simple: true }).execute()
  uncorkWhenWritten(lane, queries)

  const fail = (error: unknown, at: Place): void => {
    if (isStatementError(error)) failed ??= { error, at }
  }
  for (const [i, query] of queries.entries()) {
    query.then(answer => {
      times.push(performance.now())
      if (i > 0) rows.push((answer[0] as readonly [Buffer])[0])
    }, error => fail(error, i === 0 ? 'session' : i - 1))
  }
  commit.then(({ command }) => {
    // A transaction that failed answers COMMIT with the tag ROLLBACK and no error.
    if (failed === undefined && command === 'COMMIT') land({ kind: 'committed', rows, times })
  }, error => fail(error, 'commit'))
  reset.then(resolve, error => {
    if (!isStatementError(error)) return
    lane.state.retired = true
    reject(error)
  })
  // Known as soon as anything failed, also when the connection is lost after that.
  const settle = (): void => { if (failed !== undefined) land({ kind: 'failed', ...failed, times }) }
  commit.then(settle, settle)
  lane.lost.catch(settle)
}

/**
 * Sends one statement without waiting. postgres.js asks for the types of parameters before it sends them, which costs a round trip
 * for every new text and for every unprepared one; with the parameters set on the query itself it does not ask, and PostgreSQL
 * infers the types all the same. Measured on the wire: three flights for 100 operations, also the first time.
 */
function send (lane: Lane, transaction: Transaction, { text, parameters, prepare }: Statement): Query {
  const query = transaction.unsafe(text, [], { prepare: prepare && shouldPrepare(lane, text), simple: false }).raw()
  query.parameters = [...parameters]
  return query.execute()
}

/**
 * Uncorks after the last write of the flight: postgres.js writes from microtasks and, for the rest, from setImmediate.
 * A prepared statement that became stale would be sent again by postgres.js, into the chained transaction after ROLLBACK;
 * it does so only for queries that say `prepared`.
 */
function uncorkWhenWritten (lane: Lane, queries: readonly Query[]): void {
  queueMicrotask(() => queueMicrotask(() => setImmediate(() => {
    for (const query of queries) query.prepared = false
    lane.socket.uncork()
  })))
}

/** An error that PostgreSQL answered to a statement, on a connection that lives on. Everything else is connection trouble. */
function isStatementError (error: unknown): error is DatabaseError {
  return error instanceof postgres.PostgresError && error.severity === 'ERROR'
}
