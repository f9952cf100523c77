/**
 * Tests edge cases of idempotency keys: keys that could be applied twice, be held forever, or give
 * a caller the rights of the login role. Each case was observed or is possible.
 */
import postgres from 'postgres'
import t from 'tap'
import { claimStatement, type Key } from '../../src/sql/frame/idempotency.ts'
import { LOGIN_ROLE } from '../support/database/database.ts'
import { holdRow } from '../support/database/hold.ts'
import { useProxy } from '../support/network/proxy.ts'
import { expectReplay, useService, type Answer, type ServiceUnderTest }
  from '../support/service.ts'
import { bearer, failed } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const FORGED = '\'[{"forged":true}]\''

/** Functions that record who called them, and better matches for operators that call these. */
const traps = [
  ['set_config', 'text, text, boolean', 'text', '$2'],
  ['current_setting', 'text, boolean', 'text', FORGED],
  ['current_setting', 'text', 'text', FORGED],
  ['decode', 'text, text', 'bytea', "''"],
  ['now', '', 'timestamptz', "'infinity'"],
  ['pg_backend_pid', '', 'int', '1'],
  ['pg_advisory_unlock_all', '', 'void', ''],
  ['texts', 'text, text', 'boolean', 'true'],
  ['bytes', 'bytea, bytea', 'boolean', 'true'],
  ['joined', 'text, int', 'text', "'1'"]
] as const

const claim = "(current_setting('request.jwt.claims')::json ->> 'role')"

/**
 * `leave` executes a given command after each row. `evil` shadows everything that statements about
 * keys use and records who called it. Its types match better than those of the originals.
 */
const schema = `
  create table t (id int generated always as identity primary key, word text);
  create table loot (id int generated always as identity, who text, how text);
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command;
    return null; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create table seen (who text, what text);
  create schema evil;
  create function evil.note(what text) returns void language sql as $$ insert into public.seen
    values (current_user::text, what) $$;
  create function evil.unnest(text[]) returns setof text language plpgsql as $$
    begin perform evil.note('unnest'); return query select 'x'; end $$;
  ${
  traps.map(([name, types, result, value]) => `
    create function evil.${name} (${types}) returns ${result} language plpgsql as $$
      begin perform evil.note('${name}'); return ${value}; end $$;`)
    .join('')
}
  create operator evil.= (function = evil.texts, leftarg = text, rightarg = text);
  create operator evil.<> (function = evil.texts, leftarg = text, rightarg = text);
  create operator evil.= (function = evil.bytes, leftarg = bytea, rightarg = bytea);
  create operator evil.<> (function = evil.bytes, leftarg = bytea, rightarg = bytea);
  create operator evil.|| (function = evil.joined, leftarg = text, rightarg = int);
  create table evil.idempotency_keys (principal bytea, key text, fingerprint bytea, answer text[],
    created_at timestamptz, expires_at timestamptz, claims bytea);
  create table own (id int, note text, owner text default ${claim});
  alter table own enable row level security;
  create policy p on own using (owner = ${claim}) with check (owner = ${claim});
  insert into own values (1, 'é', 'oneflight_user'), (2, 'x', 'other');
  create table log (id int primary key, word text);
  create function resets() returns trigger language plpgsql
    as $$ begin reset all; return null; end $$;
  create trigger resets after insert on log for each row execute function resets();
  create function reset_all() returns int language plpgsql as $$ begin reset all; return 1; end $$;
  grant insert on seen to public;
  grant usage, create on schema evil to public;
  grant all on all tables in schema evil to public;
  grant all on t, loot to oneflight_user, public;
  grant all on leave, own, log to oneflight_user;
  grant create on schema public to public;`

const service = await useService(t, { schema, keys: true, env: { POOL_SIZE: '1' } })
const { post, useAnother, database, database: { sql } } = service

t.beforeEach(async () => {
  await sql`truncate t, loot, seen, oneflight.idempotency_keys restart identity`
})

const insert = { id: 'i', op: 'insert', table: 't', values: [{ word: 'once' }] }
const leave = (command: string): object =>
  ({ id: 'l', op: 'insert', table: 'leave', values: [{ command }] })
const headers = { 'idempotency-key': 'a' }
const withKey = (key: string, batch: readonly object[]): Promise<Answer> =>
  post(batch, { headers: { 'idempotency-key': key } })

