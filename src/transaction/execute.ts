/**
 * Executes one batch on a pooled connection, and again as long as that is safe and can succeed.
 * retry-policy.ts decides about the next attempt; lost-commit.ts finds out whether a transaction
 * was committed although its connection was lost.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { failure, withReason, type Failure, type FailureCode } from '../errors/catalogue.ts'
import { SqlState } from '../errors/sqlstates.ts'
import type { TableName } from '../plan/nodes.ts'
import { destroyConnection, query, type Connection } from '../postgres/connection.ts'
import { Lease, withConnection, type ConnectionPool } from '../postgres/pool.ts'
import {
  mayCommit,
  refuseOperations,
  type CompiledBatch,
  type LearnedTypes,
  type TypesQuery
} from '../sql/frame/compiled-batch.ts'
import type { Place } from '../sql/frame/steps.ts'
import type { Statement } from '../sql/statement/statement.ts'
import type { RefusedValue } from '../sql/statement/slot.ts'
import { Attempt } from './attempt.ts'
import { resolveKeyFailure } from './key-failure.ts'
import { resolveLostCommit } from './lost-commit.ts'
import type {
  AttemptOutcome,
  BatchOutcome,
  Lost,
  Refusal,
  RetryReason,
  RowSink
} from './outcome.ts'
import { acquireAtPosition, readPosition, type NeededPosition } from './position.ts'
import {
  decide,
  isConnectionStale,
  isStatementStale,
  mayKnowOldTypes,
  MAX_ATTEMPTS,
  MAX_INTERNAL_ERRORS,
  type AttemptResult,
  type Retry,
  type RetryBudget
} from './retry-policy.ts'
import { responseTooLarge } from './to-failure.ts'

export interface ExecuteOptions {
  /** The outcome is known by then, if possible: a time of performance.now(). */
  readonly deadline: number
  /** The server must have this position, by this time of performance.now(). */
  readonly needs?: NeededPosition | undefined
  /** Aborted when the client has disconnected. Nothing is sent to the database after that. */
  readonly clientClosed?: AbortSignal | undefined
  /** Whether there is memory for the rows of the batch; called when it has a connection. */
  readonly mayBegin?: (() => boolean) | undefined
  /** Takes the rows. When it has one, the batch is not run again. */
  readonly rowSink?: RowSink | undefined
  /** Called before each attempt after the first. */
  readonly onRetry?: ((reason: RetryReason) => void) | undefined
}

/**
 * Attempts that may lose their connection, if the batch cannot be committed twice: it commits
 * nothing, or it has a key. Not more, because the batch itself may be the reason: a statement that
 * takes all memory restarts the server.
 */
const MAX_LOSSES = 2

/** A tenth of the time, at most this much, is reserved for finding out about a lost COMMIT. */
const MAX_RESERVE_MS = 1000

/**
 * Longest search for the state of a transaction without a key, e.g. while the server restarts, and
 * for the stored response of a batch that failed.
 */
const LOOKUP_TIMEOUT_MS = 5000

/** Errors that say that there is no connection. */
const NO_CONNECTION: ReadonlySet<string> = new Set<FailureCode>([
  'overloaded',
  'database_unavailable',
  'deadline_exceeded'
])

/**
 * Executes the batch until its outcome is known. Throws `overloaded`, `database_unavailable`,
 * `shutting_down`, `deadline_exceeded`, `client_closed_request` or `ReplicaBehind` when nothing
 * was sent or nothing is committed.
 */
export async function executeBatch (
  pool: ConnectionPool,
  batch: CompiledBatch,
  options: ExecuteOptions
): Promise<BatchOutcome> {
  const { returnsPosition } = batch
  const outcome = await runAttempts(pool, batch, options)
  // There is no position if COMMIT was lost, or if the response was stored with the key.
  if (returnsPosition !== true || outcome.kind !== 'committed') return outcome
  if (outcome.position !== undefined) return outcome
  return { ...outcome, ...await readPosition(pool, options.deadline) }
}

