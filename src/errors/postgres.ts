/**
 * Translates PostgreSQL errors into failures. It reads SQLSTATEs and names of routines, and of a
 * message only the text in quotes.
 */
import { Failure, failure, withReason, type FailureDetails } from './catalogue.ts'
import { fromCitus } from './citus.ts'
import { conditions } from './conditions.ts'
import type { DatabaseError } from './database-error.ts'
import { findFunction, isSchemaFault } from './schema-fault.ts'
import { classOf, isValueError, SqlState } from './sqlstates.ts'

type ErrorOrigin = Pick<DatabaseError, 'code' | 'routine' | 'position'>

/** HTTP status by SQLSTATE. */
const statuses: ReadonlyMap<string, number> = new Map([
  [SqlState.serialization_failure, 409],
  [SqlState.deadlock_detected, 409],
  [SqlState.lock_not_available, 409],
  [SqlState.foreign_key_violation, 409],
  [SqlState.unique_violation, 409],
  [SqlState.exclusion_violation, 409],
  [SqlState.restrict_violation, 409],
  [SqlState.not_null_violation, 400],
  [SqlState.check_violation, 400],
  [SqlState.read_only_sql_transaction, 403],
  [SqlState.insufficient_privilege, 403],
  [SqlState.undefined_table, 404],
  [SqlState.undefined_function, 404],
  [SqlState.invalid_schema_name, 404],
  // For example an insert into a view that cannot be inserted into: the client chose the table.
  [SqlState.object_not_in_prerequisite_state, 400],
  // temp_file_limit is exceeded: the same request would exceed it again.
  [SqlState.configuration_limit_exceeded, 400],
  [SqlState.query_canceled, 504]
])

/** HTTP status of a class, by its general condition, for codes that are not listed. */
const classStatuses: ReadonlyMap<string, number> = new Map([
  [SqlState.data_exception, 400],
  [SqlState.invalid_authorization_specification, 403],
  [SqlState.invalid_grantor, 403],
  [SqlState.invalid_role_specification, 403],
  [SqlState.syntax_error_or_access_rule_violation, 400],
  [SqlState.with_check_option_violation, 400],
  [SqlState.program_limit_exceeded, 400],
  [SqlState.feature_not_supported, 400],
  [SqlState.cardinality_violation, 400],
  [SqlState.plpgsql_error, 400]
])

/**
 * The routine that fails for JSON with a value of a domain over a type without a binary form: to
 * check the domain, PostgreSQL looks for the binary form.
 */
export const NO_BINARY_INPUT = 'getTypeBinaryInputInfo'

const HSTORE_ROUTINES: ReadonlySet<string | undefined> = new Set(['get_val', 'parse_hstore'])

/**
 * The error with the condition of later versions: until PostgreSQL 15, hstore reports a text that
 * it cannot read as an internal error.
 */
export function withLaterCondition (error: DatabaseError): DatabaseError {
  return error.code === SqlState.internal_error && HSTORE_ROUTINES.has(error.routine)
    ? { ...error, code: SqlState.syntax_error }
    : error
}

/**
 * PostgreSQL's routines that raise undefined_function because a type lacks an operator: the types
 * in the request do not match, which is a 400. Any other routine raises it for a missing function,
 * a 404, except when the error has a position. A position refers to the statement we built, and
 * the only function missing there is an aggregate that the column's type does not have. For an
 * error inside a function, trigger, view, policy or default, PostgreSQL reports another field
 * (internal_position).
 */
const missingOperator: ReadonlySet<string | undefined> = new Set([
  'op_error',
  // ORDER BY, GROUP BY, DISTINCT
  'get_sort_group_operators',
  // elements of arrays and members of composite values
  'array_eq',
  'array_cmp',
  'array_contain_compare',
  'record_eq',
  'record_cmp',
  NO_BINARY_INPUT
])

const retryable: ReadonlySet<string> = new Set([
  SqlState.serialization_failure,
  SqlState.deadlock_detected,
  SqlState.lock_not_available
])

const shutdowns: ReadonlySet<string> = new Set([
  SqlState.admin_shutdown,
  SqlState.crash_shutdown,
  SqlState.cannot_connect_now
])

/** Where an error occurred and how much of it the client may see. */
interface ErrorPlace {
  /** Id of the operation; null at COMMIT. */
  readonly op: string | null
  readonly index: number | null
  /** The transaction ran as ANON_ROLE: a missing privilege is then answered with 401. */
  readonly anonymous?: boolean
  /** ERROR_VERBOSITY=verbose: send `detail`, `hint` and values in messages. */
  readonly verbose?: boolean
  /** Rewrites a message of PostgreSQL in terms of the request. */
  readonly describe?: (message: string) => string
  /** The path from the operation to what fails, if it is known. */
  readonly path?: ReadonlyArray<string | number> | undefined
  /** Replaces the hint of the error. */
  readonly hint?: string | undefined
}

