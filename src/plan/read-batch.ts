/**
 * Reads the body of `POST /`: bytes → Plan. The route and `oneflight check` share this code, so
 * they accept and refuse the same batches.
 */
import type { Batch } from '../../schemas/batch.ts'
import { parseJson } from '../json/parse.ts'
import type { Plan, PlanLimits } from './nodes.ts'
import { planBatch } from './plan-batch.ts'
import { validateBody } from './validate-body.ts'

export interface BatchLimits extends PlanLimits {
  readonly maxOps: number
}

/**
 * Parses, validates and plans a batch. Throws the Failure of the first stage that finds a problem:
 * JSON (`body_invalid`), the request level (see validateBody) or the operations
 * (`validation_failed`, with all issues).
 *
 * The stages are separate functions because Fastify parses, validates and handles a request in
 * separate steps.
 */
export function readBatch (bytes: Buffer, limits: BatchLimits): Plan {
  const body = parseJson(bytes)
  const problem = validateBody(body, limits.maxOps)
  if (problem !== undefined) throw problem
  return planBatch(body as unknown as Batch, limits)
}
