/**
 * Reads from the catalogue what an error message can suggest: the tables and columns that the role
 * may use instead of one that does not exist, and the labels of enums. An error costs one more
 * round trip.
 */
import { render, type Fragment } from '../fragment/fragment.ts'
import type { NamedPart } from '../plan/plan.ts'
import type { PlanNode, TableName } from '../plan/nodes.ts'
import { query } from '../postgres/connection.ts'
import { withConnection, type ConnectionPool } from '../postgres/pool.ts'
import { enumLabels, usableColumns, usableTables } from '../sql/statement/suggestions.ts'
import type { Failed } from './outcome.ts'

export interface Suggestions {
  /** Tables that the role may use. */
  readonly tables: readonly TableName[]
  /** Columns that the role may use, of the table that lacks one. */
  readonly columns: readonly string[]
  /** The labels of the enums of the operation's table, by column. */
  readonly labels?: Readonly<Record<string, readonly string[]>>
}

/** What is suggested if nothing is known. */
export const NO_SUGGESTIONS: Suggestions = { tables: [], columns: [] }

interface LookUpOptions {
  readonly pool: ConnectionPool
  readonly role: string
  readonly schemas: readonly string[]
  /** A time of performance.now(). */
  readonly deadline: number
}

/** Returns what is known about the error of an operation; nothing if it cannot be read. */
export async function lookUp (
  { error, at, refusal }: Failed,
  node: PlanNode | undefined,
  options: LookUpOptions
): Promise<Suggestions> {
  if (typeof at !== 'number' || node === undefined) return NO_SUGGESTIONS
  if (refusal !== undefined) {
    return refusal.kind === 'name' ? await lookUpNames(refusal.name, options) : NO_SUGGESTIONS
  }
  const { routine } = error as { readonly routine?: string }
  if (routine !== 'enum_in') return NO_SUGGESTIONS
  const labels = enumLabels(node.table)
  const found = await read<NonNullable<Suggestions['labels']>>(labels, options)
  return { ...NO_SUGGESTIONS, labels: found ?? {} }
}

async function lookUpNames (
  { table, column }: NamedPart,
  options: LookUpOptions
): Promise<Suggestions> {
  if (column === undefined) {
    const tables = await read<readonly TableName[]>(usableTables(options), options)
    return { ...NO_SUGGESTIONS, tables: tables ?? [] }
  }
  const columns = usableColumns(table, options.role)
  return { ...NO_SUGGESTIONS, columns: await read<readonly string[]>(columns, options) ?? [] }
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
    return JSON.parse(row?.['found'] ?? 'null') as Result
  } catch {
    // The error is sent without a suggestion.
    return undefined
  }
}