async function runAttempts (
  pool: ConnectionPool,
  batch: CompiledBatch,
  options: ExecuteOptions
): Promise<BatchOutcome> {
  const { deadline } = options
  const softDeadline = deadline - Math.min(MAX_RESERVE_MS, (deadline - performance.now()) / 10)
  const budget: RetryBudget = {
    // Every connection of the pool may be dead after a restart of the server, or hold statements
    // that a function has prepared or deallocated.
    connections: 2 * pool.size + 1,
    standbys: 2,
    losses: mayCommit(batch.mode) && batch.key === undefined ? 1 : MAX_LOSSES,
    conflicts: MAX_ATTEMPTS,
    internal: MAX_INTERNAL_ERRORS,
    softDeadline
  }
  const run = { pool, batch, softDeadline, ...options }
  let unprepared = false
  let last = await runAttempt(run, { unprepared })
  // The outcome of an attempt whose statements a pooler may still send to the server.
  let open: BatchOutcome | undefined
  for (;;) {
    const lost = await resolveLoss(last, run)
    if (lost?.final === true) return lost.outcome
    if (lost?.outcome.kind === 'unknown') open = lost.outcome
    const known = open ?? lost?.outcome
    const retry = isPassedOn(options.rowSink) ? undefined : decide(last, budget)
    if (retry === undefined) {
      if (last.outcome.kind === 'committed') return last.outcome
      return known ?? conclude(last, softDeadline)
    }
    if (retry.pauseMs > 0) await delay(retry.pauseMs)
    unprepared ||= retry.unprepared
    // The response if there is no connection for another attempt.
    const { outcome } = last
    const answer = known ??
      (outcome.kind === 'failed' && !isConnectionStale(last) ? outcome : undefined)
    const next = await runAttempt(run, { unprepared }, retry.reason).catch((error: unknown) => {
      const { code } = error as Failure
      if (known === undefined && (answer === undefined || !NO_CONNECTION.has(code))) throw error
    })
    if (next === undefined) return answer as BatchOutcome
    // The connection keeps statements for former types.
    if (isStatementStale(outcome) && codeOf(next.outcome) !== codeOf(outcome)) {
      last.connection.state.retired = true
    }
    last = next
  }
}

/** Whether the client has rows already. */
function isPassedOn (rowSink: RowSink | undefined): boolean {
  return rowSink !== undefined && rowSink.count > 0
}

function codeOf (outcome: AttemptOutcome): string | undefined {
  return outcome.kind === 'failed' ? outcome.error.code : undefined
}

/** The outcome of a batch that is not run again. */
function conclude (
  { outcome, typesChanged }: AttemptResult,
  softDeadline: number
): BatchOutcome {
  if (outcome.kind === 'failed' && typesChanged) {
    return { ...outcome, error: TYPES_CHANGED, raised: undefined }
  }
  if (outcome.kind !== 'lost') return outcome
  if (outcome.isStandby) {
    const message = 'The database is a standby, which accepts no writes.'
    throw withReason(failure('database_unavailable', message), STANDBY)
  }
  throw failure(performance.now() >= softDeadline ? 'deadline_exceeded' : 'database_unavailable')
}

/** Replaces the error of an attempt whose types were outdated, which may be the cause. */
const TYPES_CHANGED = {
  code: SqlState.serialization_failure,
  message: 'The columns or functions of the batch were changed during each of its attempts.'
}

const STANDBY = 'the server is a standby: connect to the primary, or list it and set ' +
  'target_session_attrs=primary'

/** What all attempts of a batch share. */
interface Run extends ExecuteOptions {
  readonly pool: ConnectionPool
  readonly batch: CompiledBatch
  /** Attempts end by then. */
  readonly softDeadline: number
}

interface FinishedAttempt extends AttemptResult {
  readonly connection: Connection
}

