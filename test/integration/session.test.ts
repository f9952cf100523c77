/**
 * The session of a batch: it has exactly the role of the token, even if triggers change it. Values
 * are read and written in the formats that the batch sets for its session, even if a trigger
 * changes them: in the operation with the trigger, in later operations and at the end of the batch.
 * test/integration/isolation.test.ts tests what triggers leave on a connection,
 * test/integration/auth.test.ts roles that are refused.
 */
import t from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { query } from '../../src/postgres/connection.ts'
import type { ConnectionFacts } from '../../src/postgres/facts.ts'
import { compile } from '../../src/sql/compile.ts'
import { sessionStatement } from '../../src/sql/frame/session.ts'
import type { Statement } from '../../src/sql/statement/statement.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import { toFailure } from '../../src/transaction/to-failure.ts'
import { LOGIN_ROLE } from '../support/database/database.ts'
import { plainBatch, useEngine } from '../support/database/engine.ts'
import { ask, gauge, token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'
import { quoteName } from '../support/operations.ts'
import * as op from '../support/operations.ts'

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
  create table plain (
    id int primary key, at timestamptz, span interval, raw bytea, float float8, day date, text text
  );
  create type price as (amount int, currency text);
  create table priced (id int primary key, day date, price price);
  create table before_row (
    command text, at timestamptz default '2024-01-01T00:00:00Z',
    span interval default '1 day 2 hours', raw bytea default '\\x00ff',
    float float8 default 0.1, text text default 'é'
  );
  create trigger leave before insert on before_row for each row execute function leave();
  create table times (
    id int primary key, at timestamptz, many timestamptz[], a int, b int, c int, d int,
    born timestamptz default '2024-01-01 00:00'
  );
  create table bare (id int generated always as identity, at timestamptz);
  create table texts (text text);
  insert into texts values ('2024-01-01 00:00');
  create function to_tokyo() returns trigger language plpgsql as $$
    begin perform set_config('TimeZone', 'Asia/Tokyo', true); return null; end $$;
  create trigger tokyo before insert or update or delete on times
    for each statement execute function to_tokyo();
  create trigger tokyo before insert on bare for each statement execute function to_tokyo();
  create table guarded_times (id int primary key, at timestamptz);
  insert into guarded_times values (1, '2024-01-01T00:00:00Z');
  alter table guarded_times enable row level security;
  create function in_tokyo() returns int language plpgsql as $$
    begin perform set_config('TimeZone', 'Asia/Tokyo', true); return 1; end $$;
  create view tokyo as select in_tokyo() as n, '2024-01-01T00:00:00Z'::timestamptz as at
    from generate_series(1, 3);
  create policy tokyo on guarded_times using (in_tokyo() = 1);
  create schema other;
  create table other.plain (id int);
  create table classes (id int primary key, class regclass, note text);
  create function note() returns text language sql as $$ select 'public' $$;
  create function other.note() returns text language sql as $$ select 'other' $$;
  create function to_other() returns trigger language plpgsql as $$
    begin perform set_config('search_path', 'other, public', true); return null; end $$;
  create trigger other before insert on classes for each statement execute function to_other();
  create function take_note() returns trigger language plpgsql as $$
    begin execute 'select note()' into new.note; return new; end $$;
  create trigger take_note before insert on classes
    for each row execute function take_note();
  create function other.answer(plain) returns int language sql as 'select 2';
  create function public.answer(plain) returns int language sql as 'select 1';
  create function eq_other(text, text) returns boolean language sql immutable as 'select true';
  create operator other.= (function = eq_other, leftarg = text, rightarg = text);
  grant usage on schema other to oneflight_user;
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
  t.match((await post([current])).body.error, { sqlstate: '55000' })
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

t.test('an operation after a function that changes settings reads its values as ever', async t => {
  await sql.unsafe(`
    create table lists (id int primary key, list text[]);
    create function leave_setting(name text, value text) returns void language sql
      as 'select set_config(name, value, false)';
    grant all on lists to oneflight_user`)
  const list = ['a', null]
  const none = { where: { text: { eq: 'no such text' } }, expect: 0 }
  const following: readonly object[] = [
    { op: 'select', table: 'texts', ...none },
    { op: 'update', table: 'texts', set: { text: 'changed' }, ...none },
    { op: 'delete', table: 'texts', ...none },
    { op: 'insert', table: 'lists', values: [{ id: 1, list }, { id: 2, list }], expect: 2 },
    { op: 'update', table: 'lists', key: ['id'], values: [{ id: 3, list }], expect: 1 },
    { op: 'update', table: 'lists', set: { list }, where: { id: { eq: 3 } }, expect: 1 }
  ]
  const settings = [['search_path', 'other, pg_catalog, public'], ['array_nulls', 'off']] as const
  for (const [name, value] of settings) {
    const before = [
      leave(`select set_config('${name}', '${value}', true)`),
      leave(`select set_config('${name}', '${value}', false)`),
      { id: 'l', op: 'call', function: 'leave_setting', args: { name, value } }
    ]
    for (const first of before) {
      for (const operation of following) {
        const { status, text, body } = await post([
          insert('lists', { id: 3, list: [] }, 'three'),
          first,
          { id: 'o', ...operation },
          select('lists'),
          select('texts', 't')
        ], { headers: { prefer: 'tx=rollback' } })
        t.equal(status, 200, `${JSON.stringify([first, operation])} ${text}`)
        for (const row of body.data?.s.filter(({ list }: { list: unknown[] }) => list.length > 0)) {
          t.strictSame(row.list, list, JSON.stringify([first, operation]))
        }
        t.strictSame(body.data?.t, [{ text: '2024-01-01 00:00' }])
      }
    }
  }
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
    .find(text => String(text).startsWith('oneflight.session'))
  const error = {
    code: '42704',
    message: `unrecognized configuration parameter "${String(marker)}"`
  }
  t.match(
    toFailure({ kind: 'failed', error, at: 0, times: { operations: [] } }, plan, {
      anonymous: false,
      verbose: false,
      ...limits,
      role: 'r',
      schemas: ['public']
    }),
    { code: 'internal', status: 500, details: { op: 's', index: 0 } }
  )
})

t.test('the login role of the connection is rejected, even if the URL names another', async t => {
  const { pool } = useEngine(t, loginUrl)
  const times = { statementTimeoutMs: 1000, lockTimeoutMs: 1000, idleTimeoutMs: 1000 }
  const session = (connection: ConnectionFacts): Statement =>
    sessionStatement(
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

const commands: readonly string[] = [
  "local timezone = 'Asia/Tokyo'",
  "timezone = 'America/St_Johns'",
  "local datestyle = 'German, DMY'",
  "local intervalstyle = 'iso_8601'",
  "local bytea_output = 'escape'",
  'local extra_float_digits = -10',
  "local client_encoding = 'LATIN1'",
  'local search_path = other, pg_catalog, public', 'local role none'
].map(text => `set ${text}`)

const row = {
  at: '2024-01-01T00:00:00+00:00', span: '1 day 02:00:00', raw: '\\x00ff', float: 0.1, text: 'é'
}
let id = 0

/** The number of retries because of a changed session. */
async function countRetries (): Promise<number> {
  const { text } = await ask(`${service.adminUrl}/metrics`)
  return Number(/service_txn_retry_count\{reason="session"\} (\d+)/.exec(text)?.[1] ?? 0)
}

/** Runs a command in a trigger, in an operation of its own. */
const spoil = (command: string): object => leave(command, 'spoil')
const plain = op.select('s', 'plain')

t.test('settings changed by a trigger do not affect later operations', async t => {
  for (const command of commands) {
    const before = await countRetries()
    const { body, text } = await post([
      spoil(command),
      op.insert('i', 'plain', [{
        id: ++id,
        at: '2024-01-01 00:00',
        span: '1 day 2 hours',
        raw: '\\x00ff',
        float: 0.1,
        day: '24/02/03',
        text: 'é'
      }]),
      { ...plain, where: { id: { eq: id }, at: { eq: '2024-01-01 00:00' }, text: { eq: 'é' } } },
      { ...plain, id: 'none', where: { text: { eq: 'e' } } },
      { ...plain, id: 'list', where: { day: { in: '$i.*.day' }, id: { eq: id } }, columns: ['id'] }
    ])
    t.strictSame(body.data, {
      spoil: [],
      i: [{ id, ...row, day: '2024-02-03' }],
      s: [{ id, ...row, day: '2024-02-03' }],
      none: [],
      list: [{ id }]
    }, `${command} ${body.error === null ? '' : text}`)
    t.equal(await countRetries() - before, 1, 'the batch was retried once')
    const [stored] = await sql`
      select at = '2024-01-01T00:00:00Z' as at, day = '2024-02-03' as day, text
      from plain where id = ${id}`
    t.same(stored, { at: true, day: true, text: 'é' })
  }
})

t.test('an encoding that cannot represent later texts does not affect them', async t => {
  const text = 'é€ü日本語'
  for (const encoding of ['SJIS', 'EUC_KR', 'BIG5', 'GBK']) {
    // From the third run on, its statements are prepared.
    for (let i = 0; i < 4; i++) {
      const answer = await post([
        spoil(`set local client_encoding = '${encoding}'`),
        op.insert('i', 'plain', [{ id: ++id, text }]),
        { ...plain, where: { text: { eq: text }, id: { eq: id } } }
      ])
      t.match(answer.body.data, { i: [{ id, text }], s: [{ id, text }] }, encoding)
    }
  }
})

t.test('settings changed by a trigger do not affect the rows of its own operation', async t => {
  for (const command of commands) {
    const values = [{ command }, { command }]
    const insert = op.insert('i', 'before_row', values)
    for (const batch of [[insert], [plain, insert], [insert, plain]]) {
      for (const headers of [{}, { prefer: 'tx=rollback' }]) {
        const { body, text } = await post(batch, { headers })
        t.strictSame(
          body.data?.i, [{ command, ...row }, { command, ...row }],
          `${command} ${body.error === null ? '' : text}`
        )
      }
    }
    const { body: { data } } = await post([
      insert,
      op.select('s', 'before_row', { where: { at: { eq: '$i.1.at' } }, columns: [{ fn: 'count' }] })
    ])
    t.ok(data.s[0].count >= 2, 'a reference reads the same instant')
  }
  t.strictSame(
    (await post([op.select('s', 'tokyo', { columns: ['at'] })])).body.data.s,
    Array(3).fill({ at: row.at }), 'a function in a view'
  )
})

t.test('settings changed by triggers and policies do not affect values', async t => {
  const [at, instant] = ['2024-01-01 00:00', row.at]
  const insert = (values: object[], more: object = {}): object =>
    op.insert('i', 'times', values, { expect: values.length, ...more })
  const conflict = (set: object): object =>
    insert([{ id: 1 }], { on_conflict: { columns: ['id'], do: 'update', set } })
  const change = (set: object, more: object = {}): object =>
    op.update('u', 'times', { where: { id: { eq: 1 } }, set, expect: 1, ...more })
  const texts = op.select('t', 'texts')
  const same = { at: { eq: '$t.0.text' } }
  const read = (where: object): object => op.select('s', 'times', { where })
  const batches: ReadonlyArray<readonly object[]> = [
    [insert([{ id: 3, at }, { id: 4, at }])],
    [insert([{ id: 3, at }, { id: 4, at, a: 1 }, { id: 5, at }, { id: 6, many: [at] }])],
    [texts, insert([{ id: 3, at: '$t.0.text' }, { id: 4, at, a: 1 }])],
    [insert([{ id: 3, at }], { returning: [] })],
    [insert([{ id: 3, at }, { id: 4, many: [at] }], { returning: ['at'] }), read({})],
    [
      insert([{ id: 3, at }]),
      read({
        at: { eq: '$i.0.at' },
        a: { isdistinct: '$i.0.id' },
        and: ['b', 'c', 'd'].map(column => ({ id: { neq: `$i.0.${column}` } }))
      })
    ],
    [conflict({ at })],
    [conflict({ many: [at, at] })],
    [texts, conflict({ at: '$t.0.text' })],
    [texts, conflict({ many: '$t.*.text' })],
    [insert([{ id: 3 }]), change({ at })],
    [texts, change({ at: '$t.0.text', many: [at] })],
    [change({ a: { $inc: 1 }, at }, { returning: [] })],
    [texts, op.delete('d', 'times', { where: same, expect: 2 })],
    [texts, change({ at }, { table: 'guarded_times', where: same })],
    [texts, op.select('s', 'guarded_times', { where: same, expect: 1 })],
    [texts, op.select('s', 'tokyo', { where: same, expect: 3 })],
    [op.insert('i', 'bare', [{}, {}], { expect: 2 })]
  ]
  for (const batch of batches) {
    for (const headers of [{}, { prefer: 'return=minimal' }]) {
      await sql`truncate times`
      await sql`insert into times (id, at) values (1, ${instant}), (2, ${instant})`
      const { status, text } = await post(batch, { headers })
      t.equal(status, 200, `${JSON.stringify(batch)} ${text}`)
      t.notMatch(text, /\+09/)
      t.same(
        await sql`
        select id, at, many, born from times where born <> ${instant} or at <> ${instant}
          or ${instant} <> any (many)
        union all select id, at, null, null from guarded_times where at <> ${instant}`,
        [],
        text
      )
    }
  }
})

t.test('table names in values are resolved without the search_path of a trigger', async t => {
  const values = [{ id: 1, class: 'plain' }, { id: 2, class: 'plain' }]
  t.strictSame(
    (await post([op.insert('i', 'classes', values), plain])).body.data?.i,
    values.map(row => ({ ...row, note: 'other' }))
  )
  t.same(
    await sql`select distinct class = 'public.plain'::regclass as x from classes`, [{ x: true }]
  )
})

t.test('a changed format does not affect rows with composite values', async t => {
  const command = "set local datestyle = 'ISO, DMY'"
  const price = { amount: 5, currency: 'EUR' }
  const batch = (id: number): object[] => [
    spoil(command),
    op.insert('i', 'priced', [{ id, day: '02/03/04', price }])
  ]
  const before = await countRetries()
  // From the second run on, the service knows that the table has a composite column.
  for (const id of [1, 2, 3]) {
    const { body, text } = await post(batch(id))
    t.strictSame(body.data?.i, [{ id, day: '2002-03-04', price }], text)
    t.equal(await countRetries() - before, id)
  }
  t.same(await sql`select distinct day::text from priced`, [{ day: '2002-03-04' }])
})

t.test('a batch whose triggers do not change the session runs once', async t => {
  const before = await countRetries()
  const values = [{ command: "set local work_mem = '8MB'" }]
  const price = { amount: 5, currency: 'EUR' }
  const inserts = [
    ...['leave', 'before_row'].map(table => ({ table, values })),
    ...[4, 5, 6].map(id => ({ table: 'priced', values: [{ id, price }] }))
  ]
  for (const insert of inserts) {
    t.equal((await post([{ id: 'i', op: 'insert', ...insert }, plain])).status, 200)
  }
  t.equal(await countRetries(), before)
})
