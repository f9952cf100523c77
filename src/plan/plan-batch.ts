/**
 * Plans the operations of a batch: JSON → Plan, without SQL or a database. Reports all issues of
 * all operations together.
 */
import type { Batch } from '../../schemas/batch.ts'
import { has, isDeep, type JsonObject } from '../json/parse.ts'
import { createPlanContext, type PlanLimits } from './context.ts'
import { collectIssues } from './issues.ts'
import type {
  Parameter,
  Plan,
  PlanNode,
  ReferenceUse,
  Requirement,
  TableName
} from './nodes.ts'
import { planOperation } from './plan-operation.ts'
import { createWorkBudget } from './work.ts'

/**
 * Plans a batch that parseJson parsed and validateBody accepted. Throws `validation_failed` with
 * the issues of every operation. The status is 422, or 403 if every issue is `schema_forbidden`.
 * Throws `too_much_work` as soon as the batch exceeds MAX_WORK.
 * `parameters`: those of a named batch.
 */
export function planBatch (
  batch: Batch,
  limits: PlanLimits,
  parameters?: ReadonlyMap<string, Parameter>
): Plan {
  const issues = collectIssues()
  const referenceUses = new Map<number, ReferenceUse[]>()
  const requirements = new Map<number, Map<string, Requirement>>()
  const counted = new Set<number>()
  const tables = new Map<string, TableName>()
  const usedRows = { inserted: new Set<number>(), documents: [] }
  const earlier = new Map<string, number>()
  const planned: PlanNode[] = []
  const deep = isDeep(batch)
  const work = createWorkBudget(limits.maxWork)
  const spent: number[] = []
  for (const [index, element] of batch.entries()) {
    const { id } = element
    const operation = element as unknown as JsonObject
    const context = createPlanContext(
      {
        limits,
        issues,
        referenceUses,
        requirements,
        counted,
        tables,
        usedRows,
        earlier,
        batch,
        parameters,
        work
      },
      { op: id, index, conditional: has(operation, 'when') }
    )
    const before = work.spent
    const node = planOperation(operation, { index, id, deep }, context)
    spent.push(work.spent - before)
    if (node !== undefined) planned.push(node)
    earlier.set(id, index)
  }
  issues.throwIfAny()
  return {
    operations: planned,
    tables: [...tables.values()],
    referenceUses,
    requirements,
    counted,
    usedRows,
    work: spent
  }
}
