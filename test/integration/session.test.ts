/**
 * The session of a batch: it has exactly the role of the token, and nothing that an earlier batch
 * changed on the connection.
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
import { ensureRoles, LOGIN_ROLE, useDatabase } from '../support/database/database.ts'
import { plainBatch, useEngine } from '../support/database/engine.ts'
import { gauge, token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

/** A trigger on `leave` runs the inserted command. View `seen` shows the settings of a batch. */
const schema = `
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command;
    return new; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create schema other;
  create table t (id int, at timestamptz default '2026-01-02 03:04:05+00',
    owner name default current_user);
  insert into t values (1);
  create table other.t (id int);
  alter table t enable row level security;
  create policy t on t using (id < 10);
  create view seen with (security_barrier) as select current_user::text as role, session_user::text
    as login, name, current_setting(name, true) as value
    from unnest('{role,search_path,statement_timeout,lock_timeout,'
      'idle_in_transaction_session_timeout,tcp_user_timeout,row_security,datestyle,'
      'intervalstyle,timezone,'
      'client_encoding,bytea_output,extra_float_digits,default_transaction_read_only,'
      'default_transaction_isolation,default_transaction_deferrable,transaction_read_only,'
      'transaction_isolation,app.setting,request.id,request.jwt.claims,work_mem}'::text[]) as name;
  alter view seen owner to oneflight_user;
  create sequence s;
  create view kept as
    select 'lock' as what from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'table' from pg_class where relpersistence = 't'
    union all select 'channel' from pg_listening_channels()
    union all select 'cursor' from pg_cursors where is_holdable
    union all select 'statement' from pg_prepared_statements where from_sql;
  grant all on s, kept to oneflight_user;
  grant all on leave, seen, t to oneflight_user, oneflight_other;`

/** The settings of a batch by name, without the request id, which differs. */
async function look ({ post }: ServiceUnderTest, role: string): Promise<Record<string, string>> {
  const { status, body, text } = await post([{ id: 's', op: 'select', table: 'seen' }], { role })
  t.equal(status, 200, text)
  return Object.fromEntries(
    (body.data.s as Array<{ name: string, value: string }>).filter(({ name }) =>
      name !== 'request.id'
    ).map(({ name, value }) => [name, value])
  )
}

t.test('settings changed by a trigger do not reach the next batch', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const leave = async (command: string): Promise<void> => {
    t.equal(
      (await service.post([{ id: 'l', op: 'insert', table: 'leave', values: [{ command }] }]))
        .status,
      200,
      command
    )
  }
  const clean = await look(service, 'oneflight_other')
  t.match(clean, {
    role: 'oneflight_other',
    search_path: '"public", pg_temp',
    statement_timeout: '15s',
    lock_timeout: '5s',
    tcp_user_timeout: '5000',
    row_security: 'on',
    datestyle: 'ISO, YMD',
    timezone: 'UTC',
    transaction_read_only: 'off',
    transaction_isolation: 'read committed',
    'request.jwt.claims': /"role":"oneflight_other"/
  })
  // The timeouts are so long that they never fire, because the rest of the batch runs under them.
  const rows: ReadonlyArray<readonly [string, string]> = [
    ['statement_timeout', '59min'],
    ['lock_timeout', '59min'],
    ['idle_in_transaction_session_timeout', '59min'],
    ['search_path', 'other'],
    ['row_security', 'off'],
    ['DateStyle', 'German'],
    ['IntervalStyle', 'iso_8601'],
    ['TimeZone', 'Asia/Tokyo'],
    ['bytea_output', 'escape'],
    ['extra_float_digits', '-10'],
    ['client_encoding', 'LATIN1'],
    ['default_transaction_read_only', 'on'],
    ['default_transaction_isolation', 'serializable'],
    ['default_transaction_deferrable', 'on'],
    ['role', 'oneflight_user'],
    ['role', 'none'],
    ['app.setting', 'left'],
    ['work_mem', '64kB'],
    ['request.jwt.claims', '{"role":"left"}']
  ]
  for (const [name, value] of rows) {
    await leave(`select set_config('${name}', '${value}', false)`)
    // A custom setting reads as '' after it was set on the connection.
    const { 'app.setting': setting, 'request.jwt.claims': claims, ...rest } = await look(
      service,
      'oneflight_other'
    )
    const { 'app.setting': _, 'request.jwt.claims': before, ...expected } = clean
    t.same(rest, expected, `${name} = ${value}`)
    t.notOk(setting, 'app.setting')
    t.equal(JSON.parse(claims as string).role, JSON.parse(before as string).role)
  }
  t.match(
    (await service.post([{ id: 's', op: 'select', table: 't' }])).text,
    /"at":"2026-01-02T03:04:05\+00:00"/
  )
})