async function runAttempt (
  { pool, batch: compiled, softDeadline, deadline, needs, onRetry = () => {}, ...options }: Run,
  { unprepared }: Pick<Retry, 'unprepared'>,
  reason?: RetryReason
): Promise<FinishedAttempt> {
  const { clientClosed, mayBegin, rowSink } = options
  const acquire = async (): Promise<Lease> =>
    new Lease(pool, await pool.acquire(softDeadline, { retry: reason !== undefined, clientClosed }))
  using lease = needs === undefined
    ? await acquire()
    : await acquireAtPosition({ ...needs, deadline: softDeadline }, acquire)
  const { connection } = lease
  if (mayBegin?.() === false) throw failure('overloaded')
  if (reason !== undefined) onRetry(reason)
  const batch = chooseBatch(compiled, connection)
  lease.endBy(softDeadline)
  const hasRoleSettings = connection.roleSettings.has(batch.role)
  await learnTypes(connection, batch)
  readAgingTypes(pool, batch)
  if (batch !== compiled) batch.operations()
  const refusal = await findRefusal(connection, batch)
  const sent = refusal === undefined
    ? { ...batch, unprepared }
    : refuseOperations(batch, tablesOf(refusal, batch))
  const attempt = new Attempt(connection, sent, { clientClosed, rowSink })
  lease.free = attempt.released
  let outcome = await attempt.outcome
  if (refusal !== undefined) outcome = toRefused(outcome, refusal)
  const typesChanged = refusal === undefined && !isPassedOn(rowSink) &&
    await areTypesChanged(sent, { outcome, lease })
  if (outcome.kind === 'failed' && batch.key !== undefined) {
    await lease.free
    const until = Math.min(deadline, performance.now() + LOOKUP_TIMEOUT_MS)
    outcome = await resolveKeyFailure(outcome, { key: batch.key, connection, pool, until })
  }
  const result = { outcome, hasRoleSettings, typesChanged, connection }
  if (isConnectionStale(result)) connection.state.retired = true
  return result
}

/** Returns the batch as the engine needs it. Throws what Citus cannot do. */
function chooseBatch (batch: CompiledBatch, { engine }: Connection): CompiledBatch {
  return engine === 'postgresql' ? batch : batch.oneByOne?.(engine) ?? batch
}

/**
 * Reads the types that are not known before the batch begins. If others are known than those for
 * which it was compiled, it is compiled again.
 */
async function learnTypes (connection: Connection, { types }: CompiledBatch): Promise<void> {
  const unknown = types?.unknown()
  if (unknown !== undefined) await readTypes(connection, unknown)
  types?.renew()
}

/**
 * Returns why the batch cannot run: it names a table or a column that the database does not have,
 * or types of columns refuse values. A table that is not known has just been read. Otherwise the
 * tables are read again, because DDL may have changed them since.
 */
async function findRefusal (
  connection: Connection,
  { types, operations }: CompiledBatch
): Promise<Refusal | undefined> {
  if (types === undefined) return undefined
  const find = (): Refusal | undefined => {
    const name = types.unknownName()
    if (name !== undefined) return { kind: 'name', name, index: name.index }
    const values = listRefused(operations())
    const [first] = values
    return first && { kind: 'values', values, index: first.index }
  }
  const found = find()
  if (found === undefined) return undefined
  if (found.kind === 'name' && found.name.column === undefined) return found
  await readTypes(connection, types.all())
  types.renew()
  return find()
}

function listRefused (statements: readonly Statement[]): readonly RefusedValue[] {
  return statements.flatMap(({ refused = [] }, index) =>
    refused.map(value => ({ ...value, index })))
}

/** The outcome of an attempt with refuseOperations, as that of the operation that is refused. */
function toRefused (outcome: AttemptOutcome, refusal: Refusal): AttemptOutcome {
  if (outcome.kind !== 'failed' || typeof outcome.at !== 'number') return outcome
  const failed = { ...outcome, at: refusal.index }
  if (outcome.raised?.kind !== 'refused') return failed
  return { ...failed, error: { code: codeOfRefusal(refusal), message: 'It is refused.' }, refusal }
}

