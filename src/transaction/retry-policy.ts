/**
 * Decides after each attempt whether another one can succeed, why, and in which variant.
 */
import { classOf, isValueError, SqlState, SqlStateClass } from '../errors/sqlstates.ts'
import type { AttemptBatch, AttemptVariant } from '../sql/frame/compiled-batch.ts'
import { readRaised, type RaisedKind } from '../sql/statement/raised-error.ts'
import type { AttemptOutcome, Failed, RetryReason } from './outcome.ts'

/**
 * Maximum number of attempts that end with a deadlock or serialization failure. After that, the
 * client may try again later.
 */
export const MAX_ATTEMPTS = 15

/**
 * Maximum number of attempts that end with an internal error. With a function that was replaced
 * without a pause, one attempt in 13 did.
 */
export const MAX_INTERNAL_ERRORS = 5

/** Longest pause before an attempt after a conflict, in milliseconds. */
const MAX_PAUSE_MS = 1000

/** The attempts that are left, by what they are spent on. */
export interface RetryBudget {
  /** Connections that turn out to be unusable. */
  connections: number
  /** Connections that are lost after COMMIT was sent. */
  losses: number
  /** Deadlocks and serialization failures. */
  conflicts: number
  /** Types that have changed since the operations were compiled. */
  types: number
  /** Errors that PostgreSQL calls internal. */
  internal: number
  /** No attempt starts after this time of performance.now(). */
  readonly softDeadline: number
}

/** Another attempt. */
export interface Retry {
  readonly reason: RetryReason
  readonly pauseMs: number
  /** What the next attempts do differently. */
  readonly variant: AttemptVariant
  /**
   * Whether the outcome of this attempt is the response if there is no connection for another one.
   */
  readonly isAnswer: boolean
}

/** One attempt, as it was sent, and how it ended. */
export interface AttemptResult {
  readonly batch: AttemptBatch
  readonly outcome: AttemptOutcome
  /** The role has its own settings (ALTER ROLE … SET). */
  readonly hasRoleSettings: boolean
  /** The operations were compiled for types that have changed. */
  readonly typesChanged: boolean
}

/** Decides whether to run the batch again; undefined: no. Spends the budget. */
export function decide (result: AttemptResult, budget: RetryBudget): Retry | undefined {
  const { outcome } = result
  const late = performance.now() >= budget.softDeadline
  if (outcome.kind === 'committed') return undefined
  if (outcome.kind === 'lost') {
    if (outcome.sent) return --budget.losses > 0 && !late ? retry('lost') : undefined
    return --budget.connections > 0 && !late ? retry('connection') : undefined
  }
  if (outcome.refusal !== undefined) return undefined
  if (result.typesChanged) {
    return --budget.types > 0 && !late ? retry('stale_plan', { isAnswer: true }) : undefined
  }
  if (exceedsShare(result.batch, outcome)) {
    return retry('values', { variant: { checkValues: true } })
  }
  const stale = isStatementStale(outcome)
  const checked: AttemptVariant = { ...stale && { unprepared: true }, checkValues: true }
  if (needsPlace(outcome)) {
    // A missing row and a value are due to the data, everything else to names and types.
    const ofData = raisedKind(outcome) === 'missing' || isValueError(outcome.error.code)
    const outdated = stale || isConnectionStale(result) || !ofData
    return retry(outdated ? 'stale_plan' : 'values', { variant: checked })
  }
  if (needsValueChecks(result)) return retry('values', { variant: checked, isAnswer: stale })
  if (isConnectionStale(result)) {
    if (--budget.connections === 0 || late) return undefined
    // The next one uses nothing that was prepared: a trigger of the batch may deallocate the
    // statements on every connection.
    return retry('stale_plan', { variant: { unprepared: true }, isAnswer: stale })
  }
  if (isInternal(outcome)) {
    if (--budget.internal === 0 || late) return undefined
    return retry('stale_plan', { variant: { unprepared: true }, isAnswer: true })
  }
  // The next attempt uses nothing that was prepared, so this happens once.
  if (stale) return retry('stale_plan', { variant: { unprepared: true }, isAnswer: true })
  return isConflict(outcome) ? retryConflict(outcome, budget) : undefined
}

