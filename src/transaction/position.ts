/**
 * Reads and awaits positions of the write-ahead log, so that a batch on a standby sees what was
 * committed before.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { query, withTimeout, type Connection, millisecondsUntil } from '../postgres/connection.ts'
import { withConnection, type ConnectionPool, type Lease } from '../postgres/pool.ts'
import { isAtPosition, POSITION } from '../sql/frame/server-state.ts'

/** A standby did not reach a position in time. */
export class ReplicaBehind extends Error {}

/** A position that a standby may not have yet. */
export interface NeededPosition {
  readonly position: string
  /** How long to wait for it: a time of performance.now(). */
  readonly until: number
}

/** The first pause between two queries; each is twice as long as the one before. */
const FIRST_PAUSE_MS = 1
const MAX_PAUSE_MS = 50

/**
 * Acquires a connection whose server has a position. Others can use the connection while this one
 * waits. Throws `ReplicaBehind` when no server has it in time, and what `acquire` throws.
 */
export async function acquireAtPosition (
  { position, until, deadline }: NeededPosition & { readonly deadline: number },
  acquire: () => Promise<Lease>
): Promise<Lease> {
  let pauseMs = FIRST_PAUSE_MS
  for (;;) {
    {
      using lease = await acquire()
      const isReached = await withTimeout(
        millisecondsUntil(deadline),
        lease.connection,
        connection => hasPosition(connection, position)
      )
      if (isReached) return lease.transfer()
    }
    if (performance.now() + pauseMs > until) throw new ReplicaBehind()
    await delay(pauseMs)
    pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)
  }
}

/**
 * Whether the server of a connection has a position. It is false for a connection through a pooler,
 * which may send the batch to another server than this query. A lost connection counts as one that
 * has it: the attempt then notices the loss.
 */
async function hasPosition (connection: Connection, position: string): Promise<boolean> {
  if (connection.backend === undefined) return false
  const rows = await query<{ readonly reached: string }>(connection, isAtPosition(position))
    .catch(() => [{ reached: 't' }])
  return rows.some(({ reached }) => reached === 't')
}

/** Reads the position of the primary; nothing if that fails. */
export async function readPosition (
  pool: ConnectionPool,
  deadline: number
): Promise<{ readonly position?: string }> {
  const [row] = await withConnection(pool, deadline, connection =>
    query<{ readonly position: string }>(connection, POSITION)).catch(() => [{}])
  return row as { readonly position?: string }
}
