/** Creates the objects that the service needs in the database, by running deploy/migrate.sql. */
import type { DatabaseTarget } from '../../schemas/database.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { identifier, render } from '../fragment/fragment.ts'
import { closeConnection, query } from './connection.ts'
import { openConnection } from './open-connection.ts'

/** Whether the user of the migration lacks a privilege. */
export function isForbidden (error: unknown): error is DatabaseError {
  return (error as Partial<DatabaseError>).code === SqlState.insufficient_privilege
}

/**
 * Runs the SQL `text` with psql's `:"login_role"` replaced by the login role of the service.
 * Rejects when the connection or a statement fails; then nothing is changed.
 */
export async function migrate (
  target: DatabaseTarget,
  text: string,
  loginRole: string
): Promise<void> {
  const connection = await openConnection(target, { roleSettings: false })
  try {
    // A function, because `$` is special in a replacement text.
    const role = (): string => render(identifier(loginRole)).text
    await query(connection, text.replaceAll(':"login_role"', role))
  } finally {
    await closeConnection(connection)
  }
}
