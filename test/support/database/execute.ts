/**
 * Runs SQL on a connection of its own, and changes settings of a server.
 */
import postgres from 'postgres'
import { until } from '../until.ts'

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

/** Changes a setting of a server. Resolves when new sessions have it. */
export async function changeSetting (
  server: { readonly url: string },
  name: string,
  value: string
): Promise<void> {
  await execute(server, `alter system set ${name} = '${value}'`, 'select pg_reload_conf()')
  await until(async () => (await execute(server, `show ${name}`))[0]?.[name] === value)
}
