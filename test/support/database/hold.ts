/**
 * A row that is held, so that batches which want it wait for as long as a test needs.
 */
import type { Database } from './database.ts'
import { until } from '../until.ts'

export interface HeldRow {
  /** How many of the database's sessions wait for a lock. */
  count(): Promise<number>
  /** Resolves when it is so many. */
  awaited(batches?: number): Promise<unknown>
  free(): Promise<void>
}

/** Locks what `query` finds, until it is freed. */
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
