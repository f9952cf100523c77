/**
 * Makes what the service keeps in the database, by running one SQL file. In charge of the one
 * variable of that file; what it makes, and that it can be run again, is the file's business.
 */
import type { DatabaseTarget } from '../../schemas/database.ts'
import { identifier, render } from '../sql/fragment.ts'
import { query, closeConnection, openConnection } from './connection.ts'

/**
 * Runs `text` (deploy/migrate.sql), in which psql's `:"login_role"` stands for the role that the
 * service logs in with. Rejects when there is no connection or a statement fails; then nothing was
 * made.
 */
export async function migrate (
  target: DatabaseTarget,
  text: string,
  loginRole: string
): Promise<void> {
  const connection = await openConnection(target, { roleSettings: false })
  try {
    // A function: `$` means something in a text that replaces.
    await query(
      connection,
      text.replaceAll(':"login_role"', () => render(identifier(loginRole)).text)
    )
  } finally {
    await closeConnection(connection)
  }
}
