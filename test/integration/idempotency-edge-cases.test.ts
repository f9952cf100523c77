/**
 * Tests edge cases of idempotency keys: keys that could be applied twice, be held forever, or give
 * a caller the rights of the login role. Each case was observed or is possible.
 */
import postgres from 'postgres'
import t from 'tap'
import { claimStatement, type Key } from '../../src/sql/frame/idempotency.ts'
import { useDatabase } from '../support/database/database.ts'
import { useProxy } from '../support/network/proxy.ts'
import {
  makeKeyTable,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table t (id int generated always as identity primary key, word text);
  create table loot (id int generated always as identity, who text, how text);
  grant all on t, loot to oneflight_user, public;
  grant create on schema public to public;`
const insert = [{ id: 'i', op: 'insert', table: 't', values: [{ word: 'once' }] }]
const headers = { 'idempotency-key': 'a' }

t.test('no statement of the service uses a better matching operator of another role', async t => {
  const { database: { sql }, post } = await useService(t, { schema, keys: true })
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
  const responses = [
    await post(insert, { headers }),
    await post(insert, { headers }),
    await post([{ id: 'x', op: 'select', table: 't' }], { headers })
  ]
  t.same(responses.map(({ status }) => status), [200, 200, 422])
  t.same(
    responses.map(({ headers }) => headers.get('idempotent-replayed')),
    [null, 'true', null]
  )
  t.equal((await sql`select from t`).length, 1)
  t.same(await sql`select who, how from loot`, [])
})

t.test('a batch whose outcome lookup outlasts its key is applied once', async t => {
  const proxied = await useDatabase(t, { schema })
  const proxy = await useProxy(t, proxied.loginUrl)
  const { database: { sql }, post } = await useService(t, {
    schema,
    keys: true,
    env: { IDEMPOTENCY_TTL: '1s' },
    databaseUrl: proxy.through
  })
  t.equal((await post([{ id: 's', op: 'select', table: 't' }])).status, 200)
  proxy.deliver = ({ held }) => held.includes('COMMIT\0') ? 0 : held.length
  const response = post(insert, { headers })
  await until(async () => (await sql`select from t`).length === 1)
  proxy.open = false
  proxy.cut()
  proxy.deliver = ({ held }) => held.length
  await until(async () =>
    (await sql`select from oneflight.idempotency_keys where expires_at < clock_timestamp()`)
      .length === 1
  )
  proxy.open = true
  t.equal((await response).status, 200)
  t.equal((await sql`select from t`).length, 1)
})

t.test('a lost batch with an expired key does not replay the old response', async t => {
  const proxied = await useDatabase(t, { schema })
  const proxy = await useProxy(t, proxied.loginUrl)
  const { database: { sql }, post } = await useService(t, {
    schema,
    keys: true,
    env: { IDEMPOTENCY_TTL: '1s' },
    databaseUrl: proxy.through
  })
  t.equal(
    (await post(insert, { headers })).text,
    '{"error":null,"data":{"i":[{"id":1,"word":"once"}]}}'
  )
  await until(async () =>
    (await sql`select from oneflight.idempotency_keys where expires_at < clock_timestamp()`)
      .length === 1
  )
  const held = await sql.reserve()
  await held.unsafe('begin; lock table t in exclusive mode')
  const response = post(insert, { headers })
  await until(async () =>
    (await sql`select from pg_locks where relation = 't'::regclass and not granted`).length === 1
  )
  proxy.cut()
  await held.unsafe('rollback')
  held.release()
  t.match((await response).text, /"id":[23],/, 'the batch was rolled back and retried')
  t.equal((await sql`select from t`).length, 2)
})

t.test('a lost batch does not get the response of a request with other claims', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const { sql } = database
  const proxy = await useProxy(t, database.loginUrl)
  const proxied = await useService(t, { databaseUrl: () => proxy.through(database.loginUrl) })
  const direct = await useService(t, { databaseUrl: () => database.loginUrl })
  const sendTo = ({ post }: ServiceUnderTest, tenant: string): Promise<Answer> => {
    const bearer = `Bearer ${token({ role: 'oneflight_user', sub: 'a', tenant })}`
    return post(insert, { role: null, headers: { ...headers, authorization: bearer } })
  }
  const held = await sql.reserve()
  await held.unsafe('begin; lock table t in exclusive mode')
  const lost = sendTo(proxied, 'bakery')
  const waiting = (): Promise<readonly unknown[]> =>
    sql`select pid from pg_locks where relation = 't'::regclass and not granted`
  await until(async () => (await waiting()).length === 1)
  // The service cannot look its batch up until the other request is committed.
  proxy.open = false
  proxy.cut()
  await sql`select pg_terminate_backend(pid) from pg_locks
    where relation = 't'::regclass and not granted`
  await until(async () => (await waiting()).length === 0)
  await held.unsafe('rollback')
  held.release()
  t.equal((await sendTo(direct, 'corner-shop')).status, 200)
  proxy.open = true
  t.match(await lost, {
    status: 422,
    body: { error: { code: 'idempotency_key_reused', committed: false } }
  })
  t.equal((await sql`select from t`).length, 1)
})

t.test('an attempt of which only the claim arrives does not hold its key forever', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const half = postgres(database.loginUrl, { max: 1, onnotice () {}, fetch_types: false })
  t.teardown(() => half.end({ timeout: 0 }))
  const key: Key = {
    principal: 'aa',
    claims: 'cc',
    text: 'a',
    fingerprint: 'bb',
    lock: 7n,
    ttlSeconds: 60,
    idleTimeoutMs: 3000
  }
  const { text, parameters } = claimStatement(key)
  const locks = async (): Promise<number> =>
    (await database
      .sql`select from pg_locks where locktype = 'advisory' and database = (select oid
        from pg_database where datname = ${database.name})`)
      .length
  t.equal(await locks(), 0)
  // Not with `sql.begin`, which would send a ROLLBACK on a closed connection.
  await half.unsafe('begin')
  await half.unsafe(text, [...parameters])
  t.equal(await locks(), 1)
  // The rest of the attempt never arrives.
  await until(async () => await locks() === 0)
  t.equal((await database.sql`select from oneflight.idempotency_keys`).length, 0)
})

t.test('a trigger deferred again to COMMIT has the role and schemas of the batch', async t => {
  const { database: { sql }, post } = await useService(t, { schema, keys: true })
  await sql.unsafe(`
    create table note (n int);
    grant all on note to oneflight_user;
    create function again() returns trigger language plpgsql as $$ begin
      set constraints all deferred; insert into note values (1); return null; end $$;
    create constraint trigger again after insert on t deferrable initially deferred
      for each row execute function again();
    create function late() returns trigger language plpgsql as $$ begin insert into loot (who, how)
      values (current_user, current_setting('search_path')); return null; end $$;
    create constraint trigger late after insert on note deferrable initially deferred
      for each row execute function late();`)
  t.equal((await post(insert, { headers })).status, 200)
  t.same(await sql`select who, how from loot`, [{
    who: 'oneflight_user',
    how: '"public", pg_temp'
  }])
})
