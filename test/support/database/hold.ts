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

/** Locks the rows of `query` until `free` is called. */
export async function holdRow (
  { sql }: Pick<Database, 'sql'>,
  query = 'select from slots where id = 0'
): Promise<HeldRow> {
  const connection = await sql.reserve()
  await connection.unsafe(`begin; ${query} for update`)
  const count = async (): Promise<number> =>
    (await sql`select from pg_stat_activity where datname = current_database()
      and wait_event_type = 'Lock'`)
      .length
  return {
    count,
    awaited: (batches = 1) => until(async () => await count() === batches),
    async free () {
      await connection.unsafe('rollback')
      connection.release()
    }
  }
}