function tablesOf (refusal: Refusal, { types }: CompiledBatch): readonly TableName[] {
  return refusal.kind === 'name' ? [refusal.name.table] : (types as LearnedTypes).tables
}

function codeOfRefusal (refusal: Refusal): string {
  if (refusal.kind === 'values') return SqlState.data_exception
  return refusal.name.column === undefined ? SqlState.undefined_table : SqlState.undefined_column
}

/** Reads types again on a connection of its own. If that fails, the next batch will read them. */
function readAgingTypes (pool: ConnectionPool, { types }: CompiledBatch): void {
  const aging = types?.aging()
  if (aging === undefined) return
  const { text, remember } = aging
  withConnection(pool, performance.now() + LOOKUP_TIMEOUT_MS, async connection => {
    const [row = {}] = await query(connection, text)
    remember(row)
  }).catch(() => {})
}

/** Reads types. If that fails, it closes the connection, so an attempt on it fails as well. */
export async function readTypes (
  connection: Connection,
  { text, remember }: TypesQuery
): Promise<void> {
  try {
    const [row = {}] = await query(connection, text)
    remember(row)
  } catch {
    destroyConnection(connection)
  }
}

/**
 * Reads the types of a batch again after a failure that outdated ones could explain. A check of
 * types that has failed shows that they changed, also if they have changed back.
 */
async function areTypesChanged (
  { types }: CompiledBatch,
  { outcome, lease }: { readonly outcome: AttemptOutcome, readonly lease: Lease }
): Promise<boolean> {
  if (types === undefined || !mayKnowOldTypes(outcome)) return false
  await lease.free
  await readTypes(lease.connection, types.all())
  return types.renew() || outcome.raised?.kind === 'types'
}

/** The outcome of an attempt whose COMMIT was lost; undefined: it was not. */
async function resolveLoss (
  { outcome: lost, connection: { backend } }: FinishedAttempt,
  { pool, batch, softDeadline, deadline }: Run
): Promise<{ readonly outcome: BatchOutcome, readonly final: boolean } | undefined> {
  if (lost.kind !== 'lost' || !lost.sent) return undefined
  const late = performance.now() >= softDeadline
  const { rows, times } = lost
  const until = batch.key === undefined
    ? Math.min(deadline, performance.now() + LOOKUP_TIMEOUT_MS)
    : deadline
  const verdict = await resolveLostCommit(pool, { batch, lost, backend }, until)
  switch (verdict.kind) {
    case 'committed':
      return { outcome: { ...verdict, times }, final: true }
    case 'rolled back': {
      const error = lost.isTooLarge
        ? responseTooLarge(batch.maxBytes, { op: null, index: null })
        : lossError(late)
      return {
        outcome: { kind: 'failed', error, at: findLoss(lost, batch), rows, times },
        final: lost.isTooLarge
      }
    }
    default:
      return {
        outcome: { kind: 'unknown', committed: verdict.kind === 'rows lost', rows, times },
        final: verdict.kind !== 'absent'
      }
  }
}

function lossError (late: boolean): Failure | { readonly code: string, readonly message: string } {
  if (late) return failure('deadline_exceeded')
  return {
    code: SqlState.connection_failure,
    message: 'The connection to the database was lost; nothing was committed.'
  }
}

/**
 * The place of a loss: the first statement that was not answered. Before a server ends a connection
 * (`rolledBack`), it sends the answers that it has. When the network is lost, no answer has
 * arrived, because all of them are sent together; then the operation that was running is not known.
 */
function findLoss ({ rolledBack, times }: Lost, { count }: CompiledBatch): Place {
  const answered = times.operations.length
  if (answered === count) return 'commit'
  return rolledBack && times.sessionSet !== undefined ? answered : 'session'
}
