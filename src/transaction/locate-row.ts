/**
 * Finds the row of `values` that violates a constraint, or has a value that does not fit its type.
 * PostgreSQL names the constraint, but not the row, and its texts are no proof: they depend on the
 * language, a trigger or a default may have set the value that they quote, and several rows may
 * have it. Therefore the rows are written again, one after another, in a transaction that is
 * rolled back. The row is the first one that fails with the same error.
 *
 * The error stays without a row if it is raised inside of a function or trigger, or if it may not
 * occur at the same row: when one row can repair the violation of another.
 */
import { Failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/postgres.ts'
import { isValueError, SqlState } from '../errors/sqlstates.ts'
import type { BulkUpdateNode, InsertNode, PlanNode } from '../plan/nodes.ts'
import type { Division, PlannedBatch } from '../plan/plan-batch.ts'
import { parameterAtError } from '../sql/statement/error-place.ts'
import { readRaised } from '../sql/statement/raised-error.ts'
import type { BatchOutcome, Failed } from './outcome.ts'

/** Runs a part of the batch and rolls it back. */
type TryPart = (part: PlannedBatch) => Promise<BatchOutcome>

/**
 * The rows are divided into this many parts, and the part that fails is divided again: two attempts
 * for 4096 rows.
 */
const MAX_PARTS = 64

/** Returns the position of the row in `values`; undefined: it is not certain. */
export async function locateRow (
  failed: Failed,
  { plan, divide }: PlannedBatch,
  tryPart: TryPart
): Promise<number | undefined> {
  const { at: index, error } = failed
  if (divide === undefined || typeof index !== 'number' || !isOfRow(error)) return undefined
  const node = plan().operations[index] as PlanNode
  const rows = countRows(node)
  if (rows < 2 || inFunction(error)) return undefined
  if (isValueError(error.code) && setsValues(node as WithRows)) return undefined
  const needsKey = isRepairable(error, node as WithRows)
  if (needsKey && !showsKey(error)) return undefined
  const fails = async (sizes: readonly number[]): Promise<number | undefined> => {
    const division: Division = { index, sizes }
    const outcome = await tryPart(divide(division))
    return isSame(error, outcome, needsKey) ? outcome.at - index : undefined
  }
  try {
    return await search(rows, fails)
  } catch (reason) {
    // For example, the parts are too much work, or there is no time left.
    if (reason instanceof Failure) return undefined
    throw reason
  }
}

/** Divides the rows until the part that fails has one row. */
async function search (
  rows: number,
  fails: (sizes: readonly number[]) => Promise<number | undefined>
): Promise<number | undefined> {
  let [start, end] = [0, rows]
  while (end - start > 1) {
    const count = end - start
    const size = Math.ceil(count / MAX_PARTS)
    const before = start === 0 ? [] : [start]
    const sizes = Array.from({ length: Math.ceil(count / size) }, (_, i) =>
      Math.min(size, count - i * size))
    const part = await fails([...before, ...sizes])
    // The rows before did not fail in the attempt before this one.
    if (part === undefined || part < before.length) return undefined
    start += (part - before.length) * size
    end = Math.min(start + size, end)
  }
  return start
}

/** Those of two rows. */
const CONFLICTS: ReadonlySet<string> = new Set([
  SqlState.unique_violation,
  SqlState.exclusion_violation
])

const REFERENTIAL: ReadonlySet<string> = new Set([
  SqlState.foreign_key_violation,
  SqlState.restrict_violation
])

/** The conditions that name a constraint or a column. */
const VIOLATIONS: ReadonlySet<string> = new Set([
  SqlState.not_null_violation,
  SqlState.check_violation,
  ...CONFLICTS,
  ...REFERENTIAL
])

/** Whether a row can be the reason. What the service raises itself names its place. */
function isOfRow (error: DatabaseError): boolean {
  if (VIOLATIONS.has(error.code)) return true
  return isValueError(error.code) && readRaised(error) === undefined
}

type WithRows = InsertNode | BulkUpdateNode

function countRows (node: PlanNode): number {
  if (node.kind !== 'insert' && node.kind !== 'bulk_update') return 0
  return node.groups.reduce((sum, { positions }) => sum + positions.length, 0)
}

/** Whether an insert has values beside its rows: they would be taken for those of a row. */
function setsValues (node: WithRows): boolean {
  if (node.kind !== 'insert') return false
  const { set = [], where = [] } = node.conflict?.update ?? {}
  return where.length > 0 || set.some(({ modifier }) => modifier !== '$excluded')
}

/**
 * Whether a later row can repair the violation before the end of the statement, when PostgreSQL
 * checks foreign keys and deferrable constraints: it inserts the row that a foreign key refers to,
 * or updates the row that conflicts.
 */
function isRepairable ({ code }: DatabaseError, node: WithRows): boolean {
  if (REFERENTIAL.has(code)) return true
  return CONFLICTS.has(code) &&
    (node.kind === 'bulk_update' || node.conflict?.update !== undefined)
}

/**
 * Whether the detail contains the key: `Key (a)=(1) is not present in table "b".` PostgreSQL leaves
 * it out if row-level security or a missing privilege hides it.
 */
function showsKey ({ detail }: DatabaseError): boolean {
  return detail?.includes(')=(') === true
}

/**
 * Whether a part failed with the same error. `withKey`: also for the same key. The message shows
 * whether it is about the same value.
 */
function isSame (
  error: DatabaseError,
  outcome: BatchOutcome,
  withKey: boolean
): outcome is Failed & { readonly at: number } {
  if (outcome.kind !== 'failed' || typeof outcome.at !== 'number') return false
  const { error: other } = outcome
  if (inFunction(other)) return false
  return SAME_FIELDS.every(field => error[field] === other[field]) &&
    (!isValueError(error.code) || error.message === other.message) &&
    (!withKey || error.detail === other.detail)
}

const SAME_FIELDS = [
  'code',
  'constraint_name',
  'schema_name',
  'table_name',
  'column_name'
] as const

/** Whether an error has another context than that of a parameter. */
function inFunction (error: DatabaseError): boolean {
  return error.where !== undefined && parameterAtError(error) === undefined
}