t.test('locks, tables, cursors and statements of a trigger do not outlive the batch', async t => {
  const { post } = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const leave = (id: string, command: string): object => ({
    id,
    op: 'insert',
    table: 'leave',
    values: [{ command }]
  })
  const look = { id: 'k', op: 'select', table: 'kept' }
  const rows: ReadonlyArray<readonly [string, string]> = [
    ['lock', 'select pg_advisory_lock(7)'],
    ['lock', 'select pg_advisory_lock_shared(7)'],
    ['table', 'create temp table t as select 99 as id'],
    ['cursor', 'declare c cursor with hold for select 1'],
    // With a name that the service uses, it would run instead of the service's statement.
    ['statement', 'prepare p as select 1']
  ]
  for (const [what, command] of rows) {
    const answer = await post([leave('l', command), look])
    t.match(answer.body.data?.k, [{ what }], `${command} ${answer.text}`)
    // Another principal: a statement is only looked for when the principal changes.
    const authorization = `Bearer ${token({ role: 'oneflight_user', sub: what })}`
    t.same((await post([look], { headers: { authorization } })).body.data.k, [], command)
  }
  // LISTEN takes effect at COMMIT.
  t.equal((await post([leave('l', 'listen gossip')])).status, 200)
  t.same((await post([look])).body.data.k, [], 'listen')
  t.equal(
    (await post([leave('a', "select nextval('s')"), leave('b', "select currval('s')")])).status,
    200
  )
  t.match(
    (await post([leave('b', "select currval('s')")])).text,
    /object_not_in_prerequisite_state|55000/
  )
  // A session lock also survives ROLLBACK.
  t.not(
    (await post([leave('l', 'select pg_advisory_lock(7)'), leave('x', 'select 1 / 0')])).status,
    200
  )
  t.same((await post([look])).body.data.k, [], 'after a failure')
})

t.test('an unknown role and a role that is not granted get the same error', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const answers = []
  // The superuser's role exists on every server and is not granted to the login role.
  for (const role of ['unknown_role', 'postgres', 'x"y', 'ünknown']) {
    const { status, body: { error: { request_id: _, ...error } } } = await service.post([{
      id: 's',
      op: 'select',
      table: 't'
    }], { role })
    answers.push({ status, error })
  }
  t.match(answers[0], {
    status: 403,
    error: { type: 'session_error', code: 'role_denied', committed: false }
  })
  for (const answer of answers) t.same(answer, answers[0])
  t.equal((await service.post([{ id: 's', op: 'select', table: 't' }])).status, 200)
})

t.test('names of roles are quoted', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const names = ['Oneflight "Quoted" Röle', "oneflight'; drop table t; --"]
  await ensureRoles(['oneflight_user'])
  for (const name of names) {
    const quoted = `"${name.replaceAll('"', '""')}"`
    await service.database.sql.unsafe(
      `create role ${quoted}; grant ${quoted} to oneflight_login; grant select on seen to ${quoted}`
    )
    t.teardown(() => service.database.sql.unsafe(`drop owned by ${quoted}; drop role ${quoted}`))
    t.equal((await look(service, name))['role'], name)
  }
})

t.test('a transaction has an id before its first write, and none without writes', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  const { run } = useEngine(t, loginUrl)
  t.match(await run(['select (pg_current_xact_id_if_assigned() is not null)::text']), {
    rows: [Buffer.from('true')]
  })
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  await service.database.sql.unsafe(
    'create view assigned as select pg_current_xact_id_if_assigned() is not null as id; ' +
      'grant select on assigned to oneflight_user'
  )
  t.match((await service.post([{ id: 'a', op: 'select', table: 'assigned' }])).body.data, {
    a: [{ id: false }]
  })
})

