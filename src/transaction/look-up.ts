/**
 * Reads from the catalogue what an error message can suggest: the tables and columns that the role
 * may use instead of one that does not exist, and the labels of enums. An error costs one more
 * round trip.
 */
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { render, type Fragment } from '../fragment/fragment.ts'
import type { NamedPart, Plan } from '../plan/plan.ts'
import type { PlanNode, TableName } from '../plan/nodes.ts'
import { query } from '../postgres/connection.ts'
import { withConnection, type ConnectionPool } from '../postgres/pool.ts'
import { textAtError } from '../sql/statement/error-place.ts'
import {
  enumLabels,
  usableColumns,
  usableFunctions,
  usableTables
} from '../sql/statement/suggestions.ts'
import { tableName } from '../sql/statement/table.ts'
import type { Failed } from './outcome.ts'

export interface Suggestions {
  /** Tables that the role may use. */
  readonly tables?: readonly TableName[] | undefined
  /** Functions that the role may call. */
  readonly functions?: readonly TableName[] | undefined
  /** Columns that the role may use, of the table that lacks one. */
  readonly columns?: readonly string[] | undefined
  /** The labels of the enums of the operation's table, by column. */
  readonly labels?: Readonly<Record<string, readonly string[]>> | undefined
}

export interface LookUpOptions {
  readonly pool: ConnectionPool
  /** The role of the batch. */
  readonly role: string
  /** DB_SCHEMAS */
  readonly schemas: readonly string[]
  /** A time of performance.now(). */
  readonly deadline: number
}

/** Returns what is known about the error of an operation; nothing if it cannot be read. */
export async function lookUp (
  { error, at, refusal }: Failed,
  { operations }: Plan,
  options: LookUpOptions
): Promise<Suggestions> {
  if (typeof at !== 'number') return {}
  if (refusal?.kind === 'name') return await lookUpNames(refusal.name, options)
  const node = operations[at] as PlanNode
  const { table } = node
  if (isMissingFunction(error, node)) {
    return { functions: await read(usableFunctions(options), options) }
  }
  return error.routine === 'enum_in' ? { labels: await read(enumLabels(table), options) } : {}
}

/** Whether there is no function that the operation could call. */
export function isMissingFunction (error: DatabaseError, node: PlanNode): boolean {
  return node.kind === 'call' && error.code === SqlState.undefined_function &&
    textAtError(error).startsWith(render(tableName(node.table)).text)
}

async function lookUpNames (
  { table, column }: NamedPart,
  options: LookUpOptions
): Promise<Suggestions> {
  return column === undefined
    ? { tables: await read(usableTables(options), options) }
    : { columns: await read(usableColumns(table, options.role), options) }
}

async function read<Result> (
  statement: Fragment,
  { pool, deadline }: LookUpOptions
): Promise<Result | undefined> {
  const { text } = render(statement)
  try {
    const [row] = await withConnection(
      pool,
      deadline,
      connection => query(connection, text),
      { retry: true }
    )
    return (JSON.parse(row?.['found'] ?? 'null') ?? undefined) as Result | undefined
  } catch {
    // The error is sent without a suggestion.
    return undefined
  }
}
