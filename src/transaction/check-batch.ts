/**
 * Checks a batch against a database without running it. PostgreSQL plans each operation as
 * `Prefer: explain` does, which checks names, operators and privileges, and executes nothing. Each
 * operation has its own transaction, because a statement that fails ends its transaction.
 */
import { defaultPreferences, enabled } from '../../schemas/prefer.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import type { PlanNode } from '../plan/nodes.ts'
import type { Plan, ReferenceUse } from '../plan/plan.ts'
import { isAllColumns } from '../plan/output.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import type { Compiler, BatchRequest } from '../sql/compiler.ts'
import { columnsRead } from '../sql/statement/shared-results.ts'
import { executeBatch } from './execute.ts'
import type { BatchSettings } from './run-batch.ts'
import { toFailure } from './to-failure.ts'

export interface CheckOptions {
  readonly pool: ConnectionPool
  readonly compiler: Compiler
  /** The operations are planned with the privileges and policies of this role. */
  readonly role: string
  readonly settings: BatchSettings
  /** Maximum time of each operation. */
  readonly timeoutMs: number
}

/**
 * Returns what PostgreSQL refuses of each operation and the references to columns that do not
 * exist, in the order of the operations. Throws a Failure when the check is not possible: there is
 * no connection, the role cannot be set, or a lock is not released in time.
 */
export async function checkBatch (
  plan: Plan,
  options: CheckOptions
): Promise<readonly Failure[]> {
  const issues: Failure[] = []
  for (const node of plan.operations) {
    const issue = await explain(node, plan, options)
    if (issue !== undefined) issues.push(issue)
    issues.push(...checkReaders(node, plan, options))
  }
  return issues.sort((a, b) => Number(a.details.index) - Number(b.details.index))
}

async function explain (
  node: PlanNode,
  plan: Plan,
  { pool, compiler, role, settings, timeoutMs }: CheckOptions
): Promise<Failure | undefined> {
  const { index } = node
  const request: BatchRequest = {
    id: 'check',
    identity: { role, claims: JSON.stringify({ role }), anonymous: false },
    preferences: { ...defaultPreferences, access: 'read-only', explain: enabled },
    idempotencyKey: undefined,
    trace: undefined
  }
  const names = plan.names.filter(name => name.index === index)
  const planned = { plan: { ...plan, names, operations: [node] }, values: [], isKept: false }
  const batch = compiler.compile(planned, request)
  const outcome = await executeBatch(pool, batch, { deadline: performance.now() + timeoutMs })
  if (outcome.kind !== 'failed') return undefined
  const at = typeof outcome.at === 'number' ? index : outcome.at
  const deadline = performance.now() + timeoutMs
  const { columnTypes } = compiler
  const options = { ...settings, pool, columnTypes, role, anonymous: false, deadline }
  const failure = await toFailure({ ...outcome, at }, plan, options)
  if (at !== index || failure.details.retryable === true) throw failure
  return failure
}

/** Finds the operations that read a column which `node` does not return. */
function checkReaders (
  node: PlanNode,
  plan: Plan,
  { compiler }: CheckOptions
): readonly Failure[] {
  const uses = plan.referenceUses.get(node.index) ?? []
  const missing = columnsRead(uses).filter(column => !returnsColumn(node, column, compiler))
  return missing.flatMap(column => {
    const readers = uses.filter(({ reference }) => reference.column === column)
    return [...Map.groupBy(readers, ({ reader }) => reader)].map(([index, [first]]) => {
      const message = `"${node.id}" returns no column "${column}".`
      const { id: op } = plan.operations[index] as PlanNode
      const { path } = first as ReferenceUse
      return failure('reference_column_missing', message, { op, index, path: [...path] })
    })
  })
}

/** An operation without a list of columns returns those of its table, which have been read. */
function returnsColumn (
  { table, output }: PlanNode,
  column: string,
  { columnTypes }: Compiler
): boolean {
  if (output?.some(({ name }) => name === column) === true) return true
  return (output === undefined || output.some(isAllColumns)) &&
    columnTypes.lookup(table)?.has(column) !== false
}
