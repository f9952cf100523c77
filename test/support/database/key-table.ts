/**
 * The table of idempotency keys.
 */
import { readFile } from 'node:fs/promises'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'
import { migrate } from '../../../src/postgres/migrate.ts'
import { LOGIN_ROLE } from './roles.ts'

/** Runs deploy/migrate.sql for a login role. */
export async function makeKeyTable (
  { url, login = LOGIN_ROLE }: { readonly url: string, readonly login?: string }
): Promise<void> {
  const text = await readFile(new URL('../../../deploy/migrate.sql', import.meta.url), 'utf8')
  await migrate(parseDatabaseUrl(url), text, login)
}
