/**
 * Reads the body of `POST /`: bytes → operations, checked as a whole against schemas/batch.ts. The
 * route and `oneflight check` share this code, so they accept and refuse the same batches.
 */
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { ValueErrorType, type ValueError } from '@sinclair/typebox/errors'
import { type Batch, batchSchema } from '../../../schemas/batch.ts'
import type { Config } from '../../../schemas/config.ts'
import { maxConditions } from '../../../schemas/operation.ts'
import { failure, type Failure } from '../../errors/catalogue.ts'
import { parseJson } from '../../json/parse.ts'
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
  const check = compileSchema(maxOps)
  return check.Check(body) ? findDuplicateId(body) : describeError(check.Errors(body).First())
}

const compiled = new Map<number, TypeCheck<ReturnType<typeof batchSchema>>>()

/** Returns the compiled schema from a cache. A process uses only one value of `maxOps`. */
function compileSchema (maxOps: number): TypeCheck<ReturnType<typeof batchSchema>> {
  const check = compiled.get(maxOps) ?? TypeCompiler.Compile(batchSchema(maxOps))
  compiled.set(maxOps, check)
  return check
}

/** Converts TypeBox's first error to a Failure. */
function describeError (error: ValueError | undefined): Failure {
  const index = Number(error?.path.split('/')[1])
  switch (error?.type) {
    case ValueErrorType.ArrayMinItems:
      return failure('body_empty')
    case ValueErrorType.ArrayMaxItems:
      return failure(
        'too_many_ops',
        `The batch has ${(error.value as unknown[]).length} operations; at most ${
          String(error.schema['maxItems'])
        } are allowed (MAX_OPS).`
      )
    case ValueErrorType.Array:
      return failure('body_invalid', 'The body must be a JSON array of operations.')
    default:
      return failure('id_missing', `Operation ${index} must be an object with a string "id".`, {
        op: null,
        index
      })
  }
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
