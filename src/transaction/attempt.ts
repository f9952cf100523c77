/**
 * One transaction in one flight, and the only `sql.begin` of the service:
 *
 *     BEGIN first: nothing is locked yet settings, operation 1 … n, COMMIT AND CHAIN, the flight:
 *     one write; the answer can go out when COMMIT AND CHAIN is answered RESET, COMMIT AND CHAIN,
 *     COMMIT of an empty transaction
 *
 * With an idempotency key, before the settings: the claim of the key; before COMMIT AND CHAIN: SET
 * CONSTRAINTS ALL IMMEDIATE, the role put down, the answers stored. In a dry run SET CONSTRAINTS
 * ALL IMMEDIATE, ROLLBACK AND CHAIN stand in the place of COMMIT AND CHAIN. Everything of the
 * flight is issued in one go, so no lock is ever held while the network is slow. Its last COMMIT is
 * the one of `sql.begin` itself, which writes it as soon as its callback says that it is done; that
 * says so when everything is issued, and not when it is answered. So a failure reaches it too late
 * for a ROLLBACK, and none is needed: COMMIT AND CHAIN has ended the transaction by then, whatever
 * became of it. This file decides nothing about failures: it tells what happened, and fly.ts and
 * explain.ts make something of it.
 */
import { Writable } from 'node:stream'
import postgres from 'postgres'
import type { Preferences } from '../../schemas/prefer.ts'
import { failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/postgres.ts'
import type { Statement } from '../sql/compile.ts'
import { claimStatement, releaseStatement, storeStatement, type Key } from '../sql/idempotency.ts'
import type { ConnectionFacts } from '../sql/session.ts'
import { destroyConnection, type Connection } from '../postgres/connection.ts'
import { choosePrepared } from '../postgres/prepared-statements.ts'

/** How a transaction begins and ends. */
export type TransactionMode = Pick<Preferences, 'tx' | 'isolation' | 'access'>

/**
 * What flies: the session scope (see sessionStatement), then the operations, each of one row with
 * one column.
 */
export interface CompiledBatch {
  readonly role: string
  /** Made for the connection of the attempt, from what was read when that was opened. */
  readonly session: (connection: ConnectionFacts) => Statement
  readonly operations: readonly Statement[]
  /** Writes the operations for a careful attempt, or one that is `restoring`; see compile.ts. */
  readonly compileCarefully?: ((restoring: boolean) => readonly Statement[]) | undefined
  /** Whether `operations` are those. */
  readonly careful?: boolean
  /** Whether operations read rows of earlier ones. */
  readonly refers?: boolean
  readonly mode: TransactionMode
  /** Whether to set the session anew after each operation, because one of them changes it. */
  readonly restoring?: boolean
  /** Whether to use nothing that was prepared before. */
  readonly fresh?: boolean
  /**
   * Under which the answers are stored in the same transaction. The operations have to keep them
   * (`keep` of compile).
   */
  readonly key?: Key | undefined
  /**
   * Stands behind every statement, for the server's log; nothing is prepared then, for the text is
   * another one each time.
   */
  readonly comment?: string
}

/** The flight for a careful attempt, which with `restoring` sets the session anew. */
export function carefulBatch (flight: CompiledBatch, restoring: boolean): CompiledBatch {
  const operations = flight.compileCarefully?.(restoring) ?? flight.operations
  return { ...flight, operations, careful: true, restoring }
}

/**
 * Whether something of a transaction may be in the database when it is over; if not, it may be
 * flown again whatever became of it.
 */
export function mayCommit ({ tx, access }: TransactionMode): boolean {
  return tx === 'commit' && access === 'read-write'
}

/**
 * Where a statement stood: the number of an operation, the session scope (and BEGIN) before them,
 * the end (COMMIT) after them; or it was about the key.
 */
export type Place = number | 'session' | 'commit' | 'key'

/**
 * How a flight ended. `times`: milliseconds (performance.now) of the take-off and of each answer:
 * session, then operations. `committed`: everything was answered, the end too; that of a dry run is
 * a ROLLBACK. `failed`: `held` when the statement was prepared on the connection before. `lost`:
 * the connection went away.
 */
export type AttemptOutcome =
  | {
    readonly kind: 'committed',
    readonly rows: readonly Buffer[],
    readonly times: readonly number[]
  }
  | {
    readonly kind: 'failed',
    readonly error: DatabaseError,
    readonly at: Place,
    readonly held?: boolean,
    readonly times: readonly number[]
  }
  | LostOutcome

/** What is known of a flight whose connection went away. */
export interface LostOutcome {
  readonly kind: 'lost'
  /** Whether the end may have been read by the server. */
  readonly sent: boolean
  /**
   * Whether the server ended the connection before it came to the end: then it rolled the
   * transaction back.
   */
  readonly refuted: boolean
  /** Whether the server had answered that the key is taken by this transaction. */
  readonly claimed: boolean
  /** Where the session scope told it. */
  readonly id: TransactionId | undefined
  /** Answers of operations, as far as they came. */
  readonly rows: readonly Buffer[]
  readonly times: readonly number[]
}

/** A transaction as its session scope told it; all of them texts. */
export interface TransactionId {
  readonly xid: string
  /**
   * When the server was started, and when the transaction told this, by the server's clock in
   * seconds.
   */
  readonly server: string
  readonly at: string
}

/**
 * `landed` as soon as the outcome is known, `over` when the connection is free for the next.
 * Neither rejects.
 */
export interface StartedAttempt {
  readonly landed: Promise<AttemptOutcome>
  readonly over: Promise<void>
}

/**
 * How a transaction ends: the statements, each with the tag that it answers when all went well. One
 * that failed answers COMMIT with the tag ROLLBACK and no error. ROLLBACK tells nothing, but the
 * check of the constraints before it is refused to one that failed.
 */
const ENDS = {
  commit: [['commit and chain', 'COMMIT']],
  rollback: [['set constraints all immediate', 'SET CONSTRAINTS'], [
    'rollback and chain',
    'ROLLBACK'
  ]]
} as const satisfies Record<
  TransactionMode['tx'],
  ReadonlyArray<readonly [text: string, tag: string]>
>

/**
 * What a trigger can leave behind in a session, however its transaction ended: settings, temporary
 * tables, values of sequences, cursors WITH HOLD, LISTEN, advisory locks, and the role, which RESET
 * ALL spares. Statements that were prepared in SQL can stand under the names of ours and run in
 * their place: where there is one, the reset fails, and with it the connection ends (0.04 ms for 30
 * statements). DISCARD ALL would forget ours as well, and is not allowed in a transaction.
 */
const RESET =
  'set session authorization default; reset all; discard temp; discard sequences; close ' +
  'all; unlisten *; select pg_advisory_unlock_all()'
const REFUSE_PREPARED =
  ', 1 / (not exists (select from pg_prepared_statement() where from_sql))::int'
/** Where nothing is prepared for us, and a pooler would give the connection to others. */
const FORGET_PREPARED = '; deallocate all'
/**
 * For the COMMIT of `sql.begin` is no good one to end the reset: postgres.js prepares it, so it
 * fails once where a trigger has forgotten what was prepared (DEALLOCATE ALL), and the reset would
 * be rolled back. What fails then is empty.
 */
const KEEP_RESET = '; commit and chain'

/**
 * Starts a flight on a connection that nobody else uses. When `abandoned` is aborted before
 * everything is written, nothing is.
 */
export function startAttempt (
  connection: Connection,
  flight: CompiledBatch,
  abandoned?: AbortSignal
): StartedAttempt {
  const { promise: landed, resolve } = Promise.withResolvers<AttemptOutcome>()
  const log: AttemptLog = {
    land: resolve,
    times: [],
    rows: [],
    sent: false,
    strange: false,
    claimed: false,
    id: undefined,
    failed: undefined
  }
  const begun = connection.client.begin(
    beginning(flight.mode),
    transaction =>
      new Promise<void>(resolve => {
        // Nothing may be sent on a dead connection, and this promise must not settle then:
        // postgres.js would write to a socket that is gone. `begin` rejects by itself when the
        // connection is closed.
        if (connection.state.dead) return
        if (abandoned?.aborted === true) {
          log.failed = { error: failure('client_closed_request'), at: 'session' }
        } else sendPipeline(connection, flight, transaction as unknown as Transaction, log)
        resolve()
      })
  )
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  const finish = (refusal?: unknown): void => {
    connection.state.onLost = undefined
    if (!log.sent && isImpossible(refusal, flight.mode)) {
      log.failed = { error: refusal, at: 'session' }
    }
    if (!log.strange) resolveFailure(log)
    // After a landing this changes nothing: the first one counts.
    const { sent, claimed, id, rows, times } = log
    // Not at the end itself, for what a server may still say between COMMIT and its answer is not
    // written down; and not from a pooler, which says FATAL when it is the one that lost the
    // server.
    const refuted = connection.backend !== undefined && connection.fatalErrors.fatal &&
      rows.length < flight.operations.length
    log.land({ kind: 'lost', sent, refuted, claimed, id, rows, times })
    // BEGIN or the last COMMIT was refused: whatever the reason, postgres.js does not use the
    // connection again, and what is asked of it waits for ever.
    if (refusal !== undefined) connection.state.retired = true
    end()
  }
  // Not `begin` alone: it listens to the end of its connection only some time after BEGIN was
  // answered, and when the connection ended before that it never settles. Answers that came before
  // the end are taken first.
  connection.state.onLost = () => queueMicrotask(finish)
  begun.then(() => finish(), finish)
  return { landed, over }
}

/**
 * All of it explicit, for a trigger may have left default_transaction_* behind on the connection.
 */
function beginning ({ isolation, access }: TransactionMode): string {
  return `isolation level ${isolation} ${access} not deferrable`.replaceAll('-', ' ')
}

/**
 * Whether BEGIN was refused for what the client asked for: no standby can serialize (0A000). That
 * it cannot write either is the state of the server and no fault of the batch.
 */
function isImpossible (refusal: unknown, mode: TransactionMode): refusal is DatabaseError {
  return isStatementError(refusal) && refusal.code === '0A000' && mode.access === 'read-only'
}

/** What is known of a flight so far. */
interface AttemptLog {
  readonly land: (landing: AttemptOutcome) => void
  readonly times: number[]
  readonly rows: Buffer[]
  sent: boolean
  /**
   * Whether something was answered that no server answers: then nothing of it is believed, and what
   * became of the flight is asked for.
   */
  strange: boolean
  claimed: boolean
  id: TransactionId | undefined
  /** The first error that the server answered; what follows it is a consequence. */
  failed: { readonly error: DatabaseError, readonly at: Place, readonly held?: boolean } | undefined
}

/** What postgres.js gives to the callback of `begin`, as far as it is used. */
interface Transaction {
  unsafe(
    text: string,
    parameters: readonly [],
    options: { prepare: boolean, simple: boolean }
  ): Query
}

/**
 * A query of postgres.js. `parameters` and `prepared` are fields of its own that are set here; see
 * `send`.
 */
interface Query extends PromiseLike<Answer> {
  raw(): Query
  execute(): Query
  parameters: ReadonlyArray<string | null>
  prepared: boolean
  /**
   * What the server holds or was asked to hold; `columns` once it told them, which it does after it
   * has prepared the statement.
   */
  readonly statement: { readonly columns?: unknown }
}
type Answer = ReadonlyArray<ReadonlyArray<Buffer | null>> & { readonly command: string }

function sendPipeline (
  connection: Connection,
  flight: CompiledBatch,
  transaction: Transaction,
  log: AttemptLog
): void {
  const legs = buildSteps(flight, flight.session(connection))
  const held = legs.map(({ statement }) => connection.prepared.has(statement.text))
  const prepared = choosePrepared(
    connection,
    legs.map(({ statement }) =>
      flight.fresh === true ? { ...statement, prepare: false } : statement
    )
  )
  log.sent = true
  log.times.push(performance.now())
  connection.socket.cork()
  // The simple protocol: with the extended one, 79 of 282 batches that failed under backend
  // terminations had in fact committed.
  const sendSimple = (text: string): Query =>
    transaction.unsafe(text, [], { prepare: false, simple: true }).execute()
  const queries = legs.map(({ statement, tag }, i) =>
    tag === undefined
      ? send(transaction, statement, prepared[i] as boolean)
      : sendSimple(statement.text)
  )
  // What a trigger left behind must not reach the next request; done in the chained transaction,
  // for which nobody waits.
  const reset = sendSimple(
    RESET + (connection.prepares ? REFUSE_PREPARED : FORGET_PREPARED) + KEEP_RESET
  )
  uncorkWhenWritten(connection, queries)

  const doubt = (answer?: unknown): void => {
    log.strange = true
    // What postgres.js makes of COPY; its error would be heard by nobody.
    if (answer instanceof Writable) answer.on('error', () => {})
    destroyConnection(connection)
  }
  let open = legs.filter(({ tag }) => tag !== undefined).length
  for (const [i, query] of queries.entries()) {
    const { statement, place, tag, silent } = legs[i] as Step
    query.then(answer => {
      if (log.strange || silent === true) return
      if (tag === undefined) {
        return isAnswer(answer, place)
          ? takeAnswer(log, place, answer)
          : doubt(answer)
      }
      if (answer.command === 'COMMIT' && log.failed !== undefined) return doubt()
      resolveFailure(log)
      if (answer.command === tag && --open === 0) {
        log.land({ kind: 'committed', rows: log.rows, times: log.times })
      }
    }, error => {
      if (!isStatementError(error)) return connection.state.dead ? undefined : doubt()
      log.failed ??= { error, at: place, held: held[i] === true && prepared[i] === true }
      if (tag !== undefined) resolveFailure(log)
      // One that failed while it was carried out is held all the same.
      if (prepared[i] === true && query.statement.columns === undefined) {
        connection.prepared.delete(statement.text)
      }
    })
  }
  reset.then(undefined, () => {
    connection.state.retired = true
  })
}

/**
 * One statement of a flight. `tag`: it goes by the simple protocol and answers this when all went
 * well. `silent`: its answer tells nothing new.
 */
interface Step {
  readonly statement: Statement
  readonly place: Place
  readonly tag?: string
  readonly silent?: boolean
}

const DECODE = unprepared("select pg_catalog.set_config('client_encoding', 'UTF8', true)")

function buildSteps (flight: CompiledBatch, session: Statement): readonly Step[] {
  const { comment = '' } = flight
  const legs = buildPlainSteps(flight, session)
  return comment === ''
    ? legs
    : legs.map(leg => ({
      ...leg,
      statement: { ...leg.statement, text: leg.statement.text + comment, prepare: false }
    }))
}

function buildPlainSteps (
  { operations, restoring = false, key, mode }: CompiledBatch,
  session: Statement
): readonly Step[] {
  // Not prepared: what changes the session can also have put another statement under the name of
  // this one. The encoding before the rest, whose parameters are read by it.
  const restore = restoring
    ? [DECODE, { ...session, prepare: false }].map((statement): Step => ({
        statement,
        place: 'session',
        silent: true
      }))
    : []
  return [
    ...(key === undefined ? [] : [{ statement: claimStatement(key), place: 'key' } as const]),
    { statement: session, place: 'session' },
    ...operations.flatMap((
      statement,
      place
    ): readonly Step[] => [{ statement, place }, ...restore]),
    ...(key === undefined ? [] : plotStoring(key, operations.length, session)),
    ...ENDS[mode.tx].map(([text, tag]): Step => ({
      statement: unprepared(text),
      place: 'commit',
      tag
    }))
  ]
}

/**
 * Deferred constraints are checked before the role is put down: until PostgreSQL 17 their triggers
 * run under the role of the moment. For those that such a trigger defers once more, to the COMMIT,
 * the session is set anew.
 */
function plotStoring (key: Key, operations: number, session: Statement): readonly Step[] {
  const [[text, tag]] = ENDS.rollback
  return [
    { statement: unprepared(text), place: 'commit', tag },
    { statement: releaseStatement, place: 'key', silent: true },
    { statement: storeStatement(key, operations), place: 'key', silent: true },
    { statement: { ...session, prepare: false }, place: 'key', silent: true }
  ]
}

function unprepared (text: string): Statement {
  return { text, parameters: [], prepare: false }
}

/**
 * Sends one statement without waiting. postgres.js asks for the types of parameters before it sends
 * them, which costs a round trip for every new text and for every unprepared one; with the
 * parameters set on the query itself it does not ask, and PostgreSQL infers the types all the same.
 * Measured on the wire: two round trips for 100 operations, also the first time.
 */
function send (transaction: Transaction, { text, parameters }: Statement, prepare: boolean): Query {
  const query = transaction.unsafe(text, [], { prepare, simple: false }).raw()
  query.parameters = [...parameters]
  return query.execute()
}

/**
 * Uncorks after the last write of the flight, which is the COMMIT of `sql.begin`: postgres.js
 * writes from microtasks, which are all done before the next tick, and, for the rest, from
 * setImmediate. A prepared statement that became stale would be sent again by postgres.js, into the
 * chained transaction after ROLLBACK; it does so only for queries that say `prepared`.
 */
function uncorkWhenWritten (connection: Connection, queries: readonly Query[]): void {
  process.nextTick(() =>
    setImmediate(() => {
      for (const query of queries) query.prepared = false
      connection.socket.uncork()
    })
  )
}

/**
 * Whether it has the one row that the statement answers: the session scope's of several columns, an
 * operation's of one.
 */
function isAnswer (answer: Answer, place: Place): boolean {
  const [row] = Array.isArray(answer) && answer.length === 1 ? answer : []
  if (row === undefined) return false
  return place === 'session'
    ? row[0] === null || row.length > 2
    : place === 'key' || Buffer.isBuffer(row[0])
}

function takeAnswer (log: AttemptLog, place: Place, answer: Answer): void {
  if (place === 'key') {
    log.claimed = true
    return
  }
  const [cell, ...told] = answer[0] as readonly [Buffer | null, ...Buffer[]]
  log.times.push(performance.now())
  if (place !== 'session') log.rows.push(cell as Buffer)
  else if (cell !== null) {
    const [server, at] = told.map(String) as [string, string]
    log.id = { xid: cell.toString(), server, at }
  }
}

function resolveFailure ({ land, failed, times }: AttemptLog): void {
  if (failed !== undefined) land({ kind: 'failed', ...failed, times })
}

/**
 * An error that PostgreSQL answered to a statement, on a connection that lives on. Everything else
 * is connection trouble.
 */
function isStatementError (error: unknown): error is DatabaseError {
  return error instanceof postgres.PostgresError && error.severity === 'ERROR'
}
