/**
 * Plans the operations of a batch: JSON → Plan, without SQL or a database. Reports all issues of
 * all operations together, and keeps the plans of batches that recur.
 */
import { LRUCache } from 'lru-cache'
import type { Batch } from '../../schemas/batch.ts'
import type { Json } from '../json/parse.ts'
import { readShape } from './batch-shape.ts'
import { BatchContext, PlanContext, type PlanInput, type PlanLimits } from './context.ts'
import type { PlanNode } from './nodes.ts'
import type { Plan } from './plan.ts'
import { planOperation } from './plan-operation.ts'

/**
 * Plans a batch that parseJson parsed and validateBody accepted. Throws `validation_failed` with
 * the issues of every operation. The status is 422, or 403 if every issue is `schema_forbidden`.
 * Throws `too_much_work` as soon as the batch exceeds `maxParts`.
 */
export function planBatch (
  batch: Batch,
  limits: PlanLimits,
  input: PlanInput = {}
): Plan {
  const context = new BatchContext(batch, limits, input)
  const { issues, tables, names, referenceUses, requirements, counted, usedRows, slots } = context
  const operations: PlanNode[] = []
  for (const [index, { id }] of batch.entries()) {
    const node = planOperation(new PlanContext(context, index))
    if (node !== undefined) operations.push(node)
    context.earlier.set(id, index)
  }
  issues.throwIfAny()
  return {
    operations,
    tables: [...tables.values()],
    names,
    referenceUses,
    requirements,
    counted,
    usedRows,
    slots: slots.size
  }
}

/** A batch that is valid. */
export interface PlannedBatch {
  readonly plan: Plan
  /** The values of its slots, by their positions. */
  readonly values: readonly Json[]
  /** Whether the plan is kept for other batches of the same shape, and so its statements. */
  readonly isKept: boolean
  /** Maximum rows of an operation that returns none; undefined: MAX_ROWS. */
  readonly maxChanged?: number
}

/** Maximum memory of the cache. A service has some dozens of different batches, of about one kB. */
const MAX_BYTES = 48 * 1024 * 1024

/**
 * A plan with its statements, in four variants, took up to 200 times the bytes of its text, and a
 * small one up to 15 000 bytes more. Most have one variant, which takes a third.
 */
const PLAN_BYTES = 15_000
const BYTES_PER_CHARACTER = 200

/** Returns the maximum memory of a plan and its statements, from the length of its text. */
export function planBytes (length: number): number {
  return PLAN_BYTES + BYTES_PER_CHARACTER * length
}

export class BatchPlanner {
  readonly #limits: PlanLimits
  /** Plans by the keys of their shapes. */
  readonly #plans = new LRUCache<string, Plan>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_, key) => planBytes(key.length)
  })

  constructor (limits: PlanLimits) {
    this.#limits = limits
  }

  /** Plans a batch that validateBody accepted. Throws what planBatch throws. */
  plan (batch: Batch): PlannedBatch {
    const shape = readShape(batch, this.#limits.maxRows)
    if (shape === undefined) {
      return { plan: planBatch(batch, this.#limits), values: [], isKept: false }
    }
    const { key, values, paths } = shape
    const plan = this.#plans.get(key) ?? planBatch(batch, this.#limits, { values: paths })
    // A plan with fewer slots contains a value itself.
    const isKept = plan.slots === values.length
    if (isKept) this.#plans.set(key, plan)
    return { plan, values, isKept }
  }
}
