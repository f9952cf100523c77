/**
 * The request as a whole, before any single operation is looked at: what is said of a body that
 * schemas/batch.ts refuses. Compiling that schema is left to the caller, who knows MAX_OPS.
 */
import { ValueErrorType, type ValueError } from '@sinclair/typebox/errors'
import type { Batch } from '../../schemas/batch.ts'
import { failure, type Failure } from '../errors/catalogue.ts'

/** The first fault of the body as a whole, in the words of the contract. */
export function refuseBody (fault: ValueError | undefined): Failure {
  const index = Number(fault?.path.split('/')[1])
  switch (fault?.type) {
    case ValueErrorType.ArrayMinItems:
      return failure('body_empty')
    case ValueErrorType.ArrayMaxItems:
      return failure(
        'too_many_ops',
        `The batch holds ${(fault.value as unknown[]).length} operations, at most ${
          String(fault.schema['maxItems'])
        } are allowed.`
      )
    case ValueErrorType.Array:
      return failure('body_invalid', 'The body is not a JSON array.')
    default:
      return failure('id_missing', `Operation ${index} has no id that is a string.`, {
        op: null,
        index
      })
  }
}

/** Throws `id_duplicate` when two operations have the same id. */
export function checkIds (operations: Batch): void {
  const seen = new Map<string, number>()
  for (const [index, { id }] of operations.entries()) {
    const first = seen.get(id)
    if (first !== undefined) {
      throw failure('id_duplicate', `Operations ${first} and ${index} have the same id.`, {
        op: id,
        index
      })
    }
    seen.set(id, index)
  }
}
