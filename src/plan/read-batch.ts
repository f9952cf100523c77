/**
 * Reads the body of `POST /`: bytes → operations. The route and `oneflight check` share this
 * code, so they accept and refuse the same batches.
 */
import type { Batch } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { parseInPieces } from '../json/parse.ts'
import type { Pieces } from '../json/pieces.ts'
import type { PlanLimits } from './context.ts'
import { validateBody } from './validate-body.ts'

/** Limits of one request. */
export interface BatchLimits extends PlanLimits {
  readonly maxOps: number
}

/**
 * Parses and validates a batch. Throws the Failure of the first stage that finds a problem: JSON
 * (`body_invalid`) or the request level (see validateBody).
 */
export function * readBatch (
  bytes: Buffer,
  { maxOps }: Pick<BatchLimits, 'maxOps'>
): Pieces<Batch> {
  const body = yield * parseInPieces(bytes)
  const problem = validateBody(body, maxOps)
  if (problem !== undefined) throw problem
  return body as unknown as Batch
}

/** The limits that the configuration sets. */
export function batchLimits (
  config: Pick<Config, 'DB_SCHEMAS' | 'MAX_OPS' | 'MAX_ROWS' | 'MAX_CONDITIONS' | 'MAX_WORK'>
): BatchLimits {
  return {
    schemas: config.DB_SCHEMAS,
    maxOps: config.MAX_OPS,
    maxRows: config.MAX_ROWS,
    maxConditions: config.MAX_CONDITIONS,
    maxWork: config.MAX_WORK
  }
}