t.test('between two batches, the connection has its login role and default settings', async t => {
  const { loginUrl } = await useDatabase(t, { schema: `${schema} create table granted (n int)` })
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
    "select set_config('role', 'oneflight_other', false)",
    "select set_config('role', 'none', false)",
    `select set_config('session_authorization', '${LOGIN_ROLE}', false)`,
    "select set_config('search_path', 'other, pg_catalog', false)",
    "select set_config('request.jwt.claims', 'left', false)",
    "select set_config('default_transaction_read_only', 'on', false)",
    "select set_config('statement_timeout', '59min', false)",
    "select set_config('lock_timeout', '59min', false)",
    "select set_config('idle_in_transaction_session_timeout', '59min', false)",
    "select set_config('role', 'oneflight_other', false) from (select 1 / 0) as failing"
  ]
  for (const command of commands) {
    await run([command])
    t.same(await readSession(), clean, command)
  }
})

/** All ways to change the role. */
const roleChanges: readonly string[] = [
  'set role oneflight_other',
  'set local role oneflight_other',
  "select set_config(''role'', ''oneflight_anon'', false)",
  "select set_config(''role'', ''oneflight_anon'', true)",
  'set role none',
  'reset role',
  'set session authorization default',
  `set local session authorization ${LOGIN_ROLE}`
]
const timings: readonly string[] = [
  'before insert on # for each row',
  'after insert on # for each row',
  'before insert on # for each statement',
  'after insert on # for each statement'
]

/**
 * Table `take_<timing>_<change>` has a trigger that changes the role. View `me` shows the role of
 * the session. Only oneflight_user has privileges on both.
 */
const roleChangeSchema = `
  create function act() returns trigger language plpgsql as $$ begin execute tg_argv[0];
    if tg_argv[1] is not null then execute tg_argv[1]; end if; return new; end $$;
  create view me as select current_user::text as role, current_setting('request.jwt.claims')
    as claims, current_setting('request.id') as id, 'é' as text, 0.1::float8 + 0.2 as float;
  alter view me owner to oneflight_user;
  create sequence tries;
  create table closed (n int primary key, owner name default current_user, text text,
    tried int default nextval('tries'));
  ${
  timings.map((timing, i) =>
    roleChanges.map((change, j) => `
    create table take_${i}_${j} (n int);
    create trigger act ${timing.replace('#', `take_${i}_${j}`)} execute function act('${change}');`)
      .join('')
  ).join('')
}
  create table back (n int);
  create trigger act after insert on back for each row execute function
    act('set role oneflight_other', 'set role oneflight_user');
  create table spoil (command text);
  create function spoil() returns trigger language plpgsql as $$ begin execute new.command;
    return new; end $$;
  create trigger spoil after insert on spoil for each row execute function spoil();
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
  grant all on tries to oneflight_user;
  create table forbidden (n int);`

