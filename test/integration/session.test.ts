/**
 * The session of a batch: it has exactly the role of the token, even if triggers change it.
 * test/integration/isolation.test.ts tests what triggers leave on a connection,
 * test/integration/auth.test.ts roles that are refused.
 */
import t from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { query } from '../../src/postgres/connection.ts'
import type { ConnectionFacts } from '../../src/postgres/facts.ts'
import { compile } from '../../src/sql/compile.ts'
import { sessionStatements } from '../../src/sql/frame/session.ts'
import type { Statement } from '../../src/sql/statement/statement.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import { toFailure } from '../../src/transaction/to-failure.ts'
import { LOGIN_ROLE } from '../support/database/database.ts'
import { plainBatch, useEngine } from '../support/database/engine.ts'
import { ask, gauge, token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'
import { quoteName } from '../support/operations.ts'

/** All ways to change the role. */
const roleChanges: readonly string[] = [
  'set role oneflight_other', 'set local role oneflight_other',
  "select set_config(''role'', ''oneflight_anon'', false)",
  "select set_config(''role'', ''oneflight_anon'', true)", 'set role none', 'reset role',
  'set session authorization default', `set local session authorization ${LOGIN_ROLE}`
]
const timings: readonly string[] = ['before', 'after'].flatMap(moment =>
  ['row', 'statement'].map(level => `${moment} insert on # for each ${level}`)
)
/** Tables with a trigger that changes the role, one for each timing and change. */
const taking = timings.flatMap((timing, i) =>
  roleChanges.map((change, j) => ({ name: `take_${i}_${j}`, timing, change }))
)

/**
 * A trigger on `leave` runs the inserted command. View `me` shows the role of the session. Only
 * oneflight_user has privileges on the tables that change the role.
 */
const schema = `
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command;
    return new; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create sequence s;
  create view assigned as select pg_current_xact_id_if_assigned() is not null as id;
  create function act() returns trigger language plpgsql as $$ begin execute tg_argv[0];
    if tg_argv[1] is not null then execute tg_argv[1]; end if; return new; end $$;
  create view me as select current_user::text as role, current_setting('request.jwt.claims')
    as claims, current_setting('request.id') as id, 'é' as text, 0.1::float8 + 0.2 as float;
  alter view me owner to oneflight_user;
  create sequence tries;
  create table closed (n int primary key, owner name default current_user, text text,
    tried int default nextval('tries'));
  ${
  taking.map(({ name, timing, change }) => `
    create table ${name} (n int);
    create trigger act ${timing.replace('#', name)} execute function act('${change}');`)
    .join('')
}
  create table back (n int);
  create trigger act after insert on back for each row execute function
    act('set role oneflight_other', 'set role oneflight_user');
  create table deferred (n int);
  create constraint trigger act after insert on deferred deferrable initially deferred
    for each row execute function act('set role oneflight_other');
  create function take() returns int language plpgsql as $$ begin perform set_config('role',
    'oneflight_other', false); return 1; end $$;
  create function borrow() returns text language plpgsql set role = oneflight_other as $$ begin
    return current_user; end $$;
  create view taking as select take() as n;
  create view borrowing as select borrow() as role;
  create table guarded (n int);
  insert into guarded values (1);
  alter table guarded enable row level security;
  create policy take on guarded using (take() = n);
  grant all on all tables in schema public to oneflight_user;
  grant all on s, tries to oneflight_user;
  create table forbidden (n int);`

const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
const { post, database: { sql, loginUrl } } = service

const select = (table: string, id = 's'): object => ({ id, op: 'select', table })
const insert = (table: string, row: object = { n: 1 }, id = 'i'): object =>
  ({ id, op: 'insert', table, values: [row], returning: [] })
const leave = (command: string, id = 'l'): object => insert('leave', { command }, id)

t.test('a timeout and a sequence of a trigger do not reach the next batch', async t => {
  const read = "current_setting('idle_in_transaction_session_timeout')"
  await sql.unsafe(`create view idle as select ${read} as timeout;
    grant select on idle to oneflight_user`)
  const idle = async (): Promise<unknown> => (await post([select('idle')])).body.data.s
  const before = await idle()
  const command = "select set_config('idle_in_transaction_session_timeout', '59min', false)"
  t.equal((await post([leave(command)])).status, 200)
  t.same(await idle(), before)
  const current = leave("select currval('s')", 'b')
  t.equal((await post([leave("select nextval('s')", 'a'), current])).status, 200)
  t.match((await post([current])).body.error, { code: 'object_not_in_prerequisite_state' })
})

t.test('names of roles are quoted', async t => {
  for (const name of ['Oneflight "Quoted" Röle', "oneflight'; drop table t; --"]) {
    const quoted = quoteName(name)
    await sql.unsafe(
      `create role ${quoted}; grant ${quoted} to oneflight_login; grant select on me to ${quoted}`
    )
    t.teardown(() => sql.unsafe(`drop owned by ${quoted}; drop role ${quoted}`))
    t.match((await post([select('me')], { role: name })).body.data, { s: [{ role: name }] })
  }
})

t.test('a transaction has an id before its first write, and none without writes', async t => {
  const { run } = useEngine(t, loginUrl)
  t.match(await run(['select (pg_current_xact_id_if_assigned() is not null)::text']), {
    rows: [Buffer.from('true')]
  })
  t.match((await post([select('assigned')])).body.data, { s: [{ id: false }] })
})

t.test('between two batches, the connection has its login role and default settings', async t => {
  const { pool, run } = useEngine(t, loginUrl)
  /** The session that the lookup of a lost commit gets: it uses a connection without a reset. */
  const readSession = async (): Promise<unknown> => {
    const connection = await pool.acquire(performance.now() + 5000)
    try {
      return (await query(
        connection,
        `
        select pg_backend_pid()::text as pid, current_user::text as user, session_user::text
          as login, current_setting('role') as role, coalesce(current_setting('request.jwt.claims',
          true), '') as claims,
          (select string_agg(name || ' = ' || setting, ', ') from pg_settings
            where source = 'session' and name not like 'transaction_%') as left_behind`
      ))[0]
    } finally {
      pool.release(connection)
    }
  }
  const clean = await readSession()
  t.match(clean, {
    user: LOGIN_ROLE,
    login: LOGIN_ROLE,
    role: 'none',
    claims: '',
    left_behind: null
  })
  const commands = [
    ['role', 'none'],
    ['session_authorization', LOGIN_ROLE],
    ['search_path', 'other, pg_catalog'],
    ['request.jwt.claims', 'left'],
    ['default_transaction_read_only', 'on'],
    ['statement_timeout', '59min'],
    ['lock_timeout', '59min'],
    ['idle_in_transaction_session_timeout', '59min'],
    ['role', 'oneflight_other']
  ].map(([name, value]) => `select set_config('${name}', '${value}', false)`)
  for (const command of [...commands, `${commands.at(-1)} from (select 1 / 0) as failing`]) {
    await run([command])
    t.same(await readSession(), clean, command)
  }
})

t.test('a trigger that changes the session does not affect other operations', async t => {
  const metrics = async (): Promise<number> =>
    Number(/^service_txn_count\{role="oneflight_user",outcome="ok"\} (\d+)$/m.exec(
      (await ask(`${service.adminUrl}/metrics`)).text
    )?.[1])
  const before = await metrics()
  let n = 0
  const check = async (
    operation: object,
    headers: Readonly<Record<string, string>> = {}
  ): Promise<void> => {
    const bearer = token({ role: 'oneflight_user', nonce: ++n, sub: 'sübject' })
    const claims = Buffer.from(bearer.split('.')[1] as string, 'base64url').toString()
    const batch = [
      select('me', 'a'),
      operation,
      select('me', 'b'),
      { id: 'closed', op: 'insert', table: 'closed', values: [{ n, text: 'é' }] },
      { ...operation, id: 'again' },
      select('me', 'c')
    ]
    const { status, text, body: { data } } = await post(batch, {
      headers: { authorization: `Bearer ${bearer}`, 'x-request-id': `n${n}`, ...headers }
    })
    t.equal(status, 200, `${JSON.stringify(operation)} ${text}`)
    const role = 'oneflight_user'
    const me = { role, claims, id: `n${n}`, text: 'é', float: 0.30000000000000004 }
    for (const seen of ['a', 'b', 'c']) t.same(data[seen], [me], JSON.stringify(operation))
    t.match(data.closed, [{ n, owner: role, text: 'é' }])
  }
  await sql`truncate closed, leave`
  for (const { name } of taking) await check(insert(name))
  for (const table of ['taking', 'guarded', 'borrowing']) await check(select(table))
  for (const prefer of ['tx=rollback', 'isolation=serializable']) {
    await check(insert('take_0_0'), { prefer })
  }
  const claims = 'select set_config(\'request.jwt.claims\', \'{"role":"oneflight_other"'
  const commands = [
    "set client_encoding = 'LATIN1'",
    "set local client_encoding = 'SJIS'",
    'set extra_float_digits = -10',
    'set local extra_float_digits = 0',
    `${claims},"sub":"somebody else"}', true)`,
    "select set_config('request.jwt.claims', '', false)",
    'reset all',
    'reset request.jwt.claims',
    `${claims}}', true), set_config('oneflight.claims', '{"role":"oneflight_other"}', true)`,
    `set role oneflight_other; select set_config('search_path', 'pg_temp', false);
      set statement_timeout = '10s'`
  ]
  for (const command of commands) await check(leave(command))
  const counts = await sql.unsafe(
    `select (select count(*)::int from closed where owner = 'oneflight_user') as closed,
      (select count(*)::int from leave) as left,
      ${taking.map(({ name }) => `(select count(*) from ${name})`).join(' + ')} as taken`
  )
  t.same(counts, [{
    closed: n - 1,
    left: 2 * commands.length,
    taken: String(2 * (taking.length + 1))
  }], 'each operation took effect once, except in the dry run')
  t.equal(await metrics() - before, n, 'each batch counts as one transaction')
})

const forbidden = (index: number): object => ({
  status: 403,
  body: { error: { code: 'insufficient_privilege', op: 'f', index, committed: false } }
})

t.test('an error that is not caused by a trigger is returned', async t => {
  await sql`truncate closed`
  const count = insert('closed')
  const denied = select('forbidden', 'f')
  const tried = async (): Promise<number> =>
    Number((await sql`select nextval('tries') as n`)[0]?.['n'])
  const before = await tried()
  t.match(await post([count, denied]), forbidden(1))
  t.equal(await tried() - before, 3, 'a trigger may be the cause, so the batch ran twice')
  t.match(await post([denied]), forbidden(0))
  t.match(await post([leave('set role none'), denied]), forbidden(1))
  // A trigger may change the time zone for later operations.
  t.equal((await post([leave("set local timezone = 'Asia/Tokyo'"), count])).status, 200)
})

const ownRole = { status: 200, body: { data: { m: [{ role: 'oneflight_user' }] } } }

t.test('a role that is restored, or changed after the last operation, causes no error', async t => {
  for (const table of [...taking.map(({ name }) => name), 'deferred', 'back']) {
    await sql.unsafe(`truncate ${table}`)
    t.match(await post([select('me', 'm'), insert(table)]), ownRole, table)
    t.same(await sql.unsafe(`select n from ${table}`), [{ n: 1 }])
  }
  // This trigger runs at the end of the batch, after all of its operations.
  for (const headers of [{}, { prefer: 'tx=rollback' }]) {
    t.match(await post([insert('deferred'), select('me', 'm')], { headers }), ownRole)
  }
})

t.test('a retry uses the same connection if possible', async t => {
  await sql`truncate closed`
  const again = (env: Readonly<Record<string, string>>): Promise<ServiceUnderTest> =>
    useService(t, { env: { POOL_SIZE: '1', ...env }, provide: async () => service.database })
  const { post: send, adminUrl } = await again({ QUEUE_SIZE: '0' })
  /** Waits for a free connection: there is no queue, and it is busy shortly after a response. */
  const post: typeof send = async batch => {
    await until(async () => await gauge({ adminUrl }, 'service_pool_connections_busy') === 0)
    return send(batch)
  }
  const me = select('me', 'm')
  for (let n = 0; n < 3; n++) {
    t.match(await post([insert('take_0_0'), me]), ownRole)
    t.match(await post([insert('closed', { n }), select('forbidden', 'f')]), forbidden(1))
  }
  // A connection that cannot be used again is replaced.
  t.match(await post([leave('prepare x as select 1; set role none'), me]), ownRole)
  const hasty = await again({ REQUEST_TIMEOUT_MS: '500' })
  // The outcome of a dry run is known without a lookup.
  t.match(
    await hasty.post([leave('set role none; select pg_sleep(0.3)'), me], {
      headers: { prefer: 'tx=rollback' }
    }),
    { status: 504, body: { error: { code: 'deadline_exceeded', committed: false } } },
    'a retry does not exceed the deadline'
  )
})

t.test('a session that cannot be restored is an internal error', async t => {
  const plan = planBatch([select('t')] as unknown as Batch, {
    schemas: ['public'],
    maxRows: 1,
    maxConditions: 1,
    maxWork: 100_000
  })
  const limits = { maxRows: 1, maxBytes: 100_000 }
  const marker = compile(plan, { session: { role: 'r', claims: '{}' }, ...limits })[0]?.parameters
    .find(text => text?.startsWith('oneflight.session'))
  const error = { code: '42704', message: `unrecognized configuration parameter "${marker}"` }
  t.match(
    toFailure({ kind: 'failed', error, at: 0, times: { operations: [] } }, plan, {
      anonymous: false,
      verbose: false,
      ...limits,
      role: 'r',
      schemas: ['public']
    }),
    { failure: { code: 'internal', status: 500, details: { op: 's', index: 0 } }, operation: 0 }
  )
})

t.test('the login role of the connection is rejected, even if the URL names another', async t => {
  const { pool } = useEngine(t, loginUrl)
  const times = { statementTimeoutMs: 1000, lockTimeoutMs: 1000, idleTimeoutMs: 1000 }
  const session = (connection: ConnectionFacts): readonly Statement[] =>
    sessionStatements(
      { role: LOGIN_ROLE, claims: '{}', requestId: 'x' },
      { schemas: ['public'], ...times },
      connection
    )
  const batch = { ...plainBatch(['select 1']), role: LOGIN_ROLE, session }
  t.match(await executeBatch(pool, batch, { deadline: performance.now() + 5000 }), {
    kind: 'failed',
    at: 'session',
    error: { code: '22023' }
  })
})
