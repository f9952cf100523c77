/**
 * The session of a batch: every operation has exactly the role, the claims and the formats of the
 * batch, even if code of the database changes them. An operation whose own values depend on such a
 * change is refused. test/integration/isolation.test.ts tests what triggers leave on a connection,
 * test/integration/auth.test.ts roles that are refused.
 */
import t, { type Test } from 'tap'
import { query } from '../../src/postgres/connection.ts'
import type { ConnectionFacts } from '../../src/postgres/facts.ts'
import { sessionStatement } from '../../src/sql/frame/session.ts'
import type { Statement } from '../../src/sql/statement/statement.ts'
import { FORMAT_NAMES } from '../../src/sql/statement/settings.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import { LOGIN_ROLE } from '../support/database/database.ts'
import { plainBatch, useEngine } from '../support/database/engine.ts'
import { token, useService, type Answer } from '../support/service.ts'
import { bearer, failed } from '../support/shorthand.ts'
import { quoteName } from '../support/operations.ts'
import * as op from '../support/operations.ts'

const moments: readonly string[] = ['before', 'after'].flatMap(moment =>
  ['row', 'statement'].map(level => `${moment} insert on # for each ${level}`)
)
const otherClaims = '{"role":"oneflight_other","sub":"other"}'
const changes: readonly string[] = [
  'set role oneflight_other', 'set local role oneflight_other', 'set role none', 'reset role',
  'set session authorization default', `set local session authorization ${LOGIN_ROLE}`,
  `select set_config('request.jwt.claims', '${otherClaims}', false)`, 'reset request.jwt.claims'
]
/** The settings that control how values are read and written, with another value than a batch. */
const formats: Readonly<Record<string, string>> = {
  client_encoding: 'LATIN1',
  TimeZone: 'Asia/Tokyo',
  DateStyle: 'German, DMY',
  IntervalStyle: 'iso_8601',
  bytea_output: 'escape',
  extra_float_digits: '-10',
  array_nulls: 'off',
  search_path: 'other, pg_catalog, public'
}

/** A table with a trigger that runs a command. */
interface Acting {
  readonly name: string
  readonly moment: string
  readonly command: string
}

function tablesOf (prefix: string, commands: readonly string[]): readonly Acting[] {
  return moments.flatMap((moment, i) =>
    commands.map((command, j) => ({ name: `${prefix}_${i}_${j}`, moment, command }))
  )
}

const set = (name: string, local = false): string =>
  `select set_config('${name}', '${formats[name]}', ${local})`
const taking = tablesOf('take', changes)
const careless = [false, true].flatMap(local =>
  tablesOf(local ? 'local' : 'format', FORMAT_NAMES.map(name => set(name, local)))
)

