/**
 * Databases that speak PostgreSQL's protocol but do not keep what the service promises. In charge
 * of recognizing them when a connection is opened; the caller refuses the connection.
 */
import type postgres from 'postgres'

export interface Engine {
  readonly name: string
  /** SQL condition that holds on this engine only. Evaluated on a connection without a batch. */
  readonly condition: string
  /** Why a connection is refused, for the log. */
  readonly refusal: string
}

const engines: readonly Engine[] = [
  {
    name: 'citus',
    // Asked of this database only: Citus keeps no tables where the extension is not installed.
    condition: `exists (
      select from pg_catalog.pg_extension as e where e.extname operator(pg_catalog.=) 'citus'
    )`,
    refusal: 'the database has the extension citus, which is not supported: row level security ' +
      'fails open there, because request.jwt.claims does not reach the workers'
  }
]

const question = engines
  .map(({ name, condition }) => `select '${name}' as engine where ${condition}`)
  .join(' union all ')

/** The unsupported engine behind a connection; undefined where there is none. */
export async function recognizeEngine (connection: postgres.Sql): Promise<Engine | undefined> {
  const [found] = await connection.unsafe<Array<{ engine: string }>>(question)
  return engines.find(({ name }) => name === found?.engine)
}
