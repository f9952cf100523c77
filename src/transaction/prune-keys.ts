/**
 * Deletes expired idempotency keys from time to time. Requests ignore expired keys, so this only
 * frees space. It opens a connection for each run, so no request waits for it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { isUndefinedTable } from '../errors/sqlstates.ts'
import { closeConnection, destroyConnection, query } from '../postgres/connection.ts'
import { openConnection } from '../postgres/open-connection.ts'
import { pruneText } from '../sql/frame/idempotency.ts'

interface KeyPrunerOptions {
  readonly target: DatabaseTarget
  /** Average time between two runs, in milliseconds. */
  readonly everyMs: number
  /**
   * Called when PostgreSQL refuses a run, e.g. for a missing privilege, but not twice in a row for
   * the same reason. A missing table is not reported: idempotency keys are then not in use.
   */
  readonly onRefused: (reason: postgres.PostgresError) => void
}

export interface KeyPruner {
  /** Stops it; resolves when its connection is closed. */
  close(): Promise<void>
}

/** Rows per statement: few, so that its locks are short. */
const BATCH_ROWS = 1000

/** Longest run, for connections that do not respond any more. */
const TIMEOUT_MS = 60_000

/** Starts to prune. A run that gets no connection is repeated after the next pause. */
export function startKeyPruner ({ target, everyMs, onRefused }: KeyPrunerOptions): KeyPruner {
  const stopped = new AbortController()
  const { signal } = stopped
  let reported: string | undefined
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      await prune(target, signal).catch((error: unknown) => {
        // The pool reports that there is no connection.
        if (!(error instanceof postgres.PostgresError) || error.severity !== 'ERROR') return
        if (isUndefinedTable(error.code) || error.code === reported) return
        reported = error.code
        onRefused(error)
      })
      // Random, so that replicas that start together do not prune together.
      const pauseMs = everyMs * (0.5 + Math.random())
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }
  const done = run()
  return {
    async close () {
      stopped.abort()
      await done
    }
  }
}

async function prune (target: DatabaseTarget, signal: AbortSignal): Promise<void> {
  const connection = await openConnection(target, { roleSettings: false, signal })
  // The signal only stops the opening of a connection.
  const stop = (): void => destroyConnection(connection)
  signal.addEventListener('abort', stop)
  const timer = setTimeout(stop, TIMEOUT_MS)
  try {
    for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS;) {
      const [row] = await query<{ deleted: string }>(connection, pruneText(BATCH_ROWS))
      deleted = Number(row?.deleted)
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    await closeConnection(connection)
  }
}
