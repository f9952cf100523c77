/**
 * The envelope of every answer that is not 2xx. Source of the types that errors are built and
 * documented from.
 */
import { Type, type Static } from '@sinclair/typebox'

/** Where in the life of a request it was refused. */
export const ErrorType = Type.Union([
  Type.Literal('request_error', {
    description: 'the request itself, before any operation was looked at'
  }),
  Type.Literal('validation_error', {
    description: 'one or more operations, before the transaction'
  }),
  Type.Literal('session_error', { description: 'the database role could not be taken' }),
  Type.Literal('execution_error', {
    description: 'an operation or the COMMIT failed in PostgreSQL'
  }),
  Type.Literal('service_error', {
    description: 'the service or its database is not able to answer'
  })
], { title: 'ErrorType' })
export type ErrorType = Static<typeof ErrorType>

/** What can be wrong with one operation before the transaction. */
export const IssueCode = Type.Union([
  Type.Literal('id_invalid'),
  Type.Literal('op_unknown'),
  Type.Literal('member_missing'),
  Type.Literal('member_unknown'),
  Type.Literal('member_invalid'),
  Type.Literal('table_invalid'),
  Type.Literal('schema_forbidden'),
  Type.Literal('values_empty'),
  Type.Literal('set_empty'),
  Type.Literal('where_empty'),
  Type.Literal('operator_unknown'),
  Type.Literal('operand_invalid'),
  Type.Literal('reference_unknown'),
  Type.Literal('reference_malformed'),
  Type.Literal('depth_exceeded'),
  Type.Literal('rows_limit')
], { title: 'FaultCode' })
export type IssueCode = Static<typeof IssueCode>

/**
 * One fault of one operation. `path` leads from the operation to the offending node; list positions
 * are numbers.
 */
export const Issue = Type.Object({
  op: Type.String({ description: 'id of the operation, as sent' }),
  index: Type.Integer({ minimum: 0, description: 'position of the operation in the batch' }),
  code: IssueCode,
  path: Type.Array(Type.Union([Type.String(), Type.Integer()]), {
    description: 'from the operation to the offending node; list positions are numbers'
  }),
  message: Type.String()
}, { title: 'Fault', description: 'what is wrong with an operation' })
export type Issue = Static<typeof Issue>

export const ErrorObject = Type.Object({
  type: ErrorType,
  code: Type.String({ description: 'a name of the service, or of a condition of PostgreSQL' }),
  message: Type.String(),
  committed: Type.Union([Type.Literal(false), Type.Literal('unknown')], {
    description: 'whether the batch is in the database; unknown with the code commit_unknown alone'
  }),
  request_id: Type.String({ description: 'that of the header X-Request-Id' }),
  op: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'id of the operation that failed; null at COMMIT'
    })
  ),
  index: Type.Optional(
    Type.Union([Type.Integer(), Type.Null()], { description: 'its position in the batch' })
  ),
  sqlstate: Type.Optional(Type.String({ description: "PostgreSQL's code of the error" })),
  constraint: Type.Optional(Type.String({ description: 'the constraint that is violated' })),
  retryable: Type.Optional(
    Type.Boolean({ description: 'whether the same batch may succeed when it is sent again' })
  ),
  detail: Type.Optional(Type.String({ description: 'with ERROR_VERBOSITY=verbose' })),
  hint: Type.Optional(Type.String({ description: 'with ERROR_VERBOSITY=verbose' })),
  errors: Type.Optional(
    Type.Array(Issue, {
      description: 'with the code validation_failed: every fault of every operation'
    })
  )
}, { title: 'ErrorObject' })
export type ErrorObject = Static<typeof ErrorObject>

/**
 * `{ error, data: null }`: the body of every answer of the main server that is not 2xx, except
 * `/health`.
 */
export const ErrorEnvelope = Type.Object({ error: ErrorObject, data: Type.Null() }, {
  title: 'ErrorEnvelope'
})
