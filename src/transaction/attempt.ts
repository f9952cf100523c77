/**
 * Runs a transaction once, with the only `sql.begin` of the service:
 *
 *     BEGIN                                                round trip 1: nothing is locked yet
 *     session, operation 1 … n, COMMIT AND CHAIN,          round trip 2: one write
 *     RESET, COMMIT AND CHAIN, COMMIT
 *
 * The answer is known when COMMIT AND CHAIN is answered. RESET and the last COMMIT run in the
 * chained transaction, while no client waits. The last COMMIT is written by `sql.begin` when its
 * callback resolves, which is as soon as everything is sent and before anything is answered. So a
 * failure reaches `sql.begin` too late for its ROLLBACK. None is needed, because COMMIT AND CHAIN
 * has ended the transaction by then.
 *
 * Everything is written at once, so no lock is held while the network is slow. This file reports
 * what happened; execute.ts and to-failure.ts decide what follows from it.
 */
import { Writable } from 'node:stream'
import postgres from 'postgres'
import { failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { destroyConnection, type Connection } from '../postgres/connection.ts'
import {
  disableRepeat,
  isPrepared,
  sendExtended,
  sendSimple,
  type RawResult,
  type SentQuery
} from '../postgres/driver-internals.ts'
import { choosePrepared } from '../postgres/prepared-statements.ts'
import type { AttemptBatch, TransactionMode } from './compiled-batch.ts'
import type { AttemptOutcome, Failed, Place, TransactionId } from './outcome.ts'
import { buildSteps, type Step } from './steps.ts'

/** Neither promise rejects. */
export interface StartedAttempt {
  /** Resolves as soon as the outcome is known. */
  readonly outcome: Promise<AttemptOutcome>
  /** Resolves when the connection is free for the next transaction. */
  readonly released: Promise<void>
}

/**
 * Undoes what a trigger can leave behind in a session, however its transaction ended: settings,
 * temporary tables, values of sequences, cursors WITH HOLD, LISTEN, advisory locks, and the role,
 * which RESET ALL keeps. DISCARD ALL would also forget our prepared statements, and is not allowed
 * in a transaction.
 */
const RESET = 'set session authorization default; reset all; discard temp; discard sequences; ' +
  'close all; unlisten *; select pg_advisory_unlock_all()'
/**
 * Fails, and so closes the connection, when a statement was prepared in SQL: it may have the name
 * of one of ours and would run instead (0.04 ms for 30 statements).
 */
const REFUSE_PREPARED =
  ', 1 / (not exists (select from pg_prepared_statement() where from_sql))::int'
/** Behind a pooler we prepare nothing, and other clients get the connection. */
const FORGET_PREPARED = '; deallocate all'
/**
 * Commits the reset. The COMMIT of `sql.begin` cannot: postgres.js prepares it, so it fails once
 * after a trigger ran DEALLOCATE ALL, and the reset would be rolled back.
 */
const KEEP_RESET = '; commit and chain'

/**
 * Starts an attempt on a connection that is reserved for it. If `clientClosed` is aborted before
 * the statements are written, the attempt sends nothing.
 */
export function startAttempt (
  connection: Connection,
  batch: AttemptBatch,
  clientClosed?: AbortSignal
): StartedAttempt {
  return new Attempt(connection, batch).start(clientClosed)
}

class Attempt {
  readonly #connection: Connection
  readonly #batch: AttemptBatch
  readonly #outcome = Promise.withResolvers<AttemptOutcome>()
  readonly #rows: Buffer[] = []
  readonly #times: { begun?: number, sessionSet?: number, operations: number[] } = {
    operations: []
  }

  #sent = false
  #keyClaimed = false
  #transactionId: TransactionId | undefined
  /** The first error of the server. Later ones follow from it. */
  #firstError: Omit<Failed, 'kind' | 'times'> | undefined
  /** Steps with a command tag that were not answered yet. */
  #pendingEnds = 0
  /**
   * The server answered what PostgreSQL never answers. No answer counts then, and the state of the
   * transaction is looked up.
   */
  #protocolViolation = false

  constructor (connection: Connection, batch: AttemptBatch) {
    this.#connection = connection
    this.#batch = batch
  }

  start (clientClosed: AbortSignal | undefined): StartedAttempt {
    const connection = this.#connection
    const released = Promise.withResolvers<void>()
    const finish = (refusal?: unknown): void => {
      this.#finish(refusal)
      released.resolve()
    }
    const begun = connection.client.begin(
      beginOptions(this.#batch.mode),
      transaction => this.#run(transaction, clientClosed)
    )
    // `begin` does not settle when the connection ends shortly after BEGIN was answered: it listens
    // for the end only some time later. Answers that came before the end are read first.
    connection.state.onLost = () => queueMicrotask(finish)
    begun.then(() => finish(), finish)
    return { outcome: this.#outcome.promise, released: released.promise }
  }

  /**
   * The callback of `begin`. On a dead connection it sends nothing and never settles: postgres.js
   * would write to a closed socket. `begin` rejects without it.
   */
  #run (
    transaction: postgres.TransactionSql,
    clientClosed: AbortSignal | undefined
  ): Promise<void> {
    return new Promise(resolve => {
      if (this.#connection.state.dead) return
      if (clientClosed?.aborted === true) {
        this.#firstError = { error: failure('client_closed_request'), at: 'session' }
      } else this.#send(transaction)
      resolve()
    })
  }

  #send (transaction: postgres.TransactionSql): void {
    const connection = this.#connection
    const { session, variant } = this.#batch
    const steps = buildSteps(this.#batch, session(connection))
    const wasPrepared = steps.map(({ statement }) => connection.prepared.has(statement.text))
    const prepare = choosePrepared(
      connection,
      steps.map(({ statement }) =>
        variant?.unprepared === true ? { ...statement, prepare: false } : statement
      )
    )
    this.#sent = true
    this.#times.begun = performance.now()
    connection.socket.cork()
    const queries = steps.map(({ statement, tag }, i) =>
      tag === undefined
        ? sendExtended(transaction, statement, prepare[i] as boolean)
        : sendSimple(transaction, statement.text)
    )
    const { prepares } = connection
    const reset = sendSimple(
      transaction,
      RESET + (prepares ? REFUSE_PREPARED : FORGET_PREPARED) + KEEP_RESET
    )
    uncorkWhenWritten(connection, queries)
    this.#pendingEnds = steps.filter(({ tag }) => tag !== undefined).length
    for (const [i, query] of queries.entries()) {
      const sent = {
        step: steps[i] as Step,
        query,
        prepare: prepare[i] === true,
        wasPrepared: wasPrepared[i] === true
      }
      query.then(answer => this.#readAnswer(sent.step, answer), error => {
        this.#readError(sent, error)
      })
    }
    reset.then(undefined, () => {
      connection.state.retired = true
    })
  }

  #readAnswer ({ place, tag, ignoreAnswer }: Step, answer: RawResult): void {
    if (this.#protocolViolation || ignoreAnswer === true) return
    if (tag === undefined) {
      if (isAnswer(answer, place)) this.#takeRow(place, answer)
      else this.#rejectAnswers(answer)
      return
    }
    if (answer.command === 'COMMIT' && this.#firstError !== undefined) {
      this.#rejectAnswers()
      return
    }
    this.#resolveFailure()
    if (answer.command === tag && --this.#pendingEnds === 0) {
      this.#outcome.resolve({ kind: 'committed', rows: this.#rows, times: this.#times })
    }
  }

  #takeRow (place: Place, answer: RawResult): void {
    if (place === 'key') {
      this.#keyClaimed = true
      return
    }
    const [cell, ...details] = answer[0] as readonly [Buffer | null, ...Buffer[]]
    const now = performance.now()
    if (place !== 'session') {
      this.#times.operations.push(now)
      this.#rows.push(cell as Buffer)
      return
    }
    this.#times.sessionSet = now
    if (cell === null) return
    const [serverStarted, reportedAt] = details.map(String) as [string, string]
    this.#transactionId = { xid: cell.toString(), serverStarted, reportedAt }
  }

  #readError ({ step, query, prepare, wasPrepared }: SentStep, error: unknown): void {
    if (!isStatementError(error)) {
      if (!this.#connection.state.dead) this.#rejectAnswers()
      return
    }
    this.#firstError ??= { error, at: step.place, wasPrepared: wasPrepared && prepare }
    if (step.tag !== undefined) this.#resolveFailure()
    // A statement that failed while it ran is prepared all the same.
    if (prepare && !isPrepared(query)) {
      this.#connection.prepared.delete(step.statement.text)
    }
  }

  /** Handles a violation of the protocol. */
  #rejectAnswers (answer?: unknown): void {
    this.#protocolViolation = true
    // postgres.js answers COPY with a stream; without a listener its error would end the process.
    if (answer instanceof Writable) answer.on('error', () => {})
    destroyConnection(this.#connection)
  }

  #resolveFailure (): void {
    if (this.#firstError === undefined) return
    this.#outcome.resolve({ kind: 'failed', ...this.#firstError, times: this.#times })
  }

  /** Resolves the outcome if it is still open. `refusal`: BEGIN or the last COMMIT was refused. */
  #finish (refusal: unknown): void {
    const { backend, fatalErrors, state } = this.#connection
    state.onLost = undefined
    if (!this.#sent && isImpossibleMode(refusal, this.#batch.mode)) {
      this.#firstError = { error: refusal, at: 'session' }
    }
    if (!this.#protocolViolation) this.#resolveFailure()
    // Once all operations are answered a FATAL error shows nothing: COMMIT may have run. A pooler
    // also reports FATAL when it loses its server.
    const rolledBack = backend !== undefined && fatalErrors.fatal &&
      this.#rows.length < this.#batch.operations.length
    this.#outcome.resolve({
      kind: 'lost',
      sent: this.#sent,
      rolledBack,
      keyClaimed: this.#keyClaimed,
      transactionId: this.#transactionId,
      rows: this.#rows,
      times: this.#times
    })
    // After a refusal postgres.js does not use the connection again, and queries on it would wait
    // for ever.
    if (refusal !== undefined) state.retired = true
  }
}

