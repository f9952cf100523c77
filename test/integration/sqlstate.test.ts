/**
 * The HTTP status of every SQLSTATE. Triggers raise each one inside an operation and at COMMIT.
 */
import t from 'tap'
import { fromDatabase, quotedText, withoutValues } from '../../src/errors/postgres.ts'
import * as op from '../support/operations.ts'
import { useDatabase } from '../support/database/database.ts'
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
`

/** SQLSTATE, status, code. The code is the SQLSTATE itself if PostgreSQL has no name for it. */
type Row = readonly [state: string, status: number, code: string]
const unavailable = [
  '08000', '08001', '08003', '08004', '08006', '08007', '08P01', '08XYZ', '53000', '53100', '53200',
  '53300', '57P01', '57P02', '57P03'
]
const rows: readonly Row[] = [
  ['53400', 400, 'configuration_limit_exceeded'],
  ...unavailable.map((state): Row => [state, 503, 'database_unavailable']),
  ['40001', 409, 'serialization_failure'], ['40P01', 409, 'deadlock_detected'],
  ['55P03', 409, 'lock_not_available'], ['23503', 409, 'foreign_key_violation'],
  ['23505', 409, 'unique_violation'], ['23P01', 409, 'exclusion_violation'],
  ['23001', 409, 'restrict_violation'], ['23502', 400, 'not_null_violation'],
  ['23514', 400, 'check_violation'], ['22000', 400, 'data_exception'],
  ['22P02', 400, 'invalid_text_representation'], ['22ZZZ', 400, '22ZZZ'],
  ['25006', 403, 'read_only_sql_transaction'], ['28P01', 403, 'invalid_password'],
  ['0LP01', 403, 'invalid_grant_operation'], ['0P000', 403, 'invalid_role_specification'],
  ['42501', 403, 'insufficient_privilege'], ['42P01', 404, 'undefined_table'],
  ['42883', 404, 'undefined_function'], ['3F000', 404, 'invalid_schema_name'],
  ['42703', 400, 'undefined_column'], ['42601', 400, 'syntax_error'],
  ['44000', 400, 'with_check_option_violation'],
  ['54001', 400, 'statement_too_complex'], ['0A000', 400, 'feature_not_supported'],
  ['21000', 400, 'cardinality_violation'], ['P0001', 400, 'raise_exception'],
  ['57014', 504, 'query_canceled'], ['PT400', 400, 'PT400'], ['PT503', 503, 'PT503'],
  ['PT599', 599, 'PT599'], ['PT399', 500, 'PT399'], ['PT600', 500, 'PT600'],
  ['PT4XX', 500, 'PT4XX'], ['23000', 500, 'integrity_constraint_violation'],
  ['25001', 500, 'active_sql_transaction'], ['40000', 500, 'transaction_rollback'],
  ['55000', 400, 'object_not_in_prerequisite_state'], ['55006', 500, 'object_in_use'],
  ['57P04', 500, 'database_dropped'], ['57P05', 500, 'idle_session_timeout'],
  ['XX000', 500, 'internal_error'], ['01000', 500, 'warning'], ['ZZ999', 500, 'ZZ999']
]

function envelope (
  [state, status, code]: Row,
  position: { op: string | null, index: number | null }
): unknown {
  const service = unavailable.includes(state)
  return {
    status,
    retryAfter: status === 503 ? '1' : null,
    body: {
      data: null,
      error: {
        type: service ? 'service_error' : 'execution_error',
        code,
        ...service ? {} : { message: `raised ${state}` },
        committed: false,
        sqlstate: state,
        constraint: 'a_rule',
        ...position,
        ...service && status !== 503
          ? {}
          : { retryable: service || ['40001', '40P01', '55P03'].includes(state) }
      }
    }
  }
}

const verbosities = [['terse', {}], ['verbose', { detail: 'a detail', hint: 'a hint' }]] as const
const tables = [
  ['at_once', { op: 'o', index: 1 }], ['at_commit', { op: null, index: null }]
] as const
for (const [verbosity, more] of verbosities) {
  t.test(`every SQLSTATE has a status and a code, ${verbosity}`, async t => {
    retryAtOnce(t)
    const service = await useService(t, { schema, env: { ERROR_VERBOSITY: verbosity } })
    for (const row of verbosity === 'terse' ? rows : rows.slice(0, 4)) {
      for (const [table, position] of tables) {
        const { status, headers, body } = await service.post([
          op.insert('fine', table, [{ k: 1 }]),
          op.insert('o', table, [{ k: 2, state: row[0], rule: 'a_rule' }]),
          op.select('after', table)
        ])
        const { request_id: requestId, message, ...error } = body.error
        const want = envelope(row, position) as { body: { error: Record<string, unknown> } }
        const { message: wanted = message, ...rest } = want.body.error
        const isReason = verbosity === 'verbose' && unavailable.includes(row[0])
        const hint = isReason ? { hint: `raised ${row[0]}. a hint` } : {}
        t.strictSame({ status, retryAfter: headers.get('retry-after'), body: { ...body, error } }, {
          ...want, body: { ...want.body, error: { ...rest, ...more, ...hint, sqlstate: row[0] } }
        }, `${table} ${row[0]}`)
        t.equal(message, wanted)
        t.type(requestId, 'string')
      }
    }
    t.same(
      await service.database.sql`select 1 from at_once union all select 1 from at_commit`, [],
      'nothing was committed'
    )
  })
}

// schema-faults.test.ts has the functions that call a missing one.
t.test('a missing operator of a type is 400, a missing function 404', async t => {
  const { post } = await useService(t, {
    schema: `
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
        'begin raise undefined_function; end';`
  })
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
    const answer = await post([op.select('o', 'kinds', operation)])
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
  const database = await useDatabase(t, {
    schema: `
      create table big (id int primary key, word text);
      insert into big select i, md5(i::text) from generate_series(1, 5000) as i;`
  })
  // Settings of a database apply to connections opened later, so the service starts after this.
  for (const setting of ['temp_file_limit', 'work_mem']) {
    await database.sql.unsafe(`alter database ${database.name} set ${setting} = '64kB'`)
  }
  const { post } = await useService(t, { databaseUrl: () => database.loginUrl })
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
  const types = 'create table typed (i int)'
  for (const [verbosity, shown] of [['terse', '…'], ['verbose', 'hush"»hush']] as const) {
    const { post } = await useService(t, { schema: types, env: { ERROR_VERBOSITY: verbosity } })
    t.equal(
      (await post([op.insert('o', 'typed', [{ i: 'hush"»hush' }])])).body.error.message,
      `Row 0 of values, column "i": invalid input syntax for type integer: "${shown}"`
    )
  }
  const rows: ReadonlyArray<readonly [code: string, message: string, shown: string]> = [
    ['22P02', 'ungültige Eingabesyntax für Typ integer: »x«',
      'ungültige Eingabesyntax für Typ integer: »…«'],
    ['22P02', 'syntaxe en entrée invalide pour le type integer : « x »',
      'syntaxe en entrée invalide pour le type integer : «…»'],
    ['22P02', '型integerの入力構文が不正です: "x"', '型integerの入力構文が不正です: "…"'],
    ['23505', 'duplicate key value violates unique constraint "k"',
      'duplicate key value violates unique constraint "k"']
  ]
  for (const [code, message, shown] of rows) {
    t.equal(withoutValues({ code, message }), shown)
    if (shown.includes('…')) t.equal(quotedText(message), 'x')
  }
  t.equal(quotedText('division by zero'), undefined)
  // The search for a closing quote must not take quadratic time.
  t.equal(
    withoutValues({ code: '22023', message: `unknown code ${'‘'.repeat(1_000_000)}` }),
    `unknown code ${'‘'.repeat(1_000_000)}`
  )
  t.equal(
    withoutValues({ code: '22023', message: `unknown code ${'‘'.repeat(1_000_000)}’.` }),
    'unknown code ‘…’.'
  )
  t.equal(withoutValues({ code: '22023', message: '» no quote «' }), '»…«')
  t.equal(withoutValues({ message: 'connect ECONNREFUSED "x"' }), 'connect ECONNREFUSED "x"')
})

t.test('Citus reports the loss of a worker without an SQLSTATE of its own', async t => {
  const codeOf = (code: string, routine: string): string =>
    fromDatabase({ code, message: '', routine }, {
      op: null, index: null, anonymous: false, verbose: false
    }).code
  t.equal(codeOf('XX000', 'MarkRemoteTransactionFailed'), 'database_unavailable')
  t.equal(codeOf('58030', 'EndRemoteCopy'), 'database_unavailable')
  t.equal(codeOf('58030', 'mdread'), 'io_error')
  t.equal(codeOf('23505', 'ReportResultError'), 'unique_violation')
})
