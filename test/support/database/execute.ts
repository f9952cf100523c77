/**
 * Runs SQL on a connection of its own.
 */
import postgres from 'postgres'

/** Runs statements in order as superuser. Returns the rows of the last one. */
export async function execute (
  { url }: { readonly url: string },
  ...texts: readonly string[]
): Promise<ReadonlyArray<Record<string, unknown>>> {
  const sql = postgres(url, { max: 1, onnotice () {}, connect_timeout: 5 })
  try {
    let rows: ReadonlyArray<Record<string, unknown>> = []
    for (const text of texts) rows = await sql.unsafe(text)
    return rows
  } finally {
    await sql.end({ timeout: 1 })
  }
}
