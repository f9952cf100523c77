/**
 * The request as a whole: what is checked before any single operation is looked at.
 */
import { Type, type Static } from '@sinclair/typebox'

/** An element of the batch, as far as the request level cares: an object that names itself. */
export const BatchElement = Type.Object({
  id: Type.String({
    description: 'unique in the request; key of the result and target of references'
  })
})

/** The body of `POST /`. `maxOps` is the running limit MAX_OPS. */
export function batchSchema (maxOps: number) {
  return Type.Array(BatchElement, {
    minItems: 1,
    maxItems: maxOps,
    description: 'operations, run in order as one transaction'
  })
}
export type Batch = Static<ReturnType<typeof batchSchema>>

/**
 * The body of an answer with status 200: rows by operation id, rendered by PostgreSQL; with
 * `Prefer: return=minimal` their number.
 */
export const BatchAnswer = Type.Object({
  error: Type.Null(),
  data: Type.Record(
    Type.String(),
    Type.Union([
      Type.Array(
        Type.Record(Type.String(), Type.Unknown(), {
          title: 'AnswerRow',
          description: 'column → value, as PostgreSQL renders it in JSON'
        })
      ),
      Type.Integer({ minimum: 0 })
    ], {
      title: 'Result',
      description: 'the rows of an operation; with `Prefer: return=minimal` how many there are'
    }),
    { description: 'results by id of the operation' }
  )
}, {
  title: 'BatchAnswer',
  description: 'The batch is committed (unless the `Prefer` header asked for what commits nothing).'
})
