/**
 * Reads the body of `POST /`: bytes → operations, checked as a whole. The route and `oneflight
 * check` share this code, so they accept and refuse the same batches.
 */
import type { Batch } from '../../../schemas/batch.ts'
import type { Config } from '../../../schemas/config.ts'
import { maxConditions } from '../../../schemas/operation.ts'
import { failure, type Failure } from '../../errors/catalogue.ts'
import { isObject, parseJson, type Json } from '../../json/parse.ts'
import type { PlanLimits } from '../context.ts'

/** Limits of one request. */
export interface BatchLimits extends PlanLimits {
  readonly maxOps: number
}

/**
 * Parses and validates a batch. Throws the Failure of the first stage that finds a problem: JSON
 * (`body_invalid`) or the request level (see validateBody).
 */
export function readBatch (bytes: Buffer, { maxOps }: Pick<BatchLimits, 'maxOps'>): Batch {
  const body = parseJson(bytes)
  const problem = validateBody(body, maxOps)
  if (problem !== undefined) throw problem
  return body as unknown as Batch
}

/** The limits that the configuration sets. */
export function batchLimits (
  config: Pick<
    Config,
    'DB_SCHEMAS' | 'MAX_OPS' | 'MAX_ROWS'
  > & Partial<Pick<Config, 'MAX_UPLOAD_ROWS'>>
): BatchLimits {
  return {
    schemas: config.DB_SCHEMAS,
    maxOps: config.MAX_OPS,
    maxRows: config.MAX_ROWS,
    maxUploadRows: config.MAX_UPLOAD_ROWS ?? 0,
    maxConditions
  }
}

/**
 * Returns the Failure of a body that is not a batch: `body_invalid`, `body_empty`, `too_many_ops`,
 * `id_missing` or `id_duplicate`. Returns undefined for a valid body. `maxOps` is MAX_OPS.
 */
export function validateBody (body: unknown, maxOps: number): Failure | undefined {
  if (!Array.isArray(body)) {
    return failure('body_invalid', 'The body must be a JSON array of operations.')
  }
  const operations = body as readonly Json[]
  const { length } = operations
  if (length === 0) return failure('body_empty')
  if (length > maxOps) {
    const message = `The batch has ${length} operations; at most ${maxOps} are allowed (MAX_OPS).`
    return failure('too_many_ops', message)
  }
  const index = operations.findIndex(item => !isObject(item) || typeof item['id'] !== 'string')
  if (index < 0) return findDuplicateId(body as Batch)
  const message = `Operation ${index} must be an object with a string "id".`
  return failure('id_missing', message, { op: null, index })
}

function findDuplicateId (operations: Batch): Failure | undefined {
  const seen = new Map<string, number>()
  for (const [index, { id }] of operations.entries()) {
    const first = seen.get(id)
    if (first !== undefined) {
      return failure('id_duplicate', `Operations ${first} and ${index} have the same id.`, {
        op: id,
        index
      })
    }
    seen.set(id, index)
  }
  return undefined
}
