/**
 * Runs a transaction once, with the only `sql.begin` of the service. Everything is sent in one
 * write, so no lock is held while the network is slow:
 *
 *     BEGIN, session, operation 1 … n, COMMIT                                 one round trip
 *
 * After an error the server skips the rest, which is sent again: a second round trip, in which
 * nothing is locked.
 *
 * The outcome is known when COMMIT is answered. If an operation can run code of the database, the
 * reset of the connection follows; steps.ts has the details. If the server reports that a setting
 * of the session has changed all the same, the connection is reset before it is released.
 *
 * The BEGIN and COMMIT of `sql.begin` are among these statements; see driver-socket.ts. On a
 * connection that was quiet, BEGIN is sent first and its answer awaited: it shows that the
 * connection lives.
 *
 * Where operations are sent one by one, each is sent when the one before it is answered, and what
 * ends the transaction follows the last one; sequence.ts decides that.
 *
 * This file reports what happened; execute.ts and to-failure.ts decide what follows from it.
 */
import { failure } from '../errors/catalogue.ts'
import { parameterAtError, type DatabaseError } from '../errors/database-error.ts'
import { withLaterCondition } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'
import {
  destroyConnection,
  hasChangedSettings,
  type Connection,
  type ConnectionState
} from '../postgres/connection.ts'
import {
  encodePipeline,
  type AnswerHandler,
  type Pipeline,
  type Request
} from '../postgres/pipeline.ts'
import { runsCode, type CompiledBatch, type TransactionMode } from '../sql/frame/compiled-batch.ts'
import { POSITION } from '../sql/frame/server-state.ts'
import {
  beginOptions,
  buildEnd,
  buildFinish,
  buildOperations,
  buildParts,
  buildReset,
  buildStart,
  isJoined,
  type Step
} from '../sql/frame/steps.ts'
import { readRaised } from '../sql/statement/raised-error.ts'
import { placeOfParameter } from '../sql/statement/statement.ts'
import { Answers } from './answers.ts'
import { isCommitUncertain } from './lost-commit.ts'
import type { AttemptOutcome, Failed, Lost, RowSink } from './outcome.ts'
import { Sequence } from './sequence.ts'

/** Runs as the login role, because COMMIT has reset the role. */
const READ_POSITION: Request = { text: POSITION, parameters: [], name: '', parse: true }

/** A connection that answered within this time is taken to be alive. */
const MAX_QUIET_MS = 100

interface AttemptOptions {
  /** If it is aborted before the statements are written, the attempt sends nothing. */
  readonly clientClosed?: AbortSignal | undefined
  /** Takes the rows of the only operation. If the client closes, so does the connection. */
  readonly rowSink?: RowSink | undefined
}

/**
 * Maximum bytes of an answer in addition to the rows that PostgreSQL counts: results that are too
 * small to be counted, errors and notices.
 */
const UNCOUNTED_BYTES = 16 * 1024 * 1024

/**
 * The callback of `begin`. It has no reference to the attempt, because postgres.js keeps it in
 * functions that only a major garbage collection frees: 18 KB of each batch outlived all minor
 * ones.
 */
function callbackOf (state: ConnectionState): () => Promise<void> | undefined {
  return () => state.transaction?.()
}

/**
 * How far the attempt is:
 * - `sent`: the server has answered nothing
 * - `answered`: it has answered something
 * - `ended`: COMMIT was answered, and only the position is missing
 */
type Progress = 'not sent' | 'sent' | 'answered' | 'ended' | 'committed'

/**
 * The answer to BEGIN:
 * - `failed`: an error of the batch or of the connection
 * - `refused`: an error after which the connection cannot be used
 * - `standby`: the same, because the server is a standby
 */
type Begin = 'accepted' | 'failed' | 'refused' | 'standby'

/**
 * Why the service closed the connection: the server violated the protocol, so no answer counts and
 * the state of the transaction is looked up; or the answers are larger than allowed.
 */
type Break = 'protocol' | 'size'