function retry (reason: RetryReason, rest?: Partial<Retry>): Retry {
  return { reason, pauseMs: 0, variant: {}, isAnswer: false, ...rest }
}

function retryConflict ({ error }: Failed, budget: RetryBudget): Retry | undefined {
  if (--budget.conflicts === 0) return undefined
  const longest = Math.min(10 * 2 ** (MAX_ATTEMPTS - budget.conflicts), MAX_PAUSE_MS)
  const pauseMs = Math.random() * longest
  if (performance.now() + pauseMs >= budget.softDeadline) return undefined
  const reason = error.code === SqlState.deadlock_detected
    ? 'deadlock_detected'
    : 'serialization_failure'
  return retry(reason, { pauseMs, isAnswer: true })
}

/**
 * Whether only an attempt with value checks can tell what is wrong. A failure for another reason is
 * the same in every attempt.
 */
function needsPlace (outcome: Failed): boolean {
  return isCheckableRefusal(outcome) || raisedKind(outcome) === 'missing'
}

/**
 * Whether PostgreSQL refused a value whose place is not known, also by a domain that was no domain
 * when its type was read. Functions can raise 0A000, which Citus reports without a
 * context.
 */
function isCheckableRefusal (outcome: Failed): boolean {
  const { checkable, place, error: { code, where, routine } } = outcome
  if (checkable !== true || place !== undefined || raisedKind(outcome) !== undefined) return false
  if (code === SqlState.feature_not_supported) return where === undefined
  if (code === SqlState.insufficient_privilege) return false
  return CHECKABLE_CLASSES.has(classOf(code)) || routine === 'domain_check_input'
}

const CHECKABLE_CLASSES: ReadonlySet<string> = new Set([
  SqlStateClass.data_exception,
  SqlStateClass.syntax_error_or_access_rule_violation
])

/**
 * Whether an operation failed in a way that outdated types could explain: PostgreSQL found no such
 * name, operator, function or cast, refused a value, or met an object that is being replaced.
 */
export function mayKnowOldTypes (outcome: AttemptOutcome): boolean {
  if (outcome.kind !== 'failed' || typeof outcome.at !== 'number') return false
  const kind = raisedKind(outcome)
  if (kind !== undefined) return kind === 'types' || kind === 'function'
  const { error: { code, routine } } = outcome
  if (code === SqlState.insufficient_privilege) return false
  return TYPE_ERROR_CLASSES.has(classOf(code)) || routine === 'domain_check_input'
}

const TYPE_ERROR_CLASSES: ReadonlySet<string> = new Set([
  classOf(SqlState.feature_not_supported),
  SqlStateClass.data_exception,
  SqlStateClass.syntax_error_or_access_rule_violation,
  classOf(SqlState.internal_error)
])

/** An operation returned more than its share of the bytes. The next attempt adds them up. */
function exceedsShare ({ count, variant }: AttemptBatch, outcome: Failed): boolean {
  // Each row of an insert that returns separate rows has a share.
  return raisedKind(outcome) === 'bytes' && variant?.checkValues !== true &&
    (count > 1 || outcome.checkable === true)
}

/**
 * An attempt with value checks can tell more: an operation found a value that may not fit, or
 * PostgreSQL refused one without naming the column (class 22, or a syntax error of a tsvector).
 */
export function needsValueChecks ({ batch, outcome }: AttemptResult): boolean {
  if (batch.variant?.checkValues === true || outcome.kind !== 'failed') return false
  const { at, error, place } = outcome
  if (typeof at !== 'number' || place !== undefined) return false
  if (batch.operations()[at]?.needsValueChecks !== true) return false
  const kind = raisedKind(outcome)
  return kind === undefined ? isValueError(error.code) : kind === 'inspect'
}

