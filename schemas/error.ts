/**
 * The error envelope: the body of every error response.
 */
import { Type, type Static } from '@sinclair/typebox'
import { oneOf } from './one-of.ts'

export const ErrorType = oneOf([
  'request_error', 'validation_error', 'session_error', 'execution_error', 'service_error'
], {
  title: 'ErrorType',
  description:
    '`request_error`: the request is refused as a whole; no operation was run; ' +
    '`validation_error`: operations or parameters are invalid; no transaction was started; ' +
    '`session_error`: the role of the token is not allowed, or code of the database changed the ' +
    'session; `execution_error`: an operation or COMMIT failed; ' +
    '`service_error`: the service or its database is unavailable, busy or too slow, or failed'
})
export type ErrorType = Static<typeof ErrorType>

export const IssueCode = oneOf([
  'id_invalid', 'op_unknown', 'member_missing', 'member_unknown', 'member_invalid',
  'table_invalid', 'schema_forbidden', 'values_empty', 'set_empty', 'where_empty',
  'operator_unknown', 'operand_invalid', 'reference_unknown', 'reference_malformed',
  'key_duplicate', 'value_invalid', 'depth_exceeded', 'rows_limit'
], { title: 'IssueCode' })
export type IssueCode = Static<typeof IssueCode>

const pathOf = (description: string) =>
  Type.Array(Type.Union([Type.String(), Type.Integer()]), { description })

export const Issue = Type.Object({
  op: Type.String({ description: 'id of the operation, as it was sent' }),
  index: Type.Integer({ minimum: 0, description: 'position of the operation in the batch' }),
  code: IssueCode,
  path: pathOf('path from the operation to the invalid value: keys and array positions'),
  message: Type.String()
}, { title: 'Issue', description: 'a validation issue of an operation' })
export type Issue = Static<typeof Issue>

export const ParameterIssue = Type.Object({
  path: pathOf('path from the object of all parameters: keys and array positions'),
  message: Type.String()
}, { title: 'ParameterIssue', description: 'a validation issue of a parameter' })
export type ParameterIssue = Static<typeof ParameterIssue>

export const ErrorObject = Type.Object({
  type: ErrorType,
  code: Type.String({
    description: 'a code of the service, or the name of a PostgreSQL condition'
  }),
  message: Type.String(),
  committed: Type.Union([Type.Literal(false), Type.Literal('unknown')], {
    description: 'whether the batch was committed; unknown only with the code commit_unknown'
  }),
  request_id: Type.String({ description: 'the value of the X-Request-Id header' }),
  op: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'id of the operation that failed; null at COMMIT'
    })
  ),
  index: Type.Optional(
    Type.Union([Type.Integer(), Type.Null()], {
      description: 'position of that operation in the batch'
    })
  ),
  sqlstate: Type.Optional(Type.String({ description: 'SQLSTATE of the PostgreSQL error' })),
  constraint: Type.Optional(Type.String({ description: 'name of the violated constraint' })),
  path: Type.Optional(
    pathOf('path from the operation to what fails: to a row of `values`, `["values", 3]`, to a ' +
      'value, or to a table or column that does not exist; only if it is known for certain')
  ),
  line: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'the first line of an upload that is faulty; nothing after it was read'
    })
  ),
  differs: Type.Optional(
    oneOf(['request', 'claims'], {
      description: 'with the code idempotency_key_reused: what differs from the committed ' +
        'request with this key, which is its body or preferences, or the claims of its token'
    })
  ),
  retryable: Type.Optional(
    Type.Boolean({ description: 'whether a retry of the same batch may succeed' })
  ),
  detail: Type.Optional(Type.String({ description: 'only with ERROR_VERBOSITY=verbose' })),
  hint: Type.Optional(
    Type.String({
      description: 'only with ERROR_VERBOSITY=verbose; of a refused token or a missing privilege ' +
        'the reason that the log has'
    })
  ),
  errors: Type.Optional(
    // The type has only the issues of operations, which the code reads. It writes those of
    // parameters, but does not read them.
    Type.Unsafe<Issue[]>(
      Type.Union([Type.Array(Issue), Type.Array(ParameterIssue)], {
        description: 'with the codes validation_failed and value_invalid: all issues of all ' +
          'operations; with params_invalid: those of the parameters'
      })
    )
  )
}, { title: 'ErrorObject' })
export type ErrorObject = Static<typeof ErrorObject>

/**
 * `{ error, data: null }`: the body of every error response of the main server, except `/health`.
 */
export const ErrorEnvelope = Type.Object({ error: ErrorObject, data: Type.Null() }, {
  title: 'ErrorEnvelope'
})
