/**
 * Reads the body of `POST /`: bytes → Plan. The route and `oneflight check` share this code, so
 * they accept and refuse the same batches.
 */
import type { Batch } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { parseJson } from '../json/parse.ts'
import type { PlanLimits } from './context.ts'
import type { Plan } from './nodes.ts'
import { planBatch } from './plan-batch.ts'
import { validateBody } from './validate-body.ts'

/** Limits of one request. */
export interface BatchLimits extends PlanLimits {
  readonly maxOps: number
}

/**
 * Parses, validates and plans a batch. Throws the Failure of the first stage that finds a problem:
 * JSON (`body_invalid`), the request level (see validateBody) or the operations
 * (`validation_failed`, with all issues). `facts` gets the number of operations before they are
 * planned, for the access log.
 */
export function readBatch (
  bytes: Buffer,
  limits: BatchLimits,
  facts: { operations?: number } = {}
): Plan {
  const body = parseJson(bytes)
  const problem = validateBody(body, limits.maxOps)
  if (problem !== undefined) throw problem
  const operations = body as unknown as Batch
  facts.operations = operations.length
  return planBatch(operations, limits)
}

/** The limits that the configuration sets. */
export function batchLimits (
  config: Pick<Config, 'DB_SCHEMAS' | 'MAX_OPS' | 'MAX_ROWS' | 'MAX_CONDITIONS'>
): BatchLimits {
  return {
    schemas: config.DB_SCHEMAS,
    maxOps: config.MAX_OPS,
    maxRows: config.MAX_ROWS,
    maxConditions: config.MAX_CONDITIONS
  }
}
