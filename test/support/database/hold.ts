/**
 * Locks a row, so batches that need it wait until the test releases it, and counts sessions.
 */
import type { Database } from './database.ts'
import { LOGIN_ROLE } from './roles.ts'
import { until } from '../until.ts'

/** The sessions of services on the database, or those of them that fulfil a condition of SQL. */
export const countSessions = async (
  { sql }: Pick<Database, 'sql'>,
  condition = 'true'
): Promise<number> =>
  (await sql.unsafe(`select from pg_stat_activity where datname = current_database()
    and usename = '${LOGIN_ROLE}' and ${condition}`)).length

/** Resolves when services have this number of such sessions. */
export const untilSessions = (
  database: Pick<Database, 'sql'>,
  count: number,
  condition?: string
): Promise<unknown> => until(async () => await countSessions(database, condition) === count)

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
