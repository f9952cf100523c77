/**
 * Request-level validation: checks the body as a whole against schemas/batch.ts, before any
 * operation is read.
 */
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { ValueErrorType, type ValueError } from '@sinclair/typebox/errors'
import { batchSchema, type Batch } from '../../schemas/batch.ts'
import { failure, type Failure } from '../errors/catalogue.ts'

/**
 * Returns the Failure of a body that is not a batch: `body_invalid`, `body_empty`, `too_many_ops`,
 * `id_missing` or `id_duplicate`. Returns undefined for a valid body. `maxOps` is MAX_OPS.
 */
export function validateBody (body: unknown, maxOps: number): Failure | undefined {
  const check = compileSchema(maxOps)
  return check.Check(body) ? findDuplicateId(body) : describeError(check.Errors(body).First())
}

const compiled = new Map<number, TypeCheck<ReturnType<typeof batchSchema>>>()

/** Compiles the schema once for each `maxOps`; a process has one value of it. */
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
