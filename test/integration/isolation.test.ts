/**
 * Sends hundreds of requests of eight roles over three connections, to a database before and after
 * the migration. Most of them leave behind whatever a trigger can. Every batch sees exactly its own
 * role, claims, request id, settings and rows, and every acknowledged batch is stored exactly once.
 */
import { randomInt } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { FIXED_SETTINGS } from '../../src/postgres/facts.ts'
import { seeded } from '../experiments/scenario.ts'
import * as op from '../support/operations.ts'
import { ensureRoles, LOGIN_ROLE } from '../support/database/database.ts'
import { trapSchema } from '../support/database/triggers.ts'
import { thorough } from '../support/runs.ts'
import { token, useService, type Answer } from '../support/service.ts'

const roles = Array.from({ length: 8 }, (_, i) => `oneflight_iso_${i + 1}`)
const subjects = Array.from({ length: 20 }, (_, i) => `sübject "${i}"`)
const REQUESTS = thorough ? 2000 : 250
const CLIENTS = 24

/**
 * `look` shows the identity and the settings of a batch. `notes` and `letters` show only the rows
 * of their owners. `trap` runs the commands it is given.
 */
const schema = `
  create schema auth;
  create function auth.claims() returns jsonb language sql stable as $$
    select current_setting('request.jwt.claims', true)::jsonb $$;
  create function auth.uid() returns text language sql stable as $$
    select auth.claims() ->> 'sub' $$;
  create table notes (owner name default current_user, n int);
  create table letters (sub text, n int);
  create table journal (owner name default current_user, sub text default auth.uid(),
    nonce text default auth.claims() ->> 'nonce', request text default
    current_setting('request.id'), kind text, doomed int unique deferrable initially deferred);
  insert into notes select role, n from unnest('{${roles.join()}}'::name[]) as role,
    generate_series(1, 3) as n;
  insert into letters select 'sübject "' || i || '"', n from generate_series(0, 19) as i,
    generate_series(1, 2) as n;
  insert into journal values ('nobody', null, null, null, 'seed', 1);
  alter table notes enable row level security;
  alter table letters enable row level security;
  create policy own on notes using (owner = current_user);
  create policy own on letters using (sub = auth.uid());
  ${trapSchema}

  create schema fake;
  create table fake.notes (owner name default 'fake', n int);
  create view fake.look as select 'fake' as role;
  create function fake.set_config(text, text, boolean) returns text language sql as $$
    select 'fake'::text $$;
  create function fake.current_setting(text, boolean) returns text language sql as $$
    select 'fake'::text $$;
  create function fake.pg_backend_pid() returns int language sql as $$ select 0 $$;
  create function fake.pg_advisory_unlock_all() returns void language sql as $$ select $$;
  create function fake.never(anyelement, anyelement) returns boolean language sql as $$
    select false $$;
  create operator fake.= (leftarg = anyelement, rightarg = anyelement, function = fake.never);

  create function setting(name text) returns text language sql stable as $$
    select coalesce(pg_catalog.current_setting(name, true), '') $$;
  create view look as select current_user::text as role, session_user::text as login,
    setting('role') as setting, setting('request.jwt.claims') as claims,
    setting('request.id') as id, setting('app.left') as app,
    (select json_object_agg(name, setting) from pg_settings
      where source in ('session', 'client') or name in
      (${FIXED_SETTINGS.map(([name]) => `'${name}'`).join()})) as settings,
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
    (select count(*) from pg_class where relnamespace = pg_my_temp_schema()) as tables,
    (select count(*) from pg_listening_channels()) as channels,
    (select count(*) from pg_cursors where is_holdable) as cursors;
  create view failing as select 1 / (n - n) as x from generate_series(1, 1) as n;
  create sequence s;
  grant usage on schema auth, fake to public;
  grant all on all tables in schema public, fake to public;
  grant all on s to public;`

/** All settings that are not those of the server. Any other one was left behind. */
const settings = {
  application_name: 'oneflight',
  DateStyle: 'ISO, YMD',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  client_connection_check_interval: '1000',
  tcp_user_timeout: '5000',
  tcp_keepalives_idle: '2',
  tcp_keepalives_interval: '1',
  client_encoding: 'UTF8',
  extra_float_digits: '1',
  array_nulls: 'on',
  lock_timeout: '5000',
  row_security: 'on',
  search_path: '"public", pg_temp',
  statement_timeout: '15000',
  transaction_deferrable: 'off',
  transaction_isolation: 'read committed',
  transaction_read_only: 'off'
}

const left = (name: string, value: string): string =>
  `select pg_catalog.set_config('${name}', '${value}', false)`

