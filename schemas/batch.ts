/**
 * The request and response bodies of `POST /`, as far as they do not depend on the kind of an
 * operation, with an example, and the files of named batches.
 */
import { Type, type Static } from '@sinclair/typebox'

/** An element of the batch, as the request-level check sees it. */
const BatchElement = Type.Object({
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

/** The name of a batch, which is the name of its file without `.json`. */
export const batchName = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** The id that references to the parameters of a named batch have. */
export const paramsId = 'params'

/** The file `<name>.json` in BATCHES_DIR. */
export const NamedBatchFile = Type.Object({
  $schema: Type.Optional(
    Type.String({ description: 'the URL of the schema of this file, for editors' })
  ),
  description: Type.Optional(
    Type.String({ description: 'what the batch does, for the OpenAPI description' })
  ),
  roles: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'the roles of tokens that may run the batch. Default: every role'
    })
  ),
  params: Type.Optional(
    Type.Unknown({
      description: 'the parameters: a JSON Schema (2020-12) of an object with `properties`'
    })
  ),
  operations: Type.Array(Type.Unknown(), {
    minItems: 1,
    description: 'a batch, in which `"$params.<name>"` stands for a parameter'
  })
}, { additionalProperties: false, title: 'NamedBatchFile' })
export type NamedBatchFile = Static<typeof NamedBatchFile>

// The example of the OpenAPI document: a batch and its response, on the sample shop
// (deploy/shop.sql).

/** Places an order with a new customer and two lines, pays it and reads the remaining stock. */
export const exampleBatch = [
  { id: 'customer', op: 'insert', table: 'customers', values: [{ name: 'Bakery' }] },
  { id: 'order', op: 'insert', table: 'orders', values: [{ customer_id: '$customer.0.id' }] },
  {
    id: 'items',
    op: 'insert',
    table: 'order_items',
    values: [{ order_id: '$order.0.id', sku: 'apple', qty: 4 }, {
      order_id: '$order.0.id',
      sku: 'pear',
      qty: 1
    }]
  },
  {
    id: 'paid',
    op: 'update',
    table: 'orders',
    set: { status: 'paid' },
    where: { id: { eq: '$order.0.id' } }
  },
  { id: 'left', op: 'select', table: 'stock', where: { sku: { eq: '$items.0.sku' } } }
]

const order = {
  id: 2,
  customer_id: 2,
  status: 'open',
  owner: 'corner-shop',
  created_at: '2026-11-20T09:30:00.123456+00:00'
}

export const exampleAnswer = {
  error: null,
  data: {
    customer: [{ id: 2, name: 'Bakery', owner: 'corner-shop' }],
    order: [order],
    items: [{ order_id: 2, sku: 'apple', qty: 4 }, { order_id: 2, sku: 'pear', qty: 1 }],
    paid: [{ ...order, status: 'paid' }],
    left: [{ sku: 'apple', price: 0.3, qty: 992 }]
  }
}
