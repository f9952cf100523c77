/**
 * The session of a batch: exactly the token's role, and nothing that an earlier batch left on the connection.
 */
import t from 'tap'
import { useEngine } from './support/engine.ts'
import { useService, type ServiceUnderTest } from './support/service.ts'
import { useDatabase, ensureRoles } from './support/database.ts'

/** `leave` runs what a trigger is told; `seen` tells what a batch sees. */
const schema = `
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command; return new; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create schema other;
  create table t (id int, at timestamptz default '2026-01-02 03:04:05+00', owner name default current_user);
  insert into t values (1);
  create table other.t (id int);
  alter table t enable row level security;
  create policy t on t using (id < 10);
  create view seen with (security_barrier) as select current_user::text as role, session_user::text as login, name, current_setting(name, true) as value
    from unnest('{role,search_path,statement_timeout,lock_timeout,row_security,datestyle,intervalstyle,timezone,client_encoding,bytea_output,extra_float_digits,default_transaction_read_only,default_transaction_isolation,default_transaction_deferrable,transaction_read_only,transaction_isolation,app.setting,request.id,request.jwt.claims,work_mem}'::text[]) as name;
  alter view seen owner to oneflight_user;
  create sequence s;
  create view kept as
    select 'lock' as what from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'table' from pg_class where relpersistence = 't'
    union all select 'channel' from pg_listening_channels()
    union all select 'cursor' from pg_cursors where is_holdable;
  grant all on s, kept to oneflight_user;
  grant all on leave, seen, t to oneflight_user, oneflight_other;`

/** What a batch sees, by name; ids of requests differ and are left out. */
async function look ({ post }: ServiceUnderTest, role: string): Promise<Record<string, string>> {
  const { status, body, text } = await post([{ id: 's', op: 'select', table: 'seen' }], { role })
  t.equal(status, 200, text)
  return Object.fromEntries((body.data.s as Array<{ name: string, value: string }>).filter(({ name }) => name !== 'request.id').map(({ name, value }) => [name, value]))
}

t.test('nothing that a trigger left behind reaches the next batch', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const leave = async (command: string): Promise<void> => {
    t.equal((await service.post([{ id: 'l', op: 'insert', table: 'leave', values: [{ command }] }])).status, 200, command)
  }
  const clean = await look(service, 'oneflight_other')
  t.match(clean, {
    role: 'oneflight_other',
    search_path: '"public", pg_temp',
    statement_timeout: '15s',
    lock_timeout: '5s',
    row_security: 'on',
    datestyle: 'ISO, YMD',
    timezone: 'UTC',
    transaction_read_only: 'off',
    transaction_isolation: 'read committed',
    'request.jwt.claims': /"role":"oneflight_other"/
  })
  const rows: ReadonlyArray<readonly [string, string]> = [
    ['search_path', 'other'], ['statement_timeout', '1'], ['lock_timeout', '1'], ['row_security', 'off'], ['DateStyle', 'German'], ['IntervalStyle', 'iso_8601'],
    ['TimeZone', 'Asia/Tokyo'], ['bytea_output', 'escape'], ['extra_float_digits', '-10'], ['client_encoding', 'LATIN1'], ['default_transaction_read_only', 'on'],
    ['default_transaction_isolation', 'serializable'], ['default_transaction_deferrable', 'on'], ['role', 'oneflight_user'], ['role', 'none'], ['app.setting', 'left'], ['work_mem', '64kB'],
    ['request.jwt.claims', '{"role":"left"}'], ['idle_in_transaction_session_timeout', '1']
  ]
  for (const [name, value] of rows) {
    await leave(`select set_config('${name}', '${value}', false)`)
    // A custom setting reads as '' once it was used on a connection.
    const { 'app.setting': setting, 'request.jwt.claims': claims, ...rest } = await look(service, 'oneflight_other')
    const { 'app.setting': _, 'request.jwt.claims': before, ...expected } = clean
    t.same(rest, expected, `${name} = ${value}`)
    t.notOk(setting, 'app.setting')
    t.equal(JSON.parse(claims as string).role, JSON.parse(before as string).role)
  }
  t.match((await service.post([{ id: 's', op: 'select', table: 't' }])).text, /"at":"2026-01-02T03:04:05\+00:00"/)
})

t.test('what a trigger made for the session does not outlive its batch', async t => {
  const { post } = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const leave = (id: string, command: string): object => ({ id, op: 'insert', table: 'leave', values: [{ command }] })
  const look = { id: 'k', op: 'select', table: 'kept' }
  const rows: ReadonlyArray<readonly [string, string]> = [
    ['lock', 'select pg_advisory_lock(7)'], ['lock', 'select pg_advisory_lock_shared(7)'], ['table', 'create temp table t as select 99 as id'],
    ['cursor', 'declare c cursor with hold for select 1']
  ]
  for (const [what, command] of rows) {
    const answer = await post([leave('l', command), look])
    t.match(answer.body.data?.k, [{ what }], `${command} ${answer.text}`)
    t.same((await post([look])).body.data.k, [], command)
  }
  // LISTEN counts from the COMMIT on.
  t.equal((await post([leave('l', 'listen gossip')])).status, 200)
  t.same((await post([look])).body.data.k, [], 'listen')
  t.equal((await post([leave('a', "select nextval('s')"), leave('b', "select currval('s')")])).status, 200)
  t.match((await post([leave('b', "select currval('s')")])).text, /object_not_in_prerequisite_state|55000/)
  // A lock of the session outlives a ROLLBACK too.
  t.not((await post([leave('l', 'select pg_advisory_lock(7)'), leave('x', 'select 1 / 0')])).status, 200)
  t.same((await post([look])).body.data.k, [], 'after a failure')
})

t.test('a role that is unknown and one that is not granted get the same answer', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const answers = []
  // The superuser's role exists everywhere and is granted to nobody.
  for (const role of ['nobody_knows_this_role', 'postgres', 'x"y', 'ünknown']) {
    const { status, body: { error: { request_id: _, ...error } } } = await service.post([{ id: 's', op: 'select', table: 't' }], { role })
    answers.push({ status, error })
  }
  t.match(answers[0], { status: 403, error: { type: 'session_error', code: 'role_denied', committed: false } })
  for (const answer of answers) t.same(answer, answers[0])
  t.equal((await service.post([{ id: 's', op: 'select', table: 't' }])).status, 200)
})

t.test('roles whose names need quotes', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  const names = ['Oneflight "Quoted" Röle', "oneflight'; drop table t; --"]
  await ensureRoles(['oneflight_user'])
  for (const name of names) {
    const quoted = `"${name.replaceAll('"', '""')}"`
    await service.database.sql.unsafe(`create role ${quoted}; grant ${quoted} to oneflight_login; grant select on seen to ${quoted}`)
    t.teardown(() => service.database.sql.unsafe(`drop owned by ${quoted}; drop role ${quoted}`))
    t.equal((await look(service, name))['role'], name)
  }
})

t.test('a transaction has its id before it begins to write, and only then', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  const { run } = useEngine(t, loginUrl)
  t.match(await run(['select (pg_current_xact_id_if_assigned() is not null)::text']), { rows: [Buffer.from('true')] })
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  await service.database.sql.unsafe('create view assigned as select pg_current_xact_id_if_assigned() is not null as id; grant select on assigned to oneflight_user')
  t.match((await service.post([{ id: 'a', op: 'select', table: 'assigned' }])).body.data, { a: [{ id: false }] })
})
