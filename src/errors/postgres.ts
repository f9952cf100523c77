/**
 * SQLSTATE → failure: the one table of how a PostgreSQL error is answered. It reads codes and the
 * names of routines, never the text of a message.
 */
import { conditions } from './conditions.ts'
import { Failure, failure, type FailureDetails } from './catalogue.ts'

/**
 * The fields of PostgreSQL's ErrorResponse that are used (protocol docs, "Error and Notice Message
 * Fields").
 */
export interface DatabaseError {
  readonly code: string
  readonly message: string
  readonly severity?: string
  readonly routine?: string
  readonly detail?: string
  readonly hint?: string
  readonly constraint_name?: string
  /** Where the error is in the text of the statement. Missing when it is inside of a function. */
  readonly position?: string
  /** The text of the statement; postgres.js adds it. */
  readonly query?: string
}

/** What an error is, which function of PostgreSQL's sources reported it, and where. */
type ErrorOrigin = Pick<DatabaseError, 'code' | 'routine' | 'position'>

/** Status by SQLSTATE or class prefix; the first match wins, no match is 500. */
const statuses: ReadonlyArray<readonly [prefix: string, status: number]> = [
  ['40001', 409],
  ['40P01', 409],
  ['55P03', 409],
  ['23503', 409],
  ['23505', 409],
  ['23P01', 409],
  ['23001', 409],
  ['23502', 400],
  ['23514', 400],
  ['22', 400],
  ['25006', 403],
  ['28', 403],
  ['0L', 403],
  ['0P', 403],
  ['42501', 403],
  ['42P01', 404],
  ['42883', 404],
  ['3F000', 404],
  ['42', 400],
  ['44', 400],
  ['54', 400],
  ['0A', 400],
  ['21', 400],
  ['P0', 400],
  // Among others an insert into a view that takes none: the client alone chose the table.
  ['55000', 400],
  // temp_file_limit is exceeded: the same request would need as many temporary files again.
  ['53400', 400],
  ['57014', 504]
]

/**
 * Routines of PostgreSQL that raise 42883 (undefined_function) because a type has no operator: the
 * types in the request do not fit each other. Other routines raise it for a function: for one in
 * the statement itself the error has a position, and then it is an aggregate that the type of a
 * column does not have. Within a function, trigger, view, policy or default it has none:
 * PostgreSQL tells the position in the text of the function apart (internal_position).
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
  'record_cmp'
])

const unavailable = /^(?:08|53(?!400)|57P0[123])/
const retryable = new Set(['40001', '40P01', '55P03'])

/** What the caller knows about the place of an error; `op` null: at COMMIT. */
export interface ErrorPlace {
  readonly op: string | null
  readonly index: number | null
  /** true when the transaction ran under ANON_ROLE: lack of privilege is then answered 401. */
  readonly anonymous: boolean
  /** true with ERROR_VERBOSITY=verbose: `detail`, `hint` and values in messages are passed on. */
  readonly verbose: boolean
}

/**
 * Translates an error that PostgreSQL raised inside a transaction which therefore did not commit.
 */
export function fromDatabase (error: DatabaseError, place: ErrorPlace): Failure {
  const details = describe(error, place)
  if (unavailable.test(error.code)) {
    return failure('database_unavailable', undefined, details, error)
  }
  return new Failure({
    type: 'execution_error',
    code: conditions.get(error.code) ?? error.code,
    status: statusOf(error, place.anonymous),
    // PostgreSQL names the kind of statement, and here every operation is a query around what it
    // changes.
    message: error.routine === 'PreventCommandIfReadOnly'
      ? 'The transaction is read-only.'
      : place.verbose
        ? error.message
        : withoutValues(error),
    details: { ...details, retryable: retryable.has(error.code) },
    cause: error
  })
}

/**
 * HTTP status of an SQLSTATE. `PTxyz` is PostgREST's way for a function to choose a status itself.
 */
export function statusOf (error: ErrorOrigin, anonymous: boolean): number {
  const { code: sqlstate, routine, position } = error
  if (sqlstate === '42883' && (missingOperator.has(routine) || position !== undefined)) return 400
  if (sqlstate === '42501' && anonymous) return 401
  if (/^PT[45]\d\d$/.test(sqlstate)) return Number(sqlstate.slice(2))
  return statuses.find(([prefix]) => sqlstate.startsWith(prefix))?.[1] ?? 500
}

/**
 * The message of an error. Those about data (class 22, and 42601 of a full text query) quote it:
 * `invalid input syntax for type integer: "…"`. It may come from a row, and answers end up in the
 * logs of clients and proxies. Quotes are those of any language of the server.
 */
export function withoutValues (
  { code, message }: Pick<DatabaseError, 'message'> & { readonly code?: string }
): string {
  if (!/^(?:22|42601)/.test(code ?? '')) return message
  // Not by one expression: its time would grow with the square of the quotes that a message holds.
  const start = message.search(/["«»„“‘「]/)
  const end = Math.max(...[...'"»«“”’」'].map(quote => message.lastIndexOf(quote)))
  return start < 0 || end <= start
    ? message
    : `${message.slice(0, start + 1)}…${message.slice(end)}`
}

function describe (error: DatabaseError, place: ErrorPlace): FailureDetails {
  return {
    op: place.op,
    index: place.index,
    sqlstate: error.code,
    ...(error.constraint_name === undefined ? {} : { constraint: error.constraint_name }),
    ...(place.verbose && error.detail !== undefined ? { detail: error.detail } : {}),
    ...(place.verbose && error.hint !== undefined ? { hint: error.hint } : {})
  }
}