export class Attempt implements AnswerHandler {
  /** Resolves as soon as the outcome is known. Does not reject. */
  readonly outcome: Promise<AttemptOutcome>
  /** Resolves when the connection is free for the next transaction. Does not reject. */
  readonly released: Promise<void>
  readonly maxBytes: number
  readonly passedOn: boolean
  readonly #options: AttemptOptions
  readonly #connection: Connection
  readonly #batch: CompiledBatch
  readonly #outcome = Promise.withResolvers<AttemptOutcome>()
  /** Ends the callback of `sql.begin`. */
  readonly #answered = Promise.withResolvers<void>()
  readonly #answers: Answers
  /** Decides what is sent next; undefined: everything is sent at once. */
  readonly #sequence: Sequence | undefined
  /** The steps that were sent or are about to be. */
  readonly #steps: Step[] = []
  readonly #requests: Request[] = []
  /** The number of steps whose answers were complete when the last ones were sent. */
  #answeredSteps = 0
  #pipeline: Pipeline
  /** What ends the transaction is sent. */
  #isEnding: boolean
  /** Whether `sql.begin` has begun the transaction. */
  readonly #begunByDriver: boolean
  #progress: Progress = 'not sent'
  #begin: Begin = 'accepted'
  #break: Break | undefined
  /** COMMIT has failed, and the connection is not reset yet. */
  #mustReset = false
  /** What resets the connection is sent. */
  #isReset = false
  /** The first error of the server. Later ones follow from it. */
  #firstError: Omit<Failed, 'kind' | 'rows' | 'times'> | undefined