/** A step on its way. */
interface SentStep {
  readonly step: Step
  readonly query: SentQuery
  readonly prepare: boolean
  readonly wasPrepared: boolean
}

/** Everything is explicit, because a trigger may have changed default_transaction_*. */
function beginOptions ({ isolation, access }: TransactionMode): string {
  return `isolation level ${isolation} ${access} not deferrable`.replaceAll('-', ' ')
}

/**
 * Whether BEGIN was refused for what the client requested: a standby has no serializable isolation
 * (0A000). That a standby cannot write is the state of the server, not an error of the batch.
 */
function isImpossibleMode (refusal: unknown, mode: TransactionMode): refusal is DatabaseError {
  return isStatementError(refusal) && refusal.code === SqlState.feature_not_supported &&
    mode.access === 'read-only'
}

/**
 * Uncorks after the last write, the COMMIT of `sql.begin`. postgres.js writes from microtasks,
 * which are done before the next tick, and from setImmediate.
 */
function uncorkWhenWritten (connection: Connection, queries: readonly SentQuery[]): void {
  process.nextTick(() =>
    setImmediate(() => {
      queries.forEach(disableRepeat)
      connection.socket.uncork()
    })
  )
}

/** Whether it is the one row of the statement: the session has several columns, others have one. */
function isAnswer (answer: RawResult, place: Place): boolean {
  const [row] = Array.isArray(answer) && answer.length === 1 ? answer : []
  if (row === undefined) return false
  if (place === 'session') return row[0] === null || row.length > 2
  return place === 'key' || Buffer.isBuffer(row[0])
}

/** An error of one statement, on a connection that stays usable. */
function isStatementError (error: unknown): error is DatabaseError {
  return error instanceof postgres.PostgresError && error.severity === 'ERROR'
}