/** What triggers do. The next batch on the connection notices every effect that stays. */
const tricks: readonly string[] = [
  ...Object.entries({
    search_path: 'fake, pg_catalog, public',
    statement_timeout: '1',
    lock_timeout: '1',
    tcp_user_timeout: '10000',
    row_security: 'off',
    DateStyle: 'German, DMY',
    IntervalStyle: 'iso_8601',
    TimeZone: 'Asia/Tokyo',
    client_encoding: 'LATIN1',
    bytea_output: 'escape',
    extra_float_digits: '-10',
    default_transaction_read_only: 'on',
    default_transaction_isolation: 'serializable',
    default_transaction_deferrable: 'on',
    role: 'none',
    session_authorization: LOGIN_ROLE,
    'request.jwt.claims': '{"role":"left","sub":"left","nonce":"left"}',
    'request.id': 'left',
    'app.left': 'left',
    standard_conforming_strings: 'off',
    synchronous_commit: 'off',
    plan_cache_mode: 'force_generic_plan',
    array_nulls: 'off',
    client_min_messages: 'debug1',
    application_name: 'left'
  }).map(([name, value]) => left(name, value)),
  ...roles.slice(0, 4).map(role => left('role', role)),
  'set local role none', 'reset role', 'reset all',
  'set session characteristics as transaction isolation level serializable, read only, deferrable',
  'create temp table notes as select current_user::name as owner, 99 as n',
  'create temp view look as select 1 as role',
  'create function pg_temp.set_config(text, text, boolean) returns text language sql as ' +
  "'select ''fake''::text'",
  'listen gossip',
  'select pg_advisory_lock(pg_backend_pid())', 'select pg_advisory_lock_shared(8)',
  'declare left_behind cursor with hold for select 1',
  "select nextval('s')"
]

/** How a batch ends. `refused` batches come with a role that no token may use. */
type Kind = 'committed' | 'dry' | 'failing' | 'failing at commit' | 'refused'

interface Request {
  readonly nonce: string
  readonly kind: Kind
  readonly role: string
  readonly sub: string
  readonly tricks: readonly string[]
  readonly bearer: string
}

function makeRequests (seed: number): readonly Request[] {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const kinds: readonly Kind[] = [
    ...Array<Kind>(6).fill('committed'), 'dry', 'failing', 'failing at commit', 'refused'
  ]
  return Array.from({ length: REQUESTS }, (_, i) => {
    const [nonce, kind, role, sub] = [
      `${i}-${Math.floor(random() * 1e9).toString(36)}`,
      pick(kinds),
      pick(roles),
      pick(subjects)
    ] as const
    const done = new Set(Array.from({ length: Math.floor(random() * 4) }, () => pick(tricks)))
    return {
      nonce,
      kind,
      role,
      sub,
      tricks: [...done],
      bearer: token({ role: kind === 'refused' ? 'postgres' : role, sub, nonce })
    }
  })
}

function batchOf ({ kind, tricks }: Request): readonly object[] {
  return [
    op.select('look', 'look'),
    op.select('notes', 'notes', { order: [{ n: 'asc' }] }),
    op.select('letters', 'letters', { order: [{ n: 'asc' }] }),
    op.insert('journal', 'journal', [
      kind === 'failing at commit' ? { kind, doomed: 1 } : { kind }
    ]),
    ...(tricks.length === 0
      ? []
      : [op.insert('trap', 'trap', [{ commands: tricks }], { returning: [] })]),
    ...(kind === 'failing' ? [op.select('failing', 'failing')] : [])
  ]
}

/** The exact data of a batch that succeeds, including all settings. */
function expectedData ({ nonce, role, sub, bearer, kind, tricks }: Request): object {
  const claims = Buffer.from(bearer.split('.')[1] as string, 'base64url').toString()
  return {
    look: [{
      role,
      login: LOGIN_ROLE,
      setting: role,
      claims,
      id: nonce,
      app: '',
      settings,
      locks: 0,
      tables: 0,
      channels: 0,
      cursors: 0
    }],
    notes: [1, 2, 3].map(n => ({ owner: role, n })),
    letters: [1, 2].map(n => ({ sub, n })),
    journal: [{ owner: role, sub, nonce, request: nonce, kind, doomed: null }],
    ...(tricks.length === 0 ? {} : { trap: [] })
  }
}