  /**
   * Starts the attempt on a connection that is reserved for it. All that can throw is done first:
   * an error leaves the connection as it was.
   */
  constructor (connection: Connection, batch: CompiledBatch, options: AttemptOptions = {}) {
    this.#options = options
    this.passedOn = options.rowSink !== undefined
    this.#connection = connection
    this.#batch = batch
    this.maxBytes = batch.maxBytes + UNCOUNTED_BYTES
    this.#answers = new Answers(connection.server, options.rowSink)
    this.#begunByDriver = performance.now() - connection.socket.heardAt > MAX_QUIET_MS
    this.#sequence = batch.separate &&
      new Sequence(batch.separate(), this.#answers, options.rowSink)
    const start = buildStart(batch, connection, !this.#begunByDriver)
    this.#isEnding = this.#sequence === undefined
    this.#pipeline = this.#isEnding
      ? this.#encodeEnd([...start, ...buildOperations(batch, connection), ...buildFinish(batch)])
      : encodePipeline([this.#addSteps(start)])
    this.outcome = this.#outcome.promise
    this.released = this.#start()
  }

  /** Adds steps, and returns them as they are sent. */
  #addSteps (steps: readonly Step[]): readonly Request[] {
    const { comment = '', unprepared = false, writes, key } = this.#batch
    const statements = steps.map(({ statement }) =>
      comment !== '' || unprepared
        ? { ...statement, text: statement.text + comment, prepare: false }
        : statement
    )
    // The id of the transaction is needed if the connection is lost while operations run, unless a
    // key shows the outcome.
    const flushes = writes && key === undefined && this.#isEnding
    const requests = this.#connection.prepared.toRequests(statements).map((request, i) =>
      flushes && steps[i]?.answer === 'session' ? { ...request, flush: true } : request
    )
    this.#steps.push(...steps)
    this.#requests.push(...requests)
    return requests
  }

  /** Encodes the last steps and what ends the transaction. */
  #encodeEnd (steps: readonly Step[], batch = this.#batch): Pipeline {
    const [end, ...reset] = buildEnd(batch, this.#connection)
    const position = batch.returnsPosition === true ? [[READ_POSITION]] : []
    const groups = [end, ...position, ...reset]
    return steps.length === 0
      ? encodePipeline(groups)
      : encodePipeline([this.#addSteps(steps), ...groups], isJoined(batch, this.#connection))
  }

  #start (): Promise<void> {
    const { client, socket, state } = this.#connection
    const { clientClosed, rowSink } = this.#options
    const close = (): void => destroyConnection(this.#connection)
    if (rowSink !== undefined) clientClosed?.addEventListener('abort', close)
    const released = Promise.withResolvers<void>()
    const finish = (refusal?: unknown): void => {
      clientClosed?.removeEventListener('abort', close)
      this.#finish(refusal)
      released.resolve()
    }
    if (!this.#begunByDriver) socket.answerBegin()
    const run = (): Promise<void> => this.#run()
    state.transaction = run
    const begun = client.begin(beginOptions(this.#batch.mode), callbackOf(state))
    // `begin` does not settle when the connection ends shortly after BEGIN was answered: it listens
    // for the end only some time later. Answers that came before the end are read first.
    const lose = (): void => queueMicrotask(finish)
    state.onLost = lose
    begun.then(() => finish(), finish)
    return released.promise
  }

  /**
   * The callback of `begin`. On a dead connection it sends nothing and never settles: postgres.js
   * would write to a closed socket. `begin` rejects without it.
   */
  #run (): Promise<void> {
    if (this.#connection.state.dead) return this.#answered.promise
    if (this.#options.clientClosed?.aborted === true) {
      this.#firstError = { error: failure('client_closed_request'), at: 'session' }
      if (!this.#begunByDriver) this.#connection.socket.answerCommit()
      this.#answered.resolve()
    } else this.#send()
    return this.#answered.promise
  }

  #send (): void {
    this.#progress = 'sent'
    this.#answers.begin()
    this.#pipeline.send(this.#connection.socket, this)
  }

  parsed (answered: number): void {
    const { name, text } = this.#requests[this.#numberOf(answered)] ?? READ_POSITION
    if (name !== '') this.#connection.prepared.names.set(text, name)
  }

  closed (): void {
    this.#connection.prepared.replaced.shift()
  }

  /** A failover may lose the transaction, so its state is looked up, as after a lost connection. */
  unreplicated (): void {
    destroyConnection(this.#connection)
  }

  /** The number of a request among all steps. */
  #numberOf (request: number): number {
    return this.#answeredSteps + request
  }

  row (answered: number, body: Buffer): void {
    if (this.#answers.addRow(this.#steps[this.#numberOf(answered)]?.answer, body)) return
    const { socket } = this.#connection
    socket.pause()
    const resume = (): void => socket.resume()
    ;(this.#options.rowSink as RowSink).onReady = resume
  }

  completed (answered: number, tag: string): void {
    const request = this.#numberOf(answered)
    this.#answer()
    const cell = this.#answers.complete(this.#steps[request] ?? {})
    if (cell === undefined) this.violated()
    else if (request === this.#steps.length) this.#completeEnd(tag)
    else if (request > this.#steps.length && this.#progress === 'ended') {
      this.#commit(cell.toString())
    }
  }

  #completeEnd (tag: string): void {
    if (this.#isRefused()) return
    // Without a transaction, COMMIT does nothing and succeeds.
    if (this.#firstError !== undefined && this.#begin === 'accepted' && tag === 'COMMIT') {
      this.violated()
      return
    }
    this.#resolveFailure()
    // A COMMIT of a failed transaction returns the tag ROLLBACK and no error.
    if (tag !== this.#batch.mode.tx.toUpperCase()) return
    if (this.#batch.returnsPosition === true) this.#progress = 'ended'
    else this.#commit()
  }

  #commit (position = ''): void {
    this.#progress = 'committed'
    this.#outcome.resolve({
      kind: 'committed',
      rows: this.#answers.rows,
      ...position !== '' && { position },
      txid: this.#answers.transactionId?.xid,
      times: this.#answers.times(this.#batch.count)
    })
  }

  failed (answered: number, error: DatabaseError): void {
    const request = this.#numberOf(answered)
    this.#answer()
    if (request === this.#steps.length && isCommitUncertain(error)) {
      // The state of the transaction is looked up, as after a lost connection.
      destroyConnection(this.#connection)
      return
    }
    const { answer, place = 'commit', statement } = this.#steps[request] ?? {}
    const { text: query = '', name = '', parse } = this.#requests[request] ?? {}
    const wasPrepared = name !== '' && parse === false
    const isDeallocated = wasPrepared && error.code === SqlState.invalid_sql_statement_name
    if (answer === 'begin') {
      const { code } = error
      const refusal = code === SqlState.feature_not_supported ? 'standby' : 'refused'
      this.#begin = isDeallocated || isImpossibleMode(error, this.#batch.mode) ? 'failed' : refusal
    }
    // After COMMIT, it was the position or the reset that failed.
    if (this.#isRefused() || request > this.#steps.length) this.#connection.state.retired = true
    if (request <= this.#steps.length && !this.#isRefused()) {
      const first = { ...withLaterCondition(error), query }
      this.#firstError ??= {
        error: first,
        at: place,
        wasPrepared,
        raised: readRaised(first, statement?.issues),
        place: statement && placeOfParameter(statement, parameterAtError(error) ?? 0)
      }
    }
    if (request === this.#steps.length) {
      this.#mustReset = runsCode(this.#batch) && isJoined(this.#batch, this.#connection)
      this.#resolveFailure()
    }
    if (this.#progress === 'ended') this.#commit()
  }

  #answer (): void {
    if (this.#progress === 'sent') this.#progress = 'answered'
  }

  /** Nothing ran, because the connection cannot be used. */
  #isRefused (): boolean {
    return this.#begin === 'refused' || this.#begin === 'standby'
  }

  finished (): void {
    const mustReset = this.#mustReset || hasChangedSettings(this.#connection)
    if (!this.#isEnding) this.#continue()
    else if (mustReset && !this.#isReset) this.#reset()
    else this.#release()
  }

  /** Sends the next operation, or what ends the transaction. */
  #continue (): void {
    this.#answeredSteps = this.#steps.length
    this.#pipeline = this.#encodeNext()
    this.#pipeline.send(this.#connection.socket, this)
  }

  #encodeNext (): Pipeline {
    const batch = this.#batch
    const sequence = this.#sequence as Sequence
    const next = this.#firstError === undefined
      ? sequence.next()
      : { kind: 'failed', failed: this.#firstError } as const
    if (next.kind === 'operation') {
      const { statements, index } = next
      const steps = buildParts(statements, index, batch, this.#connection)
      return encodePipeline([this.#addSteps(steps)])
    }
    this.#isEnding = true
    if (next.kind === 'end') {
      return this.#encodeEnd(buildFinish(batch, this.#answers.rows.map(String)))
    }
    this.#firstError = next.failed
    return this.#encodeEnd([], { ...batch, mode: { ...batch.mode, tx: 'rollback' } })
  }

  /**
   * Resets the connection if COMMIT failed, and with it the reset in the same text, or if code that
   * the catalogue did not show has changed the session. The answers are like those after COMMIT.
   */
  #reset (): void {
    this.#isReset = true
    this.#answeredSteps = this.#steps.length + 1
    encodePipeline(buildReset(this.#connection)).send(this.#connection.socket, this)
  }

  /** A connection that is still changed is replaced. */
  #release (): void {
    const { socket, state } = this.#connection
    state.retired ||= hasChangedSettings(this.#connection)
    socket.answerCommit()
    this.#answered.resolve()
  }

  violated (): void {
    this.#break ??= 'protocol'
    destroyConnection(this.#connection)
  }

  /**
   * Called when the server sends more than `maxBytes`. PostgreSQL itself limits the rows, but not
   * if a function resets the settings of the transaction, not in query plans, and not for all
   * workers of Citus. An error can quote a value of any size.
   */
  exceeded (): void {
    this.#break ??= 'size'
    destroyConnection(this.#connection)
  }

  #resolveFailure (): void {
    if (this.#firstError === undefined) return
    this.#outcome.resolve({
      kind: 'failed',
      ...this.#firstError,
      rows: this.#answers.rows,
      times: this.#answers.times(this.#batch.count)
    })
  }

  /** Resolves the outcome if it is still open. `refusal`: BEGIN was refused, or `begin` failed. */
  #finish (refusal: unknown): void {
    const { state } = this.#connection
    state.onLost = undefined
    // `begin` may still call it on a dead connection, where it must not settle.
    if (!state.dead) state.transaction = undefined
    if (this.#progress === 'not sent' && isImpossibleMode(refusal, this.#batch.mode)) {
      this.#firstError = { error: refusal, at: 'session' }
    } else if (codeOf(refusal) === SqlState.feature_not_supported) this.#begin = 'standby'
    if (this.#progress === 'ended') this.#commit()
    if (this.#break !== 'protocol') this.#resolveFailure()
    // It has no effect if the outcome was resolved before.
    if (this.#progress !== 'committed') this.#outcome.resolve(this.#describeLoss())
    // After a refusal postgres.js does not use the connection again, and queries on it would wait
    // for ever.
    if (refusal !== undefined) state.retired = true
  }

  #describeLoss (): Lost {
    const { backend, socket } = this.#connection
    const { count } = this.#batch
    const { rows, keyClaimed, transactionId } = this.#answers
    // Once all operations are answered a FATAL error shows nothing: COMMIT may have run. A pooler
    // also reports FATAL when it loses its server.
    const rolledBack = !this.#isEnding ||
      (backend !== undefined && socket.fatal && this.#break !== 'protocol' && rows.length < count)
    const hasBegun = this.#progress !== 'sent' || this.#begunByDriver
    return {
      kind: 'lost',
      sent: this.#progress !== 'not sent' && !this.#isRefused() && (hasBegun || !rolledBack),
      rolledBack,
      keyClaimed,
      isStandby: this.#begin === 'standby',
      isTooLarge: this.#break === 'size',
      transactionId,
      rows: this.#break === 'protocol' ? [] : rows,
      times: this.#answers.times(count)
    }
  }
}

/**
 * Whether BEGIN was refused for what the client requested: a standby has no serializable isolation
 * (0A000). That a standby cannot write is the state of the server, not an error of the batch.
 */
function isImpossibleMode (refusal: unknown, mode: TransactionMode): refusal is DatabaseError {
  const { severity, code } = (refusal ?? {}) as Partial<DatabaseError>
  return severity === 'ERROR' && code === SqlState.feature_not_supported &&
    mode.access === 'read-only'
}

function codeOf (refusal: unknown): string | undefined {
  return (refusal as Partial<DatabaseError> | undefined)?.code
}