/** View `me` shows the role of the session. oneflight_other may read `forbidden`. */
const schema = `
  create sequence s;
  create view assigned as select pg_current_xact_id_if_assigned() is not null as id;
  create function act() returns trigger language plpgsql as $$
    begin execute tg_argv[0]; return new; end $$;
  create view me as select current_user::text as role, current_setting('request.jwt.claims')
    as claims, current_setting('request.id') as id, 'é' as text, 0.1::float8 + 0.2 as float;
  alter view me owner to oneflight_user;
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command;
    return new; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create table closed (n int primary key, owner name default current_user, text text);
  create table plain (id int, at timestamptz default '2024-01-01T00:00:00Z', day date,
    span interval default '1 day 2 hours', raw bytea default '\\x00ff', float float8 default 0.1,
    text text default 'é', list text[], class regclass default 'plain');
  ${taking.map(({ name }) => `create table ${name} (n int);`).join('')}
  ${careless.map(({ name }) => `create table ${name} (like plain including all);`).join('')}
  ${[...taking, ...careless].map(({ name, moment, command }) =>
    `create trigger act ${moment.replace('#', name)} execute function act($c$${command}$c$);`
  ).join('')}
  create table deferred (n int);
  create constraint trigger act after insert on deferred deferrable initially deferred
    for each row execute function act('set role oneflight_other');
  create function take() returns int language plpgsql as $$ begin perform set_config('role',
    'oneflight_other', false); return 1; end $$;
  create function borrow() returns text language plpgsql set role = oneflight_other as $$ begin
    return current_user; end $$;
  create view taking as select take() as n;
  create view borrowing as select borrow() as role;
  create function in_tokyo() returns int language plpgsql as $$
    begin perform ${set('TimeZone', true).slice(7)}; return 1; end $$;
  create view tokyo as select in_tokyo() as n, '2024-01-01T00:00:00Z'::timestamptz as at;
  create table guarded (n int);
  create table guarded_times as select n, '2024-01-01T00:00:00Z'::timestamptz as at
    from generate_series(1, 2) as n;
  insert into guarded values (1);
  alter table guarded enable row level security;
  alter table guarded_times enable row level security;
  create policy take on guarded using (take() = n);
  create policy tokyo on guarded_times using (in_tokyo() = 1);
  create schema other;
  create table other.plain (id int);
  create function eq_other(text, text) returns boolean language sql immutable as 'select true';
  create operator other.= (function = eq_other, leftarg = text, rightarg = text);
  grant usage on schema other to oneflight_user;
  grant all on all tables in schema public to oneflight_user;
  grant all on s to oneflight_user;
  create table forbidden (n int);
  grant select on forbidden to oneflight_other;`

const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
const { post, database: { sql, loginUrl } } = service

const select = (table: string, id = 's'): object => op.select(id, table)
const insert = (table: string, row: object = { n: 1 }, id = 'i'): object =>
  op.insert(id, table, [row], { returning: [] })
const leave = (command: string, id = 'l'): object => insert('leave', { command }, id)