/** Translates a PostgreSQL error of a transaction that did not commit. */
export function fromDatabase (reported: DatabaseError, place: ErrorPlace): Failure {
  const error = fromCitus(reported)
  const details = describe(error, place)
  if (isUnavailable(error)) {
    // Which of its resources is exhausted, for the log.
    return withReason(
      failure('database_unavailable', undefined, details),
      withHint(withoutValues(error), error)
    )
  }
  if (isSchemaFault(error)) return describeFault(error, details)
  return new Failure({
    type: 'execution_error',
    code: conditions.get(error.code) ?? error.code,
    status: statusOf(error, place.anonymous),
    message: messageOf(error, place),
    details: { ...details, retryable: retryable.has(error.code) }
  })
}

function describeFault (error: DatabaseError, details: FailureDetails): Failure {
  const problem = withoutValues(error)
  const message = `A function, trigger, policy or view is faulty, not the request: ${problem}`
  const reason = [findFunction(error), problem].filter(part => part !== undefined).join(': ')
  return withReason(
    failure('schema_fault', message, { ...details, retryable: false }),
    withHint(reason, error)
  )
}

function withHint (reason: string, { hint }: DatabaseError): string {
  return hint === undefined ? reason : `${reason}. ${hint}`
}

/** The server cannot be used: connection lost, shutting down, out of connections or resources. */
function isUnavailable ({ code, routine }: ErrorOrigin): boolean {
  const cls = classOf(code)
  return cls === SqlState.connection_exception || shutdowns.has(code) ||
    (cls === SqlState.insufficient_resources &&
      code !== SqlState.configuration_limit_exceeded) ||
    ((code === SqlState.internal_error || code === SqlState.io_error) &&
      workerLosses.has(routine))
}

/**
 * Routines in which Citus reports that it has lost a worker, or that its own server is going down,
 * with codes that do not say so.
 */
const workerLosses: ReadonlySet<string | undefined> = new Set([
  'CheckRemoteTransactionsHealth',
  'EndRemoteCopy',
  'FinishConnectionIO',
  'FinishConnectionListEstablishment',
  'FinishRemoteTransactionPrepare',
  'MarkRemoteTransactionFailed',
  'ProcessWaitEvents',
  'ProcessWaitEventsForSocketClosed',
  'ReportResultError',
  'SendCopyDataToPlacement',
  'WaitForAllConnections'
])

/**
 * HTTP status of an error. `PTxyz` is PostgREST's convention for a function that sets the status.
 */
function statusOf (error: ErrorOrigin, anonymous = false): number {
  const { code, routine, position } = error
  if (code === SqlState.undefined_function &&
    (missingOperator.has(routine) || position !== undefined)) return 400
  if (code === SqlState.insufficient_privilege && anonymous) return 401
  if (/^PT[45]\d\d$/.test(code)) return Number(code.slice(2))
  return statuses.get(code) ?? classStatuses.get(classOf(code)) ?? 500
}

function messageOf (
  error: DatabaseError,
  { anonymous = false, verbose = false, describe = message => message }: ErrorPlace
): string {
  // PostgreSQL's message names the wrong kind of statement: operations run inside of a SELECT.
  if (error.routine === 'PreventCommandIfReadOnly') return 'The transaction is read-only.'
  const message = verbose ? error.message : withoutValues(error)
  return anonymous && error.code === SqlState.insufficient_privilege
    ? `${message} (no token was sent)`
    : describe(message)
}

/**
 * The message of an error without the value that it quotes: `invalid input syntax for type integer:
 * "…"`. The value may come from a row, and clients and proxies log responses. Covers the quotes of
 * every language PostgreSQL is translated to.
 */
export function withoutValues (
  { code, message }: Pick<DatabaseError, 'message'> & { readonly code?: string }
): string {
  const quotes = code === undefined || !isValueError(code) ? undefined : findQuotes(message)
  return quotes === undefined
    ? message
    : `${message.slice(0, quotes.start + 1)}…${message.slice(quotes.end)}`
}

/** The text that a message quotes, without the spaces of French quotes, or undefined. */
export function quotedText (message: string): string | undefined {
  const quotes = findQuotes(message)
  if (quotes === undefined) return undefined
  const text = message.slice(quotes.start + 1, quotes.end)
  return message[quotes.start] === '«' && /^\s.*\s$/s.test(text) ? text.slice(1, -1) : text
}

function findQuotes (
  message: string
): { readonly start: number, readonly end: number } | undefined {
  // A single regular expression would take time quadratic in the number of quotes.
  const start = message.search(/["«»„“‘「]/)
  const end = Math.max(...[...'"»«“”’」'].map(quote => message.lastIndexOf(quote)))
  return start < 0 || end <= start ? undefined : { start, end }
}

function describe (error: DatabaseError, place: ErrorPlace): FailureDetails {
  const { hint = error.hint, path, verbose = false } = place
  return {
    op: place.op,
    index: place.index,
    sqlstate: error.code,
    ...(error.constraint_name === undefined ? {} : { constraint: error.constraint_name }),
    ...(path === undefined ? {} : { path: [...path] }),
    ...(verbose && error.detail !== undefined ? { detail: error.detail } : {}),
    ...(verbose && hint !== undefined ? { hint } : {})
  }
}
