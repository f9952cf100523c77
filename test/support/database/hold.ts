/**
 * Locks a row, so batches that need it wait until the test releases it.
 */
import type { Database } from './database.ts'
import { until } from '../until.ts'

export interface HeldRow {
  /** The number of sessions of the database that wait for a lock. */
  count(): Promise<number>
  /** Resolves when this number of sessions waits. */
  awaited(batches?: number): Promise<unknown>
  free(): Promise<void>
}

const countWaiting = async ({ sql }: Pick<Database, 'sql'>): Promise<number> =>
  (await sql`select from pg_stat_activity where datname = current_database()
    and wait_event_type = 'Lock'`).length

/** Resolves when this number of sessions of the database waits for a lock. */
export const untilBlocked = (database: Pick<Database, 'sql'>, batches = 1): Promise<unknown> =>
  until(async () => await countWaiting(database) === batches)

/** Locks the rows of `query` until `free` is called. */
export async function holdRow (
  database: Pick<Database, 'sql'>,
  query = 'select from slots where id = 0'
): Promise<HeldRow> {
  const connection = await database.sql.reserve()
  await connection.unsafe(`begin; ${query} for update`)
  return {
    count: () => countWaiting(database),
    awaited: batches => untilBlocked(database, batches),
    async free () {
      await connection.unsafe('rollback')
      connection.release()
    }
  }
}
