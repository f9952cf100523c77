/**
 * Deletes expired idempotency keys, now and then, over a connection of its own that is closed in
 * between: no request waits for it. That a key has expired is for the requests to see; this only
 * makes room.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import type { DatabaseTarget } from '../../schemas/database.ts'
import { pruneText } from '../sql/idempotency.ts'
import {
  query,
  destroyConnection,
  closeConnection,
  openConnection
} from '../postgres/connection.ts'

export interface KeyPrunerOptions {
  readonly target: DatabaseTarget
  /** About how often, in milliseconds. */
  readonly everyMs: number
  /**
   * Hears why the database refuses it, e.g. for lack of rights; not twice of the same. That there
   * is no table is nothing to hear of: keys are not used then.
   */
  readonly onRefused: (reason: postgres.PostgresError) => void
}

export interface KeyPruner {
  /** Ends it; resolves when its connection is closed. */
  close(): Promise<void>
}

/** Rows of one statement: few enough that its locks are short. */
const BATCH = 1000

/** Longest time at one go, so that a connection that falls silent ends nothing but this one. */
const PATIENCE_MS = 60_000

/** Starts it. What it cannot do now, for the database is away, it does the next time. */
export function startKeyPruner ({ target, everyMs, onRefused }: KeyPrunerOptions): KeyPruner {
  const end = new AbortController()
  const { signal } = end
  let told: string | undefined
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      await prune(target, signal).catch((error: unknown) => {
        // That there is no connection is told by the pool.
        if (
          !(error instanceof postgres.PostgresError) || error.severity !== 'ERROR' ||
          error.code === NO_TABLE || error.code === told
        ) return
        told = error.code
        onRefused(error)
      })
      // Spread, so that replicas which were started together do not come together.
      await delay(everyMs * (0.5 + Math.random()), undefined, { signal, ref: false }).catch(
        () => {}
      )
    }
  }
  const done = run()
  return {
    async close () {
      end.abort()
      await done
    }
  }
}

/** undefined_table, also when there is no such schema. */
const NO_TABLE = '42P01'

async function prune (target: DatabaseTarget, signal: AbortSignal): Promise<void> {
  const connection = await openConnection(target, { roleSettings: false, signal })
  // An open connection is not concerned by the signal.
  const stop = (): void => destroyConnection(connection)
  signal.addEventListener('abort', stop)
  const timer = setTimeout(stop, PATIENCE_MS)
  try {
    for (let deleted = BATCH; deleted === BATCH;) {
      const [row] = await query<{ deleted: string }>(connection, pruneText(BATCH))
      deleted = Number(row?.deleted)
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    await closeConnection(connection)
  }
}