const applied = async (): Promise<number> => (await sql`select from t`).length
const keys = async (): Promise<readonly unknown[]> =>
  (await sql`select key from oneflight.idempotency_keys order by key`).map(({ key }) => key)
const untilExpired = (): Promise<unknown> =>
  until(async () =>
    (await sql`select from oneflight.idempotency_keys where expires_at < clock_timestamp()`)
      .length === 1
  )

t.test('a batch whose outcome lookup outlasts its key is applied once', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const env = { IDEMPOTENCY_TTL: '1s' }
  const { post } = await useAnother(t, { env, databaseUrl: proxy.through })
  t.equal((await post([{ id: 's', op: 'select', table: 't' }])).status, 200)
  proxy.deliver = ({ held }) => held.includes('COMMIT\0') ? 0 : held.length
  const response = post([insert], { headers })
  await until(async () => await applied() === 1)
  proxy.open = false
  proxy.cut()
  proxy.deliver = ({ held }) => held.length
  await untilExpired()
  proxy.open = true
  t.equal((await response).status, 200)
  t.equal(await applied(), 1)
})

t.test('a lost batch with an expired key does not replay the old response', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const env = { IDEMPOTENCY_TTL: '1s' }
  const { post } = await useAnother(t, { env, databaseUrl: proxy.through })
  t.equal(
    (await post([insert], { headers })).text,
    '{"error":null,"data":{"i":[{"id":1,"word":"once"}]}}'
  )
  await untilExpired()
  const lock = await holdRow(database, 'lock table t in exclusive mode; select 1')
  const response = post([insert], { headers })
  await lock.awaited()
  proxy.cut()
  await lock.free()
  t.match((await response).text, /"id":[23],/, 'the batch was rolled back and retried')
  t.equal(await applied(), 2)
})

t.test('a lost batch does not get the response of a request with other claims', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const proxied = await useAnother(t, { databaseUrl: proxy.through })
  const sendTo = ({ post }: ServiceUnderTest, tenant: string): Promise<Answer> => {
    const authorization = bearer({ sub: 'a', tenant })
    return post([insert], { headers: { ...headers, authorization } })
  }
  const lock = await holdRow(database, 'lock table t in exclusive mode; select 1')
  const lost = sendTo(proxied, 'bakery')
  await lock.awaited()
  // The service cannot look its batch up until the other request is committed.
  proxy.open = false
  proxy.cut()
  await sql`select pg_terminate_backend(pid) from pg_locks
    where relation = 't'::regclass and not granted`
  await lock.awaited(0)
  await lock.free()
  t.equal((await sendTo(service, 'corner-shop')).status, 200)
  proxy.open = true
  t.match(await lost, failed(422, 'idempotency_key_reused', { committed: false }))
  t.equal(await applied(), 1)
})

t.test('an attempt of which only the claim arrives does not hold its key forever', async t => {
  const half = postgres(database.loginUrl, { max: 1, onnotice () {}, fetch_types: false })
  t.teardown(() => half.end({ timeout: 0 }))
  const key: Key = {
    principal: 'aa',
    claims: 'cc',
    earlierClaims: 'cc',
    eachClaim: '{}',
    text: 'a',
    fingerprint: 'bb',
    lock: 7n,
    ttlSeconds: 60
  }
  const { text, parameters } = claimStatement(key)
  const locks = async (): Promise<number> =>
    (await sql`select from pg_locks where locktype = 'advisory' and database = (select oid
      from pg_database where datname = ${database.name})`).length
  t.equal(await locks(), 0)
  // Not with `sql.begin`, which would send a ROLLBACK on a closed connection.
  await half.unsafe('begin')
  await half.unsafe(text, [...parameters])
  t.equal(await locks(), 1)
  // The rest of the attempt never arrives.
  await until(async () => await locks() === 0)
  t.same(await keys(), [])
})