/** The error codes that a request may get. `undefined` is success. */
function codesOf ({ kind, tricks }: Request): ReadonlyArray<string | undefined> {
  // A batch may exceed the timeout that its own trigger sets.
  const late = tricks.some(trick => trick.includes('statement_timeout')) ? ['query_canceled'] : []
  // The operation that follows checks the encoding in which the rows before it were sent.
  const encoded = tricks.some(trick => trick.includes('client_encoding')) ? ['session_changed'] : []
  switch (kind) {
    case 'refused':
      return ['role_denied']
    case 'failing':
      return ['division_by_zero', ...late, ...encoded]
    case 'failing at commit':
      return ['unique_violation', ...late]
    default:
      return [undefined, ...late]
  }
}

for (const keys of [false, true]) {
  const name = `no batch sees the session of another, ${keys ? 'after' : 'before'} the migration`
  t.test(name, { timeout: 120_000 }, t => testIsolation(t, keys))
}

async function testIsolation (t: Test, keys: boolean): Promise<void> {
  await ensureRoles(roles)
  const seed = Number(process.env['SEED']) || randomInt(2 ** 31)
  t.comment(`SEED=${seed}`)
  const service = await useService(t, {
    schema,
    keys,
    env: { POOL_SIZE: '3', QUEUE_SIZE: '1000', QUEUE_TIMEOUT_MS: '60000', LOG_LEVEL: 'error' }
  })
  const requests = makeRequests(seed)
  const responses = new Map<Request, Answer>()
  const deviations: unknown[] = []

  const send = async (request: Request): Promise<void> => {
    const headers = {
      authorization: `Bearer ${request.bearer}`,
      'x-request-id': request.nonce,
      connection: 'keep-alive',
      ...(request.kind === 'dry' ? { prefer: 'tx=rollback' } : {})
    }
    const response = await service.post(batchOf(request), { headers })
    responses.set(request, response)
    const { status, body, text } = response
    const fits = codesOf(request).includes(body.error?.code) &&
      response.headers.get('x-request-id') === request.nonce &&
      (status !== 200 || isDeepStrictEqual(body.data, expectedData(request)))
    if (!fits) {
      deviations.push({ ...request, text, expected: JSON.stringify(expectedData(request)) })
    }
  }
  const rest = requests.values()
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    for (const request of rest) await send(request)
  }))

  t.equal(responses.size, REQUESTS, 'every request got a response')
  t.same(deviations.slice(0, 3), [], `${deviations.length} deviations`)
  const committed = requests.filter(request =>
    request.kind === 'committed' && responses.get(request)?.status === 200
  )
  const written = await service.database
    .sql`select owner, sub, nonce, request, kind from journal where kind <> 'seed'`
  const line = ({ owner, sub, nonce, request, kind }: Record<string, unknown>): string =>
    JSON.stringify([owner, sub, nonce, request, kind])
  t.same(
    written.map(line).sort(),
    committed.map(({ role, sub, nonce, kind }) =>
      line({ owner: role, sub, nonce, request: nonce, kind })).sort(),
    'every acknowledged batch is stored once, and nothing else'
  )
  t.ok(committed.length > REQUESTS / 2)
}

t.test('a change that the catalogue did not announce does not reach the next batch', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema: `
      create function lies(name text, value text) returns text language plpgsql stable as $$
        begin return set_config(name, value, false); end $$;
      create table late (command text);
      create function late() returns trigger language plpgsql as $$
        begin execute new.command; return new; end $$;
      create view state as select pg_backend_pid() as pid,
        (select json_object_agg(name, setting) from pg_settings
          where name !~ '^plpgsql') as settings;`,
    env: { POOL_SIZE: '1' }
  })
  const insert = (command: string): object =>
    op.insert('i', 'late', [{ command }], { returning: [] })
  const state = async (): Promise<unknown> => (await post([op.select('s', 'state')])).body.data.s
  const before = await state()
  t.equal((await post([insert('')])).status, 200)
  await sql`create trigger late after insert on late for each row execute function late()`
  const [{ version } = { version: 0 }] = await sql<Array<{ version: number }>>`
    select current_setting('server_version_num')::int as version`
  const changes = Object.entries({
    TimeZone: 'Asia/Tokyo',
    DateStyle: 'German, DMY',
    IntervalStyle: 'iso_8601',
    client_encoding: 'LATIN1',
    application_name: 'left',
    default_transaction_read_only: 'on',
    standard_conforming_strings: 'off',
    session_authorization: LOGIN_ROLE,
    // Servers report it since PostgreSQL 18.
    ...version >= 180_000 && { search_path: 'fake' }
  })
  for (const [name, value] of changes) {
    for (const batch of [[op.call('c', 'lies', { name, value })], [insert(left(name, value))]]) {
      const { status, text } = await post(batch)
      t.ok(status === 200 || status === 400, `${name} ${text}`)
      t.same(await state(), before, `${name}: the connection was reset, and not replaced`)
    }
  }
})
