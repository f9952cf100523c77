/**
 * Recognizes databases that speak PostgreSQL's protocol but do not keep the service's guarantees.
 * Their connections are refused.
 */
import type postgres from 'postgres'

export interface Engine {
  readonly name: string
  /** SQL condition that holds on this engine only. Evaluated on every new connection. */
  readonly condition: string
  /** Why a connection is refused, for the log. */
  readonly refusal: string
}

const UNSUPPORTED_ENGINES: readonly Engine[] = [
  {
    name: 'citus',
    // Checked in this database only: without the extension, Citus distributes none of its tables.
    condition: `exists (
      select from pg_catalog.pg_extension as e where e.extname operator(pg_catalog.=) 'citus'
    )`,
    refusal: 'the database has the extension citus, which is not supported: row level security ' +
      'fails open there, because request.jwt.claims does not reach the workers'
  }
]

const QUERY = UNSUPPORTED_ENGINES
  .map(({ name, condition }) => `select '${name}' as engine where ${condition}`)
  .join(' union all ')

/** Returns the unsupported engine behind a connection, or undefined. */
export async function recognizeEngine (client: postgres.Sql): Promise<Engine | undefined> {
  const [found] = await client.unsafe<Array<{ engine: string }>>(QUERY)
  return UNSUPPORTED_ENGINES.find(({ name }) => name === found?.engine)
}