t.test('token roles have no privileges on stored responses', async t => {
  const { post } = await useAnother(t, { env: { DB_SCHEMAS: 'public,oneflight' } })
  t.equal((await post([insert], { headers })).status, 200)
  const values = [{ principal: '\\x00', key: 'x', fingerprint: '\\x00', expires_at: 'infinity' }]
  const operations: readonly object[] = [
    { op: 'select' },
    { op: 'delete', all: true },
    { op: 'update', set: { key: 'x' }, all: true },
    { op: 'insert', values }
  ]
  for (const headers of [{}, { 'idempotency-key': 'l' }]) {
    for (const operation of operations) {
      const forbidden = { id: 'x', table: 'oneflight.idempotency_keys', ...operation }
      const answer = await post([insert, forbidden], { headers })
      const error = failed(403, 'insufficient_privilege', { committed: false })
      t.match(answer, error, JSON.stringify(operation))
    }
  }
  t.same(await keys(), ['a'])
  t.equal(await applied(), 1)
})

const callers = async (): Promise<readonly unknown[]> =>
  (await sql`select distinct who from seen order by who`).map(({ who }) => who)

t.test('no statement of the service uses an object of a hostile search_path', async t => {
  const path = "set_config('search_path', 'evil, pg_temp, pg_catalog, public', false)"
  // Prove that the traps work.
  await sql.begin(async sql => {
    await sql.unsafe('set local search_path = evil, pg_temp, pg_catalog, public')
    await sql.unsafe(`
      select current_setting('x', true), decode('', 'hex') = '', 'a'::text <> 'b'::text,
        set_config('a.b', '', true), now(), 'a'::text || 1, unnest(array['a'::text])`)
  })
  t.equal((await sql`select distinct what from seen`).length, 8)
  await sql`truncate seen`
  const temporary = `create temp table idempotency_keys (principal bytea, key text,
    fingerprint bytea, answer text[], created_at timestamptz, expires_at timestamptz, claims bytea)`
  const attacks = [
    `select ${path}`,
    `${temporary}; select ${path}`,
    `${temporary} on commit drop`,
    `do $do$ begin perform ${path}; perform set_config('role', 'oneflight_user', false); end $do$`
  ]
  for (const [i, attack] of attacks.entries()) {
    const batch = [insert, leave(attack)]
    const first = await withKey(`k${i}`, batch)
    expectReplay(t, await withKey(`k${i}`, batch), first, attack)
    t.equal((await withKey(`l${i}`, [insert])).status, 200, 'the next batch')
  }
  const seen = JSON.stringify(await sql`select * from seen`)
  t.notOk((await callers()).includes(LOGIN_ROLE), seen)
  t.same(await sql`select * from evil.idempotency_keys`, [])
  t.equal(await applied(), 8)
})

t.test('after settings are overwritten, the response is correct or the batch fails', async t => {
  const everything = (value: string): string =>
    `do $do$ declare r record; begin
    for r in select name, boot_val from pg_settings where context in ('user',
      'superuser') and name not like 'log%' loop
      begin perform set_config(r.name, ${value}, false); exception when others then null; end;
    end loop; end $do$`
  const guessed = `do $do$ begin perform set_config('oneflight.answer_0', 'x', false);
    perform set_config('oneflight.r0', '[{"forged":1}]', false); end $do$`
  const rows: ReadonlyArray<readonly [name: string, command: string]> = [
    ['reset all', 'reset all'],
    ['every setting to its default', everything('r.boot_val')],
    ['every setting to 1', everything("'1'")],
    ['guessed settings', guessed],
    ['transaction settings', 'set transaction read only']
  ]
  for (const [name, command] of rows) {
    const operations = [insert, leave(command)]
    for (const batch of [operations, operations.toReversed(), [leave(command)]]) {
      const inserts = batch.includes(insert)
      const before = await applied()
      const key = JSON.stringify(`${name}, ${batch.length}, ${batch.indexOf(insert)}`)
      const first = await withKey(key, batch)
      if (first.status === 200) {
        t.match(first.body.data, inserts ? { l: [{ command }], i: [{}] } : { l: [{ command }] })
        expectReplay(t, await withKey(key, batch), first, key)
        t.equal(await applied(), before + (inserts ? 1 : 0), name)
      } else {
        if (name === 'reset all') t.equal(first.body.error.code, 'session_changed')
        t.equal(first.body.error.committed, false, name)
        t.equal(await applied(), before, name)
        t.notOk((await keys()).includes(JSON.parse(key)), name)
      }
      const next = await withKey(`"after ${key.slice(1)}`, [insert])
      t.equal(next.status, 200, `the batch after ${name}: ${next.text}`)
    }
  }
})