t.test('a sequence of a trigger does not reach the next batch', async t => {
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

t.test('a change of role or claims inside a batch has no effect on later operations', async t => {
  let n = 0
  /** Runs an operation twice, between others that show their session. */
  const check = async (operation: object, headers: object = {}): Promise<void> => {
    const bearer = token({ role: 'oneflight_user', nonce: ++n, sub: 'sübject' })
    const claims = Buffer.from(bearer.split('.')[1] as string, 'base64url').toString()
    const batch = [
      select('me', 'a'),
      operation,
      select('me', 'b'),
      op.insert('closed', 'closed', [{ n, text: 'é' }]),
      { ...operation, id: 'again' },
      select('me', 'c')
    ]
    const all = { authorization: `Bearer ${bearer}`, 'x-request-id': `n${n}`, ...headers }
    const { status, text, body: { data } } = await post(batch, { headers: all })
    const name = JSON.stringify(operation)
    t.equal(status, 200, `${name} ${text}`)
    const role = 'oneflight_user'
    const me = { role, claims, id: `n${n}`, text: 'é', float: 0.30000000000000004 }
    for (const seen of ['a', 'b', 'c']) t.same(data?.[seen], [me], name)
    t.same(data?.closed, [{ n, owner: role, text: 'é' }])
    t.match(
      await post([operation, select('forbidden', 'f')], { headers: all }),
      failed(403, 'insufficient_privilege', { op: 'f', index: 1, committed: false }),
      name
    )
    t.match(
      await post([select('me', 'a'), operation], { headers: { ...all, prefer: 'tx=rollback' } }),
      { status: 200, body: { data: { a: [me] } } }
    )
  }
  for (const { name } of taking) await check(insert(name))
  for (const table of ['taking', 'guarded', 'borrowing']) await check(select(table))
  await check({ id: 'i', op: 'call', function: 'take' })
  await check(insert('take_0_0'), { prefer: 'isolation=serializable' })
  await check(leave('set statement_timeout = \'10s\'; set work_mem = \'8MB\''))
  t.same(
    await sql`select count(*)::int as n, (select count(*)::int from take_0_0) as taken from closed
      where owner = 'oneflight_user'`,
    [{ n, taken: 4 }],
    'each operation took effect once, except in dry runs'
  )
  // This trigger runs at the end of the batch, after all of its operations.
  for (const headers of [{}, { prefer: 'tx=rollback' }]) {
    t.match(await post([insert('deferred'), select('me', 'm')], { headers }), {
      status: 200, body: { data: { m: [{ role: 'oneflight_user' }] } }
    })
  }
})

const given = {
  id: 1,
  at: '2024-01-01 00:00',
  day: '24/02/03',
  span: '1 day 2 hours',
  raw: '\\x00ff',
  float: 0.1,
  text: 'é',
  list: ['a', null]
}
const stored = {
  ...given, at: '2024-01-01T00:00:00+00:00', day: '2024-02-03', span: '1 day 02:00:00'
}
const row = { ...stored, class: 'plain' }

function expectRefused (t: Test, answer: Answer, setting: string, id = 'own'): void {
  const more = { op: id, type: 'session_error', committed: false, retryable: false }
  t.match(answer, failed(400, 'session_changed', more), `${setting} ${answer.text}`)
  t.ok(answer.body.error?.message.includes(` ${setting},`), answer.text)
}

t.test('what careless triggers get', async t => {
  const plain = op.insert('i', 'plain', [given])
  const found = op.select('s', 'plain', {
    where: {
      at: { eq: given.at }, day: { eq: given.day }, list: { eq: '{a,NULL}' }, text: { eq: 'é' }
    }
  })
  const others = op.select('none', 'plain', { where: { text: { eq: 'e' } } })
  for (const { name, moment, command } of careless) {
    const own = op.insert('own', name, [given])
    const setting = /'(.*?)'/.exec(command)?.[1] as string
    if (moment.startsWith('before')) {
      const many = op.insert('own', name, [given, { ...given, id: 2 }], { returning: [] })
      for (const batch of [[own], [plain, many], [own, plain]]) {
        expectRefused(t, await post(batch), setting)
      }
      const headers = { prefer: 'return=minimal, tx=rollback' }
      expectRefused(t, await post([plain, own], { headers }), setting)
      continue
    }
    // The server encodes rows after these triggers. Those of the last operation are not checked.
    const ascii = op.insert('own', name, [{ ...given, text: 'e' }])
    for (const sub of ['sübject', 'subject']) {
      const { body, text } = await post([ascii, plain, found, others], {
        headers: { authorization: bearer({ sub }) }
      })
      if (setting === 'client_encoding') {
        t.match(body.error, { code: 'session_changed', op: 'own', message: /client_encoding/ })
        continue
      }
      t.same(
        body.data,
        { own: [{ ...row, text: 'e' }], i: [row], s: [row], none: [] },
        `${command} ${text}`
      )
      t.same((await post([found])).body.data, { s: [row] }, `the next batch: ${command}`)
      t.same(await sql`select id from ${sql(name)} where at <> ${stored.at}`, [])
      await sql`delete from plain`
    }
  }
  t.same(await sql.unsafe(careless.filter(({ moment }) => moment.startsWith('before')).map(
    ({ name }) => `select id from ${name}`
  ).join(' union ')), [], 'nothing of a refused batch is stored')
})

t.test('functions of views, policies and calls that change formats', async t => {
  const call = { id: 'own', op: 'call', function: 'in_tokyo' }
  for (const own of [call, ...['tokyo', 'guarded_times'].map(table => select(table, 'own'))]) {
    for (const batch of [[own], [select('me'), own], [own, select('me')]]) {
      expectRefused(t, await post(batch), 'TimeZone')
    }
  }
  // The repair of the message.
  await sql`alter function in_tokyo() set timezone from current`
  for (const table of ['tokyo', 'guarded_times']) {
    t.match((await post([select(table)])).body.data, { s: [{ at: stored.at }] })
  }
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