t.test('a trigger that changes the session does not affect other operations', async t => {
  const service = await useService(t, {
    schema: roleChangeSchema,
    env: { POOL_SIZE: '1', ANON_ROLE: 'oneflight_anon' }
  })
  const { post, database: { sql } } = service
  const me = (id: string): object => ({ id, op: 'select', table: 'me' })
  let n = 0
  const check = async (
    operation: object,
    headers: Readonly<Record<string, string>> = {}
  ): Promise<void> => {
    const bearer = token({ role: 'oneflight_user', nonce: ++n, sub: 'sübject' })
    const claims = Buffer.from(bearer.split('.')[1] as string, 'base64url').toString()
    const batch = [
      me('a'),
      operation,
      me('b'),
      { id: 'i', op: 'insert', table: 'closed', values: [{ n, text: 'é' }] },
      { ...operation, id: 'again' },
      me('c')
    ]
    const { status, text, body: { data } } = await post(batch, {
      headers: { authorization: `Bearer ${bearer}`, 'x-request-id': `n${n}`, ...headers }
    })
    t.equal(status, 200, `${JSON.stringify(operation)} ${text}`)
    for (const seen of ['a', 'b', 'c']) {
      t.same(data[seen], [{
        role: 'oneflight_user',
        claims,
        id: `n${n}`,
        text: 'é',
        float: 0.30000000000000004
      }], JSON.stringify(operation))
    }
    t.match(data.i, [{ n, owner: 'oneflight_user', text: 'é' }])
  }
  const insert = (table: string, row: object = { n: 1 }): object => ({
    id: 'o',
    op: 'insert',
    table,
    values: [row],
    returning: []
  })
  for (const i of timings.keys()) {
    for (const j of roleChanges.keys()) await check(insert(`take_${i}_${j}`))
  }
  for (const table of ['taking', 'guarded', 'borrowing']) {
    await check({ id: 'o', op: 'select', table })
  }
  for (const prefer of ['tx=rollback', 'isolation=serializable']) {
    await check(insert('take_0_0'), { prefer })
  }
  const commands = [
    "set client_encoding = 'LATIN1'",
    "set local client_encoding = 'SJIS'",
    'set extra_float_digits = -10',
    'set local extra_float_digits = 0',
    'select set_config(\'request.jwt.claims\', \'{"role":"oneflight_other","sub":"somebody ' +
    'else"}\', true)',
    "select set_config('request.jwt.claims', '', false)",
    'reset all',
    'reset request.jwt.claims',
    'select set_config(\'request.jwt.claims\', \'{"role":"oneflight_other"}\', true), ' +
    'set_config(\'oneflight.claims\', \'{"role":"oneflight_other"}\', true)',
    "set role oneflight_other; select set_config('search_path', 'pg_temp', false); set " +
    "statement_timeout = '10s'"
  ]
  for (const command of commands) await check(insert('spoil', { command }))
  const counts = await sql.unsafe(
    `select (select count(*)::int from closed where owner = 'oneflight_user') as closed,
      (select count(*)::int from spoil) as spoilt,
    ${
      timings.flatMap((_, i) => roleChanges.map((_, j) => `(select count(*) from take_${i}_${j})`))
        .join(' + ')
    } as taken`
  )
  t.same(counts, [{
    closed: n - 1,
    spoilt: 2 * commands.length,
    taken: String(2 * (timings.length * roleChanges.length + 1))
  }], 'each operation took effect once, except in the dry run')
  t.match(
    await (await fetch(`${service.adminUrl}/metrics`)).text(),
    new RegExp(`service_txn_count\\{role="oneflight_user",outcome="ok"\\} ${n}\\n`),
    'each batch counts as one transaction'
  )
})

t.test('an error that is not caused by a trigger is returned', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema: roleChangeSchema,
    env: { POOL_SIZE: '1' }
  })
  const count = { id: 'c', op: 'insert', table: 'closed', values: [{ n: 1 }] }
  const tried = async (): Promise<number> =>
    Number((await sql`select nextval('tries') as n`)[0]?.['n'])
  const before = await tried()
  t.match(await post([count, { id: 'f', op: 'select', table: 'forbidden' }]), {
    status: 403,
    body: { error: { code: 'insufficient_privilege', op: 'f', index: 1, committed: false } }
  })
  t.equal(await tried() - before, 3, 'a trigger may be the cause, so the batch ran twice')
  t.match(await post([{ id: 'f', op: 'select', table: 'forbidden' }]), {
    status: 403,
    body: { error: { code: 'insufficient_privilege', op: 'f', index: 0 } }
  })
  // A trigger may change the time zone for later operations.
  t.match(
    (await post([{
      id: 's',
      op: 'insert',
      table: 'spoil',
      values: [{ command: "set local timezone = 'Asia/Tokyo'" }]
    }, count])).status,
    200
  )
  t.match(
    await post([{ id: 's', op: 'insert', table: 'spoil', values: [{ command: 'set role none' }] }, {
      id: 'f',
      op: 'select',
      table: 'forbidden'
    }]),
    { status: 403, body: { error: { code: 'insufficient_privilege', op: 'f', index: 1 } } }
  )
})