t.test('results that RESET ALL removes fail the batch, and nothing else does', async t => {
  const own = { id: 1, note: 'é', owner: 'oneflight_user' }
  const select = { id: 's', op: 'select', table: 'own' }
  const uses = { ...select, where: { id: { eq: '$l.0.id' } } }
  const log = { id: 'l', op: 'insert', table: 'log', values: [{ id: 1, word: 'ü' }] }
  const call = { id: 'l', op: 'call', function: 'reset_all' }
  const lost = failed(400, 'session_changed', { committed: false, message: /RESET ALL/ })
  for (let i = 0; i < 3; i++) {
    for (const batch of [[log], [log, select], [select, log]]) {
      const withKey = { headers: { 'idempotency-key': `reset-${i}-${batch.length}` } }
      t.match(await post(batch, withKey), lost)
      t.match(await post(batch), {
        status: 200, body: { data: { l: log.values, ...batch.length > 1 && { s: [own] } } }
      })
      await sql`delete from log`
    }
    t.match(await post([log, uses]), lost)
    t.match(await post([call, select]), { status: 200, body: { data: { s: [own] } } })
    t.match(await post([call, { ...uses, where: { id: { eq: '$l.0.reset_all' } } }]), lost)
  }
  t.same(await sql`select from log`, [])
  t.same(await keys(), [])
})

t.test('a role cannot find out where responses are kept', async t => {
  const look =
    `insert into seen select name, 'setting' from pg_settings where name like 'oneflight%'
    union all select query, 'query' from pg_stat_activity where pid = pg_backend_pid() union all
      select current_query(), 'query'
    union all select statement, 'statement' from pg_prepared_statements`
  for (let i = 0; i < 4; i++) {
    t.equal((await withKey(`k${i}`, [insert, leave(look)])).status, 200)
  }
  t.not((await sql`select from seen`).length, 0)
  t.same(await sql`select * from seen where what = 'setting' or who ~ 'oneflight[.]answer_'`, [])
})

t.test('a trigger deferred again to COMMIT has the role and schemas of the batch', async t => {
  await sql.unsafe(`
    create table note (n int);
    grant all on note to oneflight_user;
    create function late() returns trigger language plpgsql as $$ begin
      insert into loot (who, how) values (current_user, current_setting('search_path'));
      if new.n > 1 then
        set constraints all deferred;
        insert into note values (new.n - 1);
      end if;
      return null; end $$;
    create constraint trigger late after insert on note deferrable initially deferred
      for each row execute function late();`)
  // The trigger defers the next of three rows again, past the check of the constraints.
  const batch = [insert, { id: 'n', op: 'insert', table: 'note', values: [{ n: 3 }] }]
  const first = await withKey('k', batch)
  t.equal(first.status, 200)
  const seen = Array(3).fill({ who: 'oneflight_user', how: '"public", pg_temp' })
  t.same(await sql`select who, how from loot`, seen)
  expectReplay(t, await withKey('k', batch), first)
  t.same(await sql`select who, how from loot`, seen)
})

// The last test, because its operators stay.
t.test('no statement of the service uses a better matching operator of another role', async t => {
  // PostgreSQL resolves an ambiguous operator to the exact match, wherever it is in the
  // search_path.
  await sql.unsafe(`
    create function public.take(text, integer) returns text language plpgsql as $$ begin
      insert into public.loot (who, how) values (current_user, 'concatenation'); return '1'; end $$;
    create operator public.|| (leftarg = text, rightarg = integer, function = public.take);
    create function public.take(numeric) returns timestamptz language plpgsql as $$ begin
      insert into public.loot (who, how) values (current_user, 'time'); return now(); end $$;
    create function public.to_timestamp(numeric) returns timestamptz language sql as $$
      select public.take($1) $$;
    create function public.take(oid, integer) returns bool language plpgsql as $$ begin
      insert into public.loot (who, how) values (current_user, 'oid'); return true; end $$;
    create operator public.= (leftarg = oid, rightarg = integer, function = public.take);`)
  // New connections and statements of a service that has not met these operators.
  const { post } = await useAnother(t)
  const first = await post([insert], { headers })
  t.match(first, { status: 200, body: { data: { i: [{ word: 'once' }] } } })
  expectReplay(t, await post([insert], { headers }), first)
  t.match(await post([{ id: 'x', op: 'select', table: 't' }], { headers }), { status: 422 })
  t.equal(await applied(), 1)
  t.same(await sql`select who, how from loot`, [])
})
