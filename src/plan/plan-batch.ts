/**
 * Plans the operations of a batch: JSON → Plan, without SQL or a database. Reports all issues of
 * all operations together, and keeps the plans of batches that recur.
 */
import { LRUCache } from 'lru-cache'
import type { Batch } from '../../schemas/batch.ts'
import { parseJson, type Json, type Pieces } from '../json/parse.ts'
import { BatchContext, PlanContext, type PlanLimits } from './context.ts'
import type { PlanNode } from './nodes.ts'
import type { Parameter } from './shape.ts'
import type { Plan } from './plan.ts'
import { planOperation } from './plan-operation.ts'
import { readFingerprint } from './fingerprint.ts'

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
  const context = new BatchContext(batch, limits, parameters)
  const { issues, tables, referenceUses, requirements, counted, usedRows } = context
  const operations: PlanNode[] = []
  const work: number[] = []
  for (const [index, { id }] of batch.entries()) {
    const before = context.work.spent
    const node = planOperation(new PlanContext(context, index))
    work.push(context.work.spent - before)
    if (node !== undefined) operations.push(node)
    context.earlier.set(id, index)
  }
  issues.throwIfAny()
  return {
    operations,
    tables: [...tables.values()],
    referenceUses,
    requirements,
    counted,
    usedRows,
    work
  }
}

/** A batch that is valid. */
export interface PlannedBatch {
  /** The plan. Its values may be placeholders; see fingerprint.ts. */
  readonly genericPlan: Plan
  /** The values of the placeholders; undefined: it has none. */
  readonly values: readonly Json[] | undefined
  /** Returns the plan with all values, or with those placeholders that `values` fills. */
  readonly plan: () => Plan
  /** Whether the batch has a name: its plans always have placeholders. */
  readonly named?: boolean
  /** How many rows an operation may change that returns none; undefined: MAX_ROWS. */
  readonly maxChanged?: number
}

/**
 * Maximum memory of the cache. A service has some dozens of different batches, with fingerprints of
 * about one kB.
 */
const MAX_BYTES = 16 * 1024 * 1024

/** A plan took up to 28 times the bytes of its text, and a small one up to 4000 bytes more. */
const PLAN_BYTES = 4000
const BYTES_PER_CHARACTER = 30
/** Bytes of an entry without a plan, in addition to the characters of its text. */
const SEEN_BYTES = 200

/** Returns the maximum memory of a plan in bytes, from the length of the text of its batch. */
export function planBytes (length: number): number {
  return PLAN_BYTES + BYTES_PER_CHARACTER * length
}

export class BatchPlanner {
  readonly #limits: PlanLimits
  /**
   * Plans by the text of their fingerprint. `seen`: the batch has come once, and has no plan yet.
   */
  readonly #genericPlans = new LRUCache<string, Plan | 'seen'>({
    maxSize: MAX_BYTES,
    sizeCalculation: (plan, text) =>
      plan === 'seen' ? SEEN_BYTES + 2 * text.length : planBytes(text.length)
  })

  constructor (limits: PlanLimits) {
    this.#limits = limits
  }

  /** Plans a batch that validateBody accepted. Throws what planBatch throws. */
  * plan (batch: Batch): Pieces<PlannedBatch> {
    const fingerprint = readFingerprint(batch)
    const known = fingerprint && this.#genericPlans.get(fingerprint.text)
    if (fingerprint !== undefined && known instanceof Object) {
      return {
        genericPlan: known,
        values: fingerprint.values,
        plan: once(() => planBatch(batch, this.#limits))
      }
    }
    yield
    const plan = planBatch(batch, this.#limits)
    if (fingerprint !== undefined) {
      yield
      const { text } = fingerprint
      this.#genericPlans.set(text, known === undefined ? 'seen' : this.#planFingerprint(text))
    }
    return toPlannedBatch(plan)
  }

  /** Plans the batch of a fingerprint. It is valid, because a batch with this fingerprint was. */
  #planFingerprint (text: string): Plan {
    return planBatch(parseJson(Buffer.from(text)) as unknown as Batch, this.#limits)
  }
}

/** A batch whose plan is not shared. */
export function toPlannedBatch (plan: Plan): PlannedBatch {
  return { genericPlan: plan, values: undefined, plan: () => plan }
}

/** Returns a function that calls `create` once, when its result is first needed. */
export function once<Result> (create: () => Result): () => Result {
  let result: Result | undefined
  return () => {
    result ??= create()
    return result
  }
}
