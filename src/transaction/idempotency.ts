/**
 * Interprets failures of the statements about an idempotency key: the key is in use, it has a
 * stored response, or keys cannot be stored.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import { SqlState, isUndefinedTable } from '../errors/sqlstates.ts'
import type { Connection } from '../postgres/connection.ts'
import type { Key } from '../sql/frame/idempotency.ts'
import { readRaised } from '../sql/statement/raised-error.ts'
import { readAnswer } from './lost-commit.ts'
import type { Committed, Failed } from './outcome.ts'

/**
 * Resolves a failure of these statements. If the key has a stored response, it is read on the same
 * connection and becomes the outcome. If the key is in use, a response may be stored by now. If
 * none is stored, the client may retry.
 */
export async function resolveKeyFailure (
  connection: Connection,
  key: Key,
  outcome: Failed
): Promise<Committed | Failed> {
  const { error, times } = outcome
  const raised = readRaised(error)?.kind
  const fail = (error: Failure): Failed => ({ ...outcome, error })
  if (isTableMissing(error.code)) {
    return fail(failure('idempotency_key_invalid', TABLE_MISSING))
  }
  if (raised === undefined) return outcome
  const stored = await readAnswer(connection, key).catch(() => undefined)
  if (stored === undefined || !stored.live) {
    return fail(failure('idempotency_key_in_progress', undefined, { retryable: true }))
  }
  if (stored.differs !== 'nothing') {
    return fail(failure('idempotency_key_reused', REUSED[stored.differs]))
  }
  return { kind: 'committed', replayed: true, rows: stored.rows, times }
}

/** A stored response shows that its request was committed. */
const REUSED = {
  claims: 'The `Idempotency-Key` was used by a request whose token had other claims. That ' +
    'request was committed. This one was not run.',
  request: 'The `Idempotency-Key` was used for another request, with a different body or ' +
    'different preferences.'
} as const

const TABLE_MISSING = 'Idempotency keys need the table oneflight.idempotency_keys with the ' +
  'columns of this version, and privileges on it. Run "npm run migrate". The batch did not run.'

/** There is no such table, schema or column, or no privilege on it. */
function isTableMissing (sqlstate: string): boolean {
  return isUndefinedTable(sqlstate) || sqlstate === SqlState.undefined_column ||
    sqlstate === SqlState.insufficient_privilege
}
