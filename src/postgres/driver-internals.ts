/**
 * What the service uses of postgres.js 3.4.9 beyond its documented API, in one place. Check every
 * item when the version changes.
 *
 * - Option `max_pipeline`: postgres.js waits for results after 100 queries in flight. One
 *   transaction sends up to MAX_OPS statements without a round trip between them.
 * - Option `no_subscribe`: leaves out the client for logical replication.
 * - Option `socket`: documented, but missing from the types. See connect.ts.
 * - Query option `simple`: selects the protocol for a query without arguments.
 * - `Query.parameters`: set before the query is sent. postgres.js asks the server for the types of
 *   arguments first, which costs a round trip for every new text and every unprepared one. It does
 *   not ask when the arguments are empty and `parameters` is set; PostgreSQL infers the types.
 *   Measured on the wire: two round trips for 100 operations, the first time too.
 * - `Query.prepared`: cleared after the query is sent. postgres.js repeats a query with this flag
 *   when its prepared statement is stale, and would run it after ROLLBACK, in the next transaction.
 * - `Query.statement`: tells whether the server holds a prepared statement after its query failed.
 */
import type postgres from 'postgres'
import type { Statement } from '../sql/compile.ts'

/** Options of a client that are missing from the types of postgres.js. */
export interface UntypedOptions {
  readonly max_pipeline: number
  readonly no_subscribe: boolean
  readonly socket: () => Promise<NodeJS.WritableStream>
}

/** Rows as arrays of the bytes received, and the command tag. */
export type RawResult = ReadonlyArray<ReadonlyArray<Buffer | null>> & { readonly command: string }

/** A query that was sent. Resolves to its result. */
export interface SentQuery extends PromiseLike<RawResult> {
  parameters: ReadonlyArray<string | null>
  prepared: boolean
  /** null until postgres.js writes the query; `columns` once the server has described them. */
  readonly statement: { readonly columns?: unknown } | null
}

interface QueryOptions extends postgres.UnsafeQueryOptions {
  readonly simple: boolean
}

/** Sends a statement by the extended protocol, with its parameters as text. Does not wait. */
export function sendExtended (
  transaction: postgres.TransactionSql,
  { text, parameters }: Statement,
  prepare: boolean
): SentQuery {
  const options: QueryOptions = { prepare, simple: false }
  const query = transaction.unsafe(text, [], options).raw() as unknown as ExecutableQuery
  query.parameters = [...parameters]
  return query.execute()
}

/** Sends a text without parameters by the simple protocol. Does not wait. */
export function sendSimple (transaction: postgres.TransactionSql, text: string): SentQuery {
  const options: QueryOptions = { prepare: false, simple: true }
  return (transaction.unsafe(text, [], options) as unknown as ExecutableQuery).execute()
}

interface ExecutableQuery extends SentQuery {
  execute(): SentQuery
}

/** Keeps postgres.js from repeating a query whose prepared statement is stale. */
export function disableRepeat (query: SentQuery): void {
  query.prepared = false
}

/**
 * Whether the server has prepared the statement of a query: it describes the columns only after
 * that. True also for a statement that failed while it ran.
 */
export function isPrepared ({ statement }: SentQuery): boolean {
  return statement?.columns !== undefined
}
