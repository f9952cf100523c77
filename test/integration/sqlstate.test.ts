/**
 * The response of an error of PostgreSQL: its status, its code and what its message says. Triggers
 * raise SQLSTATEs inside an operation and at COMMIT.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { retryAtOnce, useService } from '../support/service.ts'

const schema = `
  create function fail() returns trigger language plpgsql as $$ begin
    if new.state is not null then
      raise exception using errcode = new.state, message = 'raised ' || new.state,
        detail = 'a detail', hint = 'a hint', constraint = new.rule;
    end if;
    return new;
  end $$;
  create table at_once (k int, state text, rule text);
  create trigger fail before insert or update on at_once for each row execute function fail();
  create table at_commit (k int, state text, rule text);
  create constraint trigger fail after insert on at_commit deferrable initially deferred
    for each row execute function fail();
  create type pair as (n int, doc json);
  create table kinds (
    n int, txt text, doc json, docs json[], pair pair, place point,
    other_docs json[], other_pair pair
  );
  insert into kinds (docs, pair, other_docs, other_pair)
    select array['{}']::json[], row(1, '{}')::pair, array['{}']::json[], row(1, '{}')::pair
    from generate_series(1, 2);
  create view broken as select array_position(docs, '{}') as at from kinds;
  set check_function_bodies = off;
  create function said(kinds) returns int language plpgsql as
    'begin raise undefined_function; end';
  create table typed (i int);
  create table big (id int primary key, word text);
  insert into big select i, md5(i::text) from generate_series(1, 5000) as i;
`
const service = await useService(t, { schema })
const { sql, name } = service.database
const verbose = await service.useAnother(t, { env: { ERROR_VERBOSITY: 'verbose' } })

/** SQLSTATE, status, code. The code is the SQLSTATE itself if PostgreSQL has no name for it. */
type Row = readonly [state: string, status: number, code: string]
/** States whose errors take different ways. test/unit/errors/postgres.test.ts has the others. */
const rows: readonly Row[] = [
  ['08006', 503, 'database_unavailable'], ['53400', 400, 'configuration_limit_exceeded'],
  ['57P01', 503, 'database_unavailable'], ['40001', 409, 'serialization_failure'],
  ['22P02', 400, 'invalid_text_representation'], ['42703', 400, 'undefined_column'],
  ['42P01', 404, 'undefined_table'], ['0A000', 400, 'feature_not_supported'],
  ['XX000', 500, 'internal_error'], ['57014', 504, 'query_canceled'], ['PT503', 503, 'PT503'],
  ['ZZ999', 500, 'ZZ999']
]
const retryable = ['08006', '57P01', '40001']

/** The error of a state, without its message. `more`: what ERROR_VERBOSITY=verbose adds. */
function errorOf ([state, , code]: Row, place: object, more: object): object {
  const isUnavailable = code === 'database_unavailable'
  return {
    type: isUnavailable ? 'service_error' : 'execution_error',
    code,
    committed: false,
    sqlstate: state,
    constraint: 'a_rule',
    retryable: retryable.includes(state),
    ...place,
    ...more,
    ...isUnavailable && 'hint' in more ? { hint: `raised ${state}. a hint` } : {}
  }
}

const tables = [
  ['at_once', { op: 'o', index: 1 }], ['at_commit', { op: null, index: null }]
] as const

t.test('an SQLSTATE has a status and a code, in an operation and at COMMIT', async t => {
  retryAtOnce(t)
  for (const [{ post }, all, more] of [
    [service, rows, {}],
    [verbose, rows.slice(0, 2), { detail: 'a detail', hint: 'a hint' }]
  ] as const) {
    for (const row of all) {
      const [state, status, code] = row
      for (const [table, place] of tables) {
        const answer = await post([
          op.insert('fine', table, [{ k: 1 }]),
          op.insert('o', table, [{ k: 2, state, rule: 'a_rule' }]),
          op.select('after', table)
        ])
        const { request_id: requestId, message, ...error } = answer.body.error
        t.strictSame({ status: answer.status, data: answer.body.data, error }, {
          status, data: null, error: errorOf(row, place, more)
        }, `${table} ${state}`)
        t.equal(answer.headers.get('retry-after'), status === 503 ? '1' : null)
        t.match(message, code === 'database_unavailable' ? /^The database/ : `raised ${state}`)
        t.type(requestId, 'string')
      }
    }
  }
  t.same(
    await sql`select 1 from at_once union all select 1 from at_commit`, [], 'nothing was committed'
  )
})

// schema-faults.test.ts has the functions that call a missing one.
t.test('a missing operator of a type is 400, a missing function 404', async t => {
  const where = (column: string, filter: object): object => ({ where: { [column]: filter } })
  const cases: ReadonlyArray<readonly [operation: object, status: number]> = [
    [where('n', { like: '1%' }), 400],
    [where('doc', { in: ['{}', '[]'] }), 400],
    [where('place', { eq: '(1,2)' }), 400],
    [where('docs', { cs: [{}] }), 400],
    [where('pair', { lt: { $col: 'other_pair' } }), 400],
    ...['doc', 'docs', 'pair', 'place'].map(name =>
      [{ columns: [name, { fn: 'count' }], group_by: [name] }, 400] as const),
    [{ columns: [{ fn: 'max', column: 'docs' }] }, 400],
    [{ columns: [{ fn: 'sum', column: 'txt' }] }, 400],
    [{ columns: ['said'] }, 404],
    [{ table: 'broken' }, 404]
  ]
  for (const [operation, status] of cases) {
    const answer = await service.post([op.select('o', 'kinds', operation)])
    const expected = {
      type: 'execution_error',
      code: 'undefined_function',
      sqlstate: '42883',
      op: 'o',
      committed: false,
      retryable: false
    }
    const text = `${JSON.stringify(operation)} ${answer.body.error?.message}`
    t.match({ status: answer.status, ...answer.body.error }, { status, ...expected }, text)
  }
})

t.test('a request that exceeds temp_file_limit is not retryable', async t => {
  // Settings of a database apply to connections opened later, so the service starts after this.
  for (const setting of ['temp_file_limit', 'work_mem']) {
    await sql.unsafe(`alter database ${name} set ${setting} = '64kB'`)
  }
  const { post } = await service.useAnother(t)
  const select = op.select('o', 'big', { limit: 5000 })
  const { status, body: { error } } = await post([{ ...select, order: [{ word: 'asc' }] }])
  t.match({ status, ...error }, {
    status: 400,
    type: 'execution_error',
    code: 'configuration_limit_exceeded',
    sqlstate: '53400',
    op: 'o',
    index: 0,
    committed: false,
    retryable: false
  })
  const small = await post([{ ...select, limit: 10, order: [{ word: 'asc' }] }])
  t.equal(small.status, 200, 'a sort that fits into memory succeeds')
})

t.test('messages contain values only with ERROR_VERBOSITY=verbose', async t => {
  for (const [{ post }, shown] of [[service, '…'], [verbose, 'hush"»hush']] as const) {
    t.equal(
      (await post([op.insert('o', 'typed', [{ i: 'hush"»hush' }])])).body.error.message,
      `Row 0 of values, column "i": invalid input syntax for type integer: "${shown}"`
    )
  }
})