t.test('a role that is restored, or changed after the last operation, causes no error', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema: roleChangeSchema,
    env: { POOL_SIZE: '1' }
  })
  const select = { id: 's', op: 'select', table: 'me', columns: ['role'] }
  const last = [
    ...timings.flatMap((_, i) => roleChanges.map((_, j) => `take_${i}_${j}`)),
    'deferred',
    'back'
  ]
  for (const table of last) {
    t.match(
      await post([select, { id: 'l', op: 'insert', table, values: [{ n: 1 }], returning: [] }]),
      { status: 200 },
      table
    )
    t.match(await sql.unsafe(`select count(*)::int from ${table}`), [{ count: 1 }])
  }
  // This trigger runs at the end of the batch, after all of its operations.
  for (const headers of [{}, { prefer: 'tx=rollback' }]) {
    t.match(
      await post([{ id: 'd', op: 'insert', table: 'deferred', values: [{ n: 1 }] }, select], {
        headers
      }),
      { status: 200, body: { data: { s: [{ role: 'oneflight_user' }] } } }
    )
  }
})

t.test('a retry uses the same connection if possible', async t => {
  const { post: send, adminUrl } = await useService(t, {
    schema: roleChangeSchema,
    env: { POOL_SIZE: '1', QUEUE_SIZE: '0' }
  })
  /** Waits for a free connection: there is no queue, and it is busy shortly after a response. */
  const post: typeof send = async batch => {
    await until(async () => await gauge({ adminUrl }, 'service_pool_lanes_busy') === 0)
    return send(batch)
  }
  for (let i = 0; i < 3; i++) {
    t.match(
      await post([{ id: 'o', op: 'insert', table: 'take_0_0', values: [{ n: 1 }] }, {
        id: 'm',
        op: 'select',
        table: 'me',
        columns: ['role']
      }]),
      { status: 200, body: { data: { m: [{ role: 'oneflight_user' }] } } }
    )
    t.match(
      await post([{ id: 'o', op: 'insert', table: 'closed', values: [{ n: i }] }, {
        id: 'f',
        op: 'select',
        table: 'forbidden'
      }]),
      { status: 403, body: { error: { op: 'f' } } }
    )
  }
  // A connection that cannot be used again is replaced.
  t.match(
    await post([{
      id: 'o',
      op: 'insert',
      table: 'spoil',
      values: [{ command: 'prepare x as select 1; set role none' }]
    }, { id: 'm', op: 'select', table: 'me', columns: ['role'] }]),
    { status: 200, body: { data: { m: [{ role: 'oneflight_user' }] } } }
  )
  const hasty = await useService(t, {
    schema: roleChangeSchema,
    env: { POOL_SIZE: '1', REQUEST_TIMEOUT_MS: '500' }
  })
  const slow = {
    id: 'o',
    op: 'insert',
    table: 'spoil',
    values: [{ command: 'set role none; select pg_sleep(0.3)' }]
  }
  // The outcome of a dry run is known without a lookup.
  t.match(
    await hasty.post([slow, { id: 'm', op: 'select', table: 'me' }], {
      headers: { prefer: 'tx=rollback' }
    }),
    { status: 504, body: { error: { code: 'deadline_exceeded', committed: false } } },
    'a retry does not exceed the deadline'
  )
})

t.test('a session that cannot be restored is an internal error', async t => {
  const plan = planBatch([{ id: 's', op: 'select', table: 't' }] as unknown as Batch, {
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
  const { loginUrl } = await useDatabase(t, { schema })
  const { pool } = useEngine(t, loginUrl)
  const batch = plainBatch(['select 1'])
  const session = (connection: ConnectionFacts): readonly Statement[] =>
    sessionStatements({ role: LOGIN_ROLE, claims: '{}', requestId: 'x' }, {
      schemas: ['public'],
      statementTimeoutMs: 1000,
      lockTimeoutMs: 1000,
      idleTimeoutMs: 1000
    }, connection)
  t.match(
    await executeBatch(pool, { ...batch, role: LOGIN_ROLE, session }, {
      deadline: performance.now() + 5000
    }),
    { kind: 'failed', at: 'session', error: { code: '22023' } }
  )
})
