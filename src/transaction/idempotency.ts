/**
 * What it means that the statements about an idempotency key failed: the key is busy, or has an
 * answer already, or keys cannot be kept.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import type { Key } from '../sql/idempotency.ts'
import { readMarker } from '../sql/marker.ts'
import type { AttemptOutcome } from './attempt.ts'
import type { Connection } from '../postgres/connection.ts'
import type { BatchOutcome } from './outcome.ts'
import { readAnswer } from './lost-commit.ts'

/**
 * What a failure of the statements about the key means. A key that is taken is that of an earlier
 * request, whose answer is read on the same connection; so may one be that is busy, with somebody
 * who finds that it is taken. Where there is no answer the client may try again.
 */
export async function resolveKeyFailure (
  connection: Connection,
  key: Key,
  landing: Extract<AttemptOutcome, { kind: 'failed' }>
): Promise<AttemptOutcome & BatchOutcome> {
  const { error, times } = landing
  const marker = readMarker(error)?.kind
  const failed = (error: Failure): AttemptOutcome & BatchOutcome => ({ ...landing, error })
  if (marker === 'session') {
    return failed(
      failure('internal', 'An operation changed the session, so that the answer could not be kept.')
    )
  }
  if (MISSING.has(error.code)) {
    return failed(
      failure(
        'idempotency_key_invalid',
        'Idempotency keys need the table oneflight.idempotency_keys and rights on it: npm ' +
          'run migrate. The batch was not run.'
      )
    )
  }
  if (marker === undefined) return landing
  const stored = await readAnswer(connection, key).catch(() => undefined)
  if (stored === undefined || !stored.live) {
    return failed(failure('idempotency_key_in_progress', undefined, { retryable: true }))
  }
  if (!stored.same) return failed(failure('idempotency_key_reused'))
  return { kind: 'committed', replayed: true, rows: stored.rows, times }
}

/** No such table, schema or column, no right on them. */
const MISSING: ReadonlySet<string> = new Set(['42P01', '3F000', '42703', '42501'])