/**
 * The failure belongs to the connection, not to the batch: a plan that DDL made stale (0A000 from
 * RevalidateCachedQuery), a table that was dropped after its name had been looked up (XX000 from
 * relation_open), a prepared statement that a function deallocated (26000 from
 * FetchPreparedStatement), a statement that a function prepared in an earlier attempt on the
 * connection and prepares again (42P05), a statement_timeout left by a trigger that stops the
 * session statement, or a setting of the role that was valid when the connection was opened and is
 * not any more.
 */
export function isConnectionStale ({ outcome, hasRoleSettings }: AttemptResult): boolean {
  if (outcome.kind !== 'failed') return false
  const { error: { code, routine }, at } = outcome
  // 0A000 at BEGIN: see isImpossibleMode in attempt.ts.
  if (
    at === 'session' &&
    ((hasRoleSettings && code !== SqlState.feature_not_supported) ||
      code === SqlState.query_canceled)
  ) return true
  return code === SqlState.duplicate_prepared_statement ||
    (code === SqlState.feature_not_supported && routine === 'RevalidateCachedQuery') ||
    (code === SqlState.internal_error && routine === 'relation_open') ||
    (code === SqlState.invalid_sql_statement_name && routine === 'FetchPreparedStatement')
}

/**
 * PostgreSQL calls it an internal error if an object disappears while a statement is prepared or
 * starts ("cache lookup failed for function"). No request causes it, unless a function raises it. A
 * function that was created and dropped again leaves the types as they were.
 */
function isInternal (outcome: Failed): boolean {
  const { error: { code, routine }, at } = outcome
  if (raisedKind(outcome) === 'function') return true
  return typeof at === 'number' && code === SqlState.internal_error && routine !== 'exec_stmt_raise'
}

/**
 * A prepared statement keeps the types of its parameters, and DDL may have changed the columns
 * since: no such operator or column (class 42), a value that the former type cannot hold (class 22,
 * or the check of a domain that reads it), or a former type that was dropped (XX000 from
 * getTypeInputInfo). Only a new preparation can tell.
 */
export function isStatementStale (outcome: AttemptOutcome): boolean {
  if (outcome.kind !== 'failed' || outcome.wasPrepared !== true) return false
  if (raisedKind(outcome) !== undefined) return false
  const { error: { code, routine }, at } = outcome
  if (classOf(code) === SqlStateClass.syntax_error_or_access_rule_violation) {
    return code !== SqlState.insufficient_privilege
  }
  // An unknown role is of class 22, too, but the session reads no column.
  return typeof at === 'number' && (
    classOf(code) === SqlStateClass.data_exception || routine === 'domain_check_input' ||
      routine === 'getTypeInputInfo'
  )
}

/** The kind of the failure that the service raised in SQL; undefined for an error of PostgreSQL. */
export function raisedKind ({ error }: Pick<Failed, 'error'>): RaisedKind | undefined {
  return readRaised(error)?.kind
}

/**
 * Routines that report a conflict with recovery on a standby, by SQLSTATE. A retry would run into
 * the same conflict, so the batch is not retried. 40001 comes from ProcessInterrupts until
 * PostgreSQL 16. Some routines also report 40P01 when an extension turns a cancel request into a
 * deadlock (Citus, multi_log_hook). That is retried.
 */
const RECOVERY_ROUTINES: Readonly<Record<string, ReadonlySet<string | undefined>>> = {
  [SqlState.serialization_failure]: new Set([
    'ProcessRecoveryConflictInterrupt',
    'ProcessInterrupts'
  ]),
  [SqlState.deadlock_detected]: new Set(['CheckRecoveryConflictDeadlock'])
}

/** A deadlock or serialization failure: PostgreSQL's advice is to run the transaction again. */
export function isConflict ({ error: { code, routine } }: Pick<Failed, 'error'>): boolean {
  return RECOVERY_ROUTINES[code]?.has(routine) === false
}
