/**
 * Describes the error responses to a batch by status, with examples. Built with the service's own
 * code from the failure catalogue and PostgreSQL's conditions.
 */
import type { Issue, ParameterIssue } from '../../schemas/error.ts'
import { catalogue, failure, type Failure, type FailureCode } from '../errors/catalogue.ts'
import { conditions } from '../errors/conditions.ts'
import { answerFailure } from '../errors/envelope.ts'
import { fromDatabase } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'

export type BatchKind = 'adhoc' | 'named'

/** Failures of other paths, and one that no client receives. */
const notOfBatches: readonly FailureCode[] = [
  'not_found',
  'method_not_allowed',
  'origin_forbidden',
  'client_closed_request'
]

const notOfKind: Readonly<Record<BatchKind, readonly FailureCode[]>> = {
  adhoc: ['batch_unknown', 'params_invalid', 'role_forbidden'],
  named: [
    'adhoc_forbidden',
    'body_empty',
    'id_missing',
    'id_duplicate',
    'too_many_ops',
    'validation_failed'
  ]
}

/** Above this number, the names of conditions are not listed. */
const MOST_NAMES = 12

const CONDITIONS_URL = 'https://www.postgresql.org/docs/18/errcodes-appendix.html'

const requestId = '5856fecf-0c36-4a9b-bb2d-68428cc8a070'

/** Returns the responses by status, with the names of their headers in lower case. */
export function errorAnswers (kind: BatchKind) {
  const others = [...notOfBatches, ...notOfKind[kind]]
  const named = (Object.keys(catalogue) as FailureCode[]).filter(code =>
    !others.includes(code)
  ).map(code => failure(code, undefined, detailsOf(code)))
  const refused = [...conditions.keys()].filter(isError).flatMap(code =>
    [false, true].map(anonymous => raised({ code, message: '' }, anonymous))
  )
  const failures = Map.groupBy([
    ...named,
    ...kind === 'adhoc' ? [forbidden] : [],
    ...refused.filter(({ code }) => !(code in catalogue))
  ], ({ status }) => status)
  return [...failures.keys()].sort((a, b) => a - b).map(status =>
    describeAnswer(status, failures.get(status) as readonly Failure[])
  )
}

/** Classes 00 to 02 are successes and warnings. */
function isError (sqlstate: string): boolean {
  return !/^0[0-2]/.test(sqlstate)
}

function raised (error: Parameters<typeof fromDatabase>[0], anonymous = false): Failure {
  return fromDatabase(error, { op: 'order', index: 1, anonymous })
}

function detailsOf (code: FailureCode): Failure['details'] {
  if (code === 'params_invalid') {
    const errors: readonly ParameterIssue[] = [
      { path: ['items', 0, 'qty'], message: '"qty" must be >= 1.' }
    ]
    return { errors: errors as unknown as Issue[] }
  }
  if (code !== 'validation_failed') return {}
  return {
    errors: [{
      op: 'paid',
      index: 3,
      code: 'operator_unknown',
      path: ['where', 'id', 'equals'],
      message: 'Unknown operator "equals". Operators: eq, neq, gt, gte, lt, lte, …'
    }]
  }
}

const closed = 'Schema "private" is not accessible: DB_SCHEMAS does not list it.'
/** The only code with two statuses: 403 when every issue is `schema_forbidden`. */
const forbidden = Object.assign(failure('validation_failed', closed, {
  errors: [{ op: 'order', index: 1, code: 'schema_forbidden', path: ['table'], message: closed }]
}), { status: 403 })

function describeAnswer (status: number, failures: readonly Failure[]) {
  const known = failures.filter(({ code }) => code in catalogue)
  const names = [
    ...new Set(failures.filter(({ code }) => !(code in catalogue)).map(({ code }) => code))
  ]
  const shown = [...known, ...typical.filter(failure => failure.status === status)]
  const lines = known.map(({ code }) => `- \`${code}\`: ${catalogue[code as FailureCode].meaning}`)
  if (names.length > 0) {
    lines.push(`- ${
      names.length > MOST_NAMES
        ? `the name of [another PostgreSQL condition](${CONDITIONS_URL})`
        : names.map(name => `\`${name}\``).join(', ')
    }`)
  }
  return {
    status,
    description: lines.join('\n'),
    examples: Object.fromEntries(
      shown.map(
        failure => [failure.code, {
          summary: failure.code,
          value: JSON.parse(answerFailure(failure, requestId).body)
        }]
      )
    ),
    headers: [
      ...new Set(
        failures.flatMap(failure => Object.keys(answerFailure(failure, requestId).headers))
      )
    ]
  }
}

const typical = [
  raised({
    code: SqlState.check_violation,
    message: 'new row for relation "stock" violates check constraint "stock_qty_check"',
    constraint_name: 'stock_qty_check'
  }),
  raised({
    code: SqlState.insufficient_privilege,
    message: 'permission denied for table orders'
  }),
  raised({
    code: SqlState.undefined_table,
    message: 'relation "public.order" does not exist'
  }),
  raised({
    code: SqlState.unique_violation,
    message: 'duplicate key value violates unique constraint "orders_pkey"',
    constraint_name: 'orders_pkey'
  })
]
