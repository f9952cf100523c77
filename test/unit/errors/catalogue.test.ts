/**
 * Tests the error response of every code of the catalogue: type, status and headers.
 */
import t from 'tap'
import { catalogue, failure, type FailureCode } from '../../../src/errors/catalogue.ts'
import { answerFailure } from '../../../src/errors/envelope.ts'
import { fromDatabase } from '../../../src/errors/postgres.ts'

t.test('what Citus refuses says what to do', async t => {
  const place = { op: 'a', index: 0, anonymous: false, verbose: false }
  const refused = (code: string, message: string, detail?: string) =>
    fromDatabase({ code, message, ...detail !== undefined && { detail } }, place)
  const subquery = 'cannot push down this subquery'
  const rows: ReadonlyArray<
    readonly [code: string, message: string, instead: RegExp, detail?: string]
  > = [
    ['0A000', 'complex joins are only supported when all', /Compare that column in "on"/],
    ['0A000', 'found no worker with all shard placements', /Read the other rows first/],
    ['0A000', 'direct joins between distributed and local tables are not', /a reference table/],
    ['XX000', 'cannot modify table "a" because there was a parallel operation', /in front/],
    ['XX000', 'relation notes is not distributed', /Read them first/],
    ['0A000', 'could not run distributed query with FOR UPDATE/SHARE', /one value in "where"/],
    ['42883', 'function public.label(stock_102034) does not exist', /a function of the row/],
    ['42P01', 'missing FROM-clause entry for table "excluded_1"', /of its table/],
    ['0A000', subquery, /^Citus does not compute/,
      'Subqueries without a FROM clause can only contain immutable functions'],
    ['0A000', subquery, /^Citus reads rows of several/, 'Limit clause is currently unsupported'],
    ['0A000', subquery, /^Citus reads rows of several/]
  ]
  for (const [code, message, instead, detail] of rows) {
    t.match(refused(code, message, detail), {
      code: 'feature_not_supported', status: 400, message: instead
    }, message)
  }
  t.match(refused('22004', 'the partition column of table public.events cannot be NULL'), {
    code: 'not_null_violation',
    status: 400,
    message: /^Citus needs a value in the distribution column of each row/
  })
  t.match(refused('22023', 'relation notes is not distributed'), {
    code: 'invalid_parameter_value',
    message: 'relation notes is not distributed'
  })
})

t.test('every code has its type, status and headers in the response', async t => {
  for (const [code, { type, status, meaning }] of Object.entries(catalogue)) {
    const response = answerFailure(failure(code as FailureCode), 'id')
    const committed = code === 'commit_unknown' ? 'unknown' : false
    const temporary = status === 503 || status === 429
    t.equal(response.status, status, code)
    t.same(JSON.parse(response.body), {
      error: {
        type,
        code,
        message: meaning,
        committed,
        request_id: 'id',
        ...temporary ? { retryable: true } : {}
      },
      data: null
    })
    t.same(Object.keys(response.headers).sort(), [
      'content-type',
      ...temporary ? ['retry-after'] : [],
      ...status === 401 ? ['www-authenticate'] : [],
      'x-request-id'
    ])
  }
})

t.test('a failure is an error with a name and a message', async t => {
  const duplicate = failure('id_duplicate', 'twice')
  t.ok(duplicate instanceof Error)
  t.match(duplicate, { name: 'Failure', message: 'twice' })
})

t.test('an error of a Citus worker names the table and the constraint, and no shard', async t => {
  const place = { op: 'i', index: 0, anonymous: false, verbose: true }
  const ofWorker = { severity: 'ERROR', routine: 'ReportResultError' }
  const violation = fromDatabase({
    ...ofWorker,
    code: '23505',
    message: 'duplicate key value violates unique constraint "orders_2024_pkey_102029"',
    detail: 'Key (id)=(1) already exists in "orders_102030".'
  }, place)
  t.equal(violation.message, 'duplicate key value violates unique constraint "orders_2024_pkey"')
  t.match(violation.details, {
    constraint: 'orders_2024_pkey',
    detail: 'Key (id)=(1) already exists in "orders".'
  })
  const referenced = fromDatabase({
    ...ofWorker,
    code: '23503',
    message: 'update or delete on table "customers_102008" violates foreign key constraint ' +
      '"orders_customer_102016" on table "orders_102016"'
  }, place)
  t.match(referenced.details, { constraint: 'orders_customer' })
  const denied = 'permission denied for table customers'
  const ofView = fromDatabase({ ...ofWorker, code: '42501', message: `${denied}_102008` }, place)
  t.equal(ofView.message, denied)
  const message = 'null value in column "a" of relation "t_100000" violates not-null constraint'
  const other = fromDatabase({ ...ofWorker, code: '23502', message }, place)
  t.equal(other.message, message, 'no id of a shard')
  t.notOk('constraint' in other.details)
})
