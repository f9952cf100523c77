/**
 * Resolves the failure of a batch with an idempotency key.
 */
import { failure, quote, withReason, type Failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState, isUndefinedTable } from '../errors/sqlstates.ts'
import { query, type Connection } from '../postgres/connection.ts'
import { withConnection, type ConnectionPool } from '../postgres/pool.ts'
import type { Key } from '../sql/frame/idempotency.ts'
import { CONFIRM_REPLICATED, FAIL_ON_STANDBY } from '../sql/frame/server-state.ts'
import { readAnswer, searchUntil, type StoredAnswer } from './lost-commit.ts'
import type { Committed, Failed } from './outcome.ts'

interface KeyFailureContext {
  readonly key: Key
  /** The connection on which the batch failed. */
  readonly connection: Connection
  readonly pool: ConnectionPool
  /** When the search for a stored response ends: a time of performance.now(). */
  readonly until: number
}

/**
 * If the key has a stored response, it becomes the outcome, whatever failed: rows of the request
 * that stored it may be the reason. If the key is in use, a response may be stored by now; if not,
 * the client may retry, and also if the response cannot be read.
 */
export async function resolveKeyFailure (
  outcome: Failed,
  context: KeyFailureContext
): Promise<Committed | Failed> {
  const { error, at, times } = outcome
  const fail = (error: Failure): Failed => ({ ...outcome, raised: undefined, error })
  const stored = at === 'key' && isTableMissing(error.code)
    ? 'missing'
    : await findAnswer(context)
  if (stored === 'missing') return fail(failure('idempotency_key_invalid', TABLE_MISSING))
  const raised = at === 'key' ? outcome.raised?.kind : undefined
  if (stored === 'unknown' && raised !== 'busy') return fail(failure('database_unavailable'))
  const inProgress = (): Failed =>
    fail(failure('idempotency_key_in_progress', undefined, { retryable: true }))
  if (stored === 'unknown' || stored?.live !== true) {
    return raised === undefined || raised === 'reset' ? outcome : inProgress()
  }
  if (stored.differs !== 'nothing') {
    return fail(describeReuse(stored, context.key))
  }
  if (stored.isSynchronous && !await isReplicated(context)) return inProgress()
  const { rows, txid } = stored
  return { kind: 'committed', replayed: true, rows, txid, times }
}

/** Waits until the synchronous standbys have what is stored; false: they do not in time. */
function isReplicated ({ pool, until }: KeyFailureContext): Promise<boolean> {
  return withConnection(pool, until, connection => query(connection, CONFIRM_REPLICATED))
    .then(() => true, () => false)
}

/**
 * Reads what is stored under the key on the connection of the batch, and if that is lost, on
 * others. Returns undefined if it is nothing, and `missing` if there is no table of keys.
 */
async function findAnswer (
  { key, connection, pool, until }: KeyFailureContext
): Promise<StoredAnswer | 'missing' | 'unknown' | undefined> {
  try {
    return await readAnswer(connection, key)
  } catch (error) {
    if (isTableMissing(String((error as Partial<DatabaseError>).code))) return 'missing'
  }
  const find = async (other: Connection): Promise<readonly [StoredAnswer | undefined]> => {
    const stored = await readAnswer(other, key)
    // A standby may not have received the response yet.
    if (stored === undefined) await query(other, FAIL_ON_STANDBY)
    return [stored]
  }
  const [found] = await searchUntil(pool, until, find) ?? ['unknown' as const]
  return found
}

/**
 * A stored response shows that its request was committed. It may be an earlier attempt of this one,
 * so nothing here recommends another key.
 */
function describeReuse ({ differs, eachClaim }: StoredAnswer, key: Key): Failure {
  if (differs === 'request') {
    const message = 'The `Idempotency-Key` was used for another request, with a different body ' +
      'or different preferences. That request was committed. This one was not run.'
    return failure('idempotency_key_reused', message, { differs })
  }
  const names = findDifferingClaims(eachClaim, key.eachClaim)
  const list = names.slice(0, MAX_NAMES).map(quote).join(', ') +
    (names.length > MAX_NAMES ? ' and more' : '')
  const message = 'The `Idempotency-Key` was used by a request whose token had other claims' +
    `${list === '' ? '' : ` (${list})`}. That request was committed. This one was not run. For ` +
    'its response, send the same request with the same key and a token with the same claims.'
  const failed = failure('idempotency_key_reused', message, { differs: 'claims' })
  return list === '' ? failed : withReason(failed, `${list}: ${IGNORED}`)
}

/** Returns the names of the claims that differ, if both sides know theirs. */
function findDifferingClaims (stored: string, sent: string): readonly string[] {
  if ([stored, sent].includes('{}')) return []
  const [one, other] = [JSON.parse(stored), JSON.parse(sent)] as
    readonly [Readonly<Record<string, string>>, Readonly<Record<string, string>>]
  return Object.keys({ ...one, ...other }).filter(name => one[name] !== other[name]).sort()
}

/** Maximum number of claims that a message names. */
const MAX_NAMES = 10

const IGNORED = 'claims that change with every token and decide no rights belong to ' +
  'IDEMPOTENCY_IGNORED_CLAIMS'

const TABLE_MISSING = 'Idempotency keys need the table oneflight.idempotency_keys of this ' +
  'version, and privileges on it. Run "npm run migrate". This request was not run; an earlier ' +
  'one with the key may be committed.'

/** There is no such table, schema or column, or no privilege on it. */
function isTableMissing (sqlstate: string): boolean {
  return isUndefinedTable(sqlstate) || sqlstate === SqlState.undefined_column ||
    sqlstate === SqlState.insufficient_privilege
}
