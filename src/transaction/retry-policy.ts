/**
 * Decides after each attempt whether another one can succeed and why.
 */
import { classOf, SqlState } from '../errors/sqlstates.ts'
import type { AttemptOutcome, Failed, RetryReason } from './outcome.ts'

/**
 * Maximum number of attempts that end with a deadlock, a serialization failure or changed types.
 * After that, the client may try again later.
 */
export const MAX_ATTEMPTS = 15

/**
 * Maximum number of attempts that end with an internal error or a stale statement. With a function
 * that was replaced without a pause, one attempt in 13 did.
 */
export const MAX_INTERNAL_ERRORS = 5

/** Longest pause before an attempt after a conflict, in milliseconds. */
const MAX_PAUSE_MS = 1000

/** The attempts that are left, by what they are spent on. */
export interface RetryBudget {
  /** Connections that turn out to be unusable. */
  connections: number
  /** Connections to a standby, for a batch that writes. Another one may reach the primary. */
  standbys: number
  /** Connections that are lost after COMMIT was sent. */
  losses: number
  /** Deadlocks, serialization failures, and types that have changed since they were read. */
  conflicts: number
  /** Errors that PostgreSQL calls internal, and prepared statements that DDL made stale. */
  internal: number
  /** No attempt starts after this time of performance.now(). */
  readonly softDeadline: number
}

/** Another attempt. */
export interface Retry {
  readonly reason: RetryReason
  readonly pauseMs: number
  /** The next attempts use nothing that was prepared. */
  readonly unprepared: boolean
}

/** How one attempt ended. */
export interface AttemptResult {
  readonly outcome: AttemptOutcome
  /** The role has its own settings (ALTER ROLE … SET). */
  readonly hasRoleSettings: boolean
  /** The operations were compiled for types that have changed. */
  readonly typesChanged: boolean
}

/** When a batch is run again. */
interface Rule {
  readonly when: (result: AttemptResult) => boolean
  readonly reason: RetryReason
  readonly spends: Exclude<keyof RetryBudget, 'softDeadline'>
  /** See Retry. */
  readonly unprepared?: true
  /** The next attempt waits, and longer each time. */
  readonly pauses?: true
}

/** The first rule that applies decides. */
const RULES: readonly Rule[] = [
  { when: isLost(true), reason: 'lost', spends: 'losses' },
  { when: isStandby, reason: 'connection', spends: 'standbys' },
  { when: isLost(false), reason: 'connection', spends: 'connections' },
  { when: ({ typesChanged }) => typesChanged, reason: 'stale_plan', spends: 'conflicts' },
  {
    when: isConnectionStale,
    reason: 'stale_plan',
    spends: 'connections',
    // A trigger of the batch may deallocate the statements on every connection.
    unprepared: true
  },
  {
    when: ({ outcome }) => isInternal(outcome) || isStatementStale(outcome),
    reason: 'stale_plan',
    spends: 'internal',
    unprepared: true
  },
  ...(['deadlock_detected', 'serialization_failure'] as const).map(reason =>
    ({ when: isConflict(SqlState[reason]), reason, spends: 'conflicts', pauses: true } as const))
]

/** Decides whether to run the batch again; undefined: no. Spends the budget. */
export function decide (result: AttemptResult, budget: RetryBudget): Retry | undefined {
  const { outcome } = result
  if (outcome.kind === 'failed' && outcome.refusal !== undefined) return undefined
  const rule = RULES.find(({ when }) => when(result))
  if (rule === undefined || --budget[rule.spends] <= 0) return undefined
  const { reason, spends, pauses, unprepared = false } = rule
  const pauseMs = pauses === true ? choosePause(MAX_ATTEMPTS - budget[spends]) : 0
  if (performance.now() + pauseMs >= budget.softDeadline) return undefined
  return { reason, pauseMs, unprepared }
}

function choosePause (attempts: number): number {
  return Math.random() * Math.min(10 * 2 ** attempts, MAX_PAUSE_MS)
}

function isStandby ({ outcome }: AttemptResult): boolean {
  return outcome.kind === 'lost' && outcome.isStandby
}

function isLost (sent: boolean): Rule['when'] {
  return ({ outcome }) => outcome.kind === 'lost' && outcome.sent === sent
}

/**
 * Whether an operation failed in a way that outdated types could explain: PostgreSQL found no such
 * name, operator, function or cast, refused a value, or met an object that is being replaced.
 */
export function mayKnowOldTypes (outcome: AttemptOutcome): outcome is Failed {
  if (outcome.kind !== 'failed' || typeof outcome.at !== 'number') return false
  const { error: { code, routine }, raised } = outcome
  if (raised !== undefined) return raised.kind === 'types' || raised.kind === 'function'
  if (code === SqlState.insufficient_privilege) return false
  return TYPE_ERROR_CLASSES.has(classOf(code)) || routine === 'domain_check_input'
}

const TYPE_ERROR_CLASSES: ReadonlySet<string> = new Set([
  SqlState.feature_not_supported,
  SqlState.data_exception,
  SqlState.syntax_error_or_access_rule_violation,
  SqlState.internal_error
])

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
function isInternal (outcome: AttemptOutcome): boolean {
  if (outcome.kind !== 'failed') return false
  const { error: { code, routine }, at, raised } = outcome
  if (raised?.kind === 'function') return true
  return typeof at === 'number' && code === SqlState.internal_error && routine !== 'exec_stmt_raise'
}

/**
 * A prepared statement keeps the types of its parameters, and DDL may have changed the columns
 * since: no such operator or column (class 42), or a value that the former type cannot hold (class
 * 22). Only a new preparation can tell, also if the types are known meanwhile.
 */
export function isStatementStale (outcome: AttemptOutcome): boolean {
  return mayKnowOldTypes(outcome) && outcome.wasPrepared === true && outcome.raised === undefined &&
    outcome.error.code !== SqlState.feature_not_supported &&
    outcome.error.code !== SqlState.internal_error
}

/**
 * Routines that report a conflict with recovery on a standby, by SQLSTATE. A retry would run into
 * the same conflict, so the batch is not retried. 40001 comes from ProcessInterrupts until
 * PostgreSQL 16. Some routines also report 40P01 when an extension turns a cancel request into a
 * deadlock (Citus, multi_log_hook). That is retried.
 */
const RECOVERY_ROUTINES: Readonly<Record<string, readonly string[]>> = {
  [SqlState.serialization_failure]: ['ProcessRecoveryConflictInterrupt', 'ProcessInterrupts'],
  [SqlState.deadlock_detected]: ['CheckRecoveryConflictDeadlock']
}

/** A deadlock or serialization failure: PostgreSQL's advice is to run the transaction again. */
function isConflict (conflict: string): Rule['when'] {
  return ({ outcome }) => {
    if (outcome.kind !== 'failed') return false
    const { code, routine = '' } = outcome.error
    return code === conflict && RECOVERY_ROUTINES[conflict]?.includes(routine) === false
  }
}
