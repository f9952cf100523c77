/**
 * The request and response bodies of `POST /`, as far as they do not depend on the kind of an
 * operation.
 */
import { Type, type Static } from '@sinclair/typebox'

/** An element of the batch, as the request-level check sees it. */
export const BatchElement = Type.Object({
  id: Type.String({
    description: 'unique in the batch; names the result, also in references'
  })
})

/** The request body. `maxOps` is MAX_OPS. */
export function batchSchema (maxOps: number) {
  return Type.Array(BatchElement, {
    minItems: 1,
    maxItems: maxOps,
    description: 'operations, run in order in one transaction'
  })
}
export type Batch = Static<ReturnType<typeof batchSchema>>

/**
 * The response body with status 200: the rows of each operation by id, rendered by PostgreSQL, or
 * their number with `answer` or `Prefer: return=minimal`; null for an operation that was skipped.
 */
export const BatchAnswer = Type.Object({
  error: Type.Null(),
  data: Type.Record(
    Type.String(),
    Type.Union([
      Type.Array(
        Type.Record(Type.String(), Type.Unknown(), {
          title: 'AnswerRow',
          description: 'column → value, as PostgreSQL renders it as JSON'
        })
      ),
      Type.Integer({ minimum: 0 }),
      Type.Null()
    ], {
      title: 'Result',
      description: 'the rows of an operation, or their number with `"answer": "count"` or ' +
        '`Prefer: return=minimal`; null if the operation was skipped because of `when`'
    }),
    { description: 'results by operation id' }
  )
}, {
  title: 'BatchAnswer',
  description: 'The batch is committed, unless the `Prefer` header requested no commit.'
})
