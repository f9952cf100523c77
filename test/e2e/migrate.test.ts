/**
 * Tests `npm run migrate` as a child process: what it creates, that it grants only the necessary
 * privileges, that it can be repeated, and its errors.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import t from 'tap'
import {
  LOGIN_ROLE,
  TEST_ROLES,
  useDatabase,
  withAdmin,
  type Database
} from '../support/database/database.ts'
import { runEntry, type Ended } from '../support/process/cli.ts'
import { quoteName } from '../support/operations.ts'

const script = join(import.meta.dirname, '../../src/migrate.ts')

/** Runs the migration with only `env` and the variables that Node needs. */
const migrate = (env: Readonly<Record<string, string | undefined>>): Promise<Ended> =>
  runEntry(script, [], { env })

/** The variables of a migration by the owner, for a login role without privileges. */
const envOf = ({ url, loginUrl }: Database) =>
  ({ MIGRATE_DATABASE_URL: url, DATABASE_URL: loginUrl })
const succeeded = (login: string): Ended => ({
  code: 0,
  out: `oneflight: schema oneflight is ready for role ${login}\n`,
  err: ''
})
const exists = async ({ sql }: Database): Promise<boolean> =>
  (await sql`select from pg_namespace where nspname = 'oneflight'`).length === 1

async function privilegesOf ({ sql }: Database, role: string): Promise<readonly string[]> {
  const rows = await sql`
    select 'schema ' || p as may from unnest('{usage,create}'::text[]) as p
      where has_schema_privilege(${role}, 'oneflight', p)
    union all select 'table ' || p from
      unnest('{select,insert,update,delete,truncate,references,trigger}'::text[]) as p
      where has_table_privilege(${role}, 'oneflight.idempotency_keys', p)
    union all select 'database ' || p from unnest('{create}'::text[]) as p
      where has_database_privilege(${role}, current_database(), p)
    union all select 'owner of ' || relname from pg_class where relnamespace =
      'oneflight'::regnamespace and relowner = (select oid from pg_roles where rolname = ${role})
    union all select 'option ' || privilege_type from information_schema.role_table_grants
      where grantee = ${role} and table_schema = 'oneflight' and is_grantable = 'YES'`
  return rows.map(({ may }) => may as string).sort()
}

const needed = [
  'schema usage',
  'table delete',
  'table insert',
  'table select',
  'table update'
]

/** Returns all objects of the schema with their owners and privileges. */
const snapshot = async ({ sql }: Database): Promise<unknown> =>
  await sql`
  select relname as name, relkind as kind, relowner::regrole::text as owner, relacl::text as acl,
    (select string_agg(attname || ' ' || format_type(atttypid,
      atttypmod) || case when attnotnull then ' not null' else '' end, ', ' order by attnum)
      from pg_attribute where attrelid = c.oid and attnum > 0) as columns
  from pg_class as c where relnamespace = 'oneflight'::regnamespace
  union all select nspname, 'n', nspowner::regrole::text, nspacl::text, null from pg_namespace
    where nspname = 'oneflight'
  union all select proname, 'f', proowner::regrole::text, proacl::text, null from pg_proc
    where pronamespace = 'oneflight'::regnamespace order by 2, 1`

t.test('an owner migrates an empty database for a login role without privileges', async t => {
  const database = await useDatabase(t)
  const env = envOf(database)
  t.same(await migrate(env), succeeded(LOGIN_ROLE))
  t.same(await privilegesOf(database, LOGIN_ROLE), needed)
  for (const role of [...TEST_ROLES, 'public']) {
    const of = role === 'public' ? [] : await privilegesOf(database, role)
    t.same(of, [], `${role} has no privilege`)
  }
  const [row] = await database
    .sql`select coalesce(bool_or(acl::text ~ '[{,]='), false) as public from (select nspacl as acl
      from pg_namespace where nspname = 'oneflight' union all select relacl from pg_class
      where relnamespace = 'oneflight'::regnamespace
      union all select coalesce(proacl, acldefault('f', proowner)) from pg_proc
      where pronamespace = 'oneflight'::regnamespace) as a`
  t.same(row, { public: false })
  const objects = await snapshot(database) as Array<{ name: string, columns: string }>
  t.equal(
    objects.find(({ name }) => name === 'idempotency_keys')?.columns,
    'principal bytea not null, key text not null, fingerprint bytea not null, answer ' +
    'text[], created_at timestamp with time zone not null, expires_at timestamp with ' +
    'time zone not null, claims bytea, claim_hashes text'
  )
  const indexes = await database.sql`select pg_get_indexdef(indexrelid) as def from pg_index
      where indrelid = 'oneflight.idempotency_keys'::regclass order by 1`
  t.match(indexes.map(({ def }) => def as string), [
    /^CREATE INDEX .* \(expires_at\)$/,
    /^CREATE UNIQUE INDEX .* \(principal, key\)$/
  ])
})

t.test('repeated and concurrent migrations change and lose nothing', async t => {
  const database = await useDatabase(t)
  const env = envOf(database)
  t.same(
    await Promise.all(Array.from({ length: 4 }, () => migrate(env))),
    Array(4).fill(succeeded(LOGIN_ROLE))
  )
  await database
    .sql`insert into oneflight.idempotency_keys values ('a', 'k', 'f', '{1}', '2026-01-01',
      'infinity')`
  const before = await snapshot(database)
  for (let i = 0; i < 2; i++) t.same(await migrate(env), succeeded(LOGIN_ROLE))
  t.same(await snapshot(database), before)
  t.same(
    await database.sql`select key, answer, created_at::text as at from oneflight.idempotency_keys`,
    [{ key: 'k', answer: ['1'], at: '2026-01-01 00:00:00+00' }]
  )

  // Revoked privileges are granted again, and privileges of public are revoked.
  await database.sql.unsafe(
    `revoke all on oneflight.idempotency_keys from ${LOGIN_ROLE}; revoke all on schema ` +
      `oneflight from ${LOGIN_ROLE}; grant all on schema oneflight to public; grant all on ` +
      'oneflight.idempotency_keys to public'
  )
  t.same(await migrate(env), succeeded(LOGIN_ROLE))
  t.same(await snapshot(database), before)
  t.same(await privilegesOf(database, LOGIN_ROLE), needed)
})

/** The table of versions that did not store claims. */
const earlierTable = `
  create schema oneflight;
  create table oneflight.idempotency_keys (
    principal bytea not null, key text not null, fingerprint bytea not null, answer text[],
    created_at timestamptz not null default now(), expires_at timestamptz not null,
    primary key (principal, key)
  );
  create index idempotency_keys_expires_at on oneflight.idempotency_keys (expires_at);
  revoke all on schema oneflight from public;
  revoke all on oneflight.idempotency_keys from public;
  grant usage on schema oneflight to ${LOGIN_ROLE};
  grant select, insert, update, delete on oneflight.idempotency_keys to ${LOGIN_ROLE};`

t.test('the table of an earlier version keeps its rows and becomes that of this one', async t => {
  const [earlier, fresh] = [await useDatabase(t, { schema: earlierTable }), await useDatabase(t)]
  // A statement that a service of the earlier version has prepared, with the names of its columns.
  const service = postgres(earlier.loginUrl, { max: 1 })
  t.teardown(() => service.end({ timeout: 1 }))
  const store = (key: string): Promise<unknown> =>
    service`insert into oneflight.idempotency_keys as k (principal, key, fingerprint, expires_at)
      values ('p', ${key}, 'f', 'infinity') on conflict (principal, key) do update
      set fingerprint = excluded.fingerprint, answer = null, expires_at = excluded.expires_at
        where k.expires_at <= now() returning 1`
  await store('before')
  for (const database of [earlier, fresh]) {
    t.same(await migrate(envOf(database)), succeeded(LOGIN_ROLE))
  }
  await store('after')
  t.same(
    await earlier.sql`select key, claims from oneflight.idempotency_keys order by key desc`,
    [{ key: 'before', claims: null }, { key: 'after', claims: null }]
  )
  t.same(await snapshot(earlier), await snapshot(fresh))
})

t.test('a repeated migration does not wait for a backup', async t => {
  const database = await useDatabase(t)
  const env = envOf(database)
  t.same(await migrate(env), succeeded(LOGIN_ROLE))
  await database.sql.unsafe(`alter database ${database.name} set lock_timeout = '5s'`)
  await database.sql.begin(async sql => {
    await sql`lock table oneflight.idempotency_keys in access share mode`
    t.same(await migrate(env), succeeded(LOGIN_ROLE))
  })
})

t.test('a login role that may create schemas can migrate', async t => {
  const database = await useDatabase(t)
  await database.sql.unsafe(`grant create on database ${database.name} to ${LOGIN_ROLE}`)
  const environment = { DATABASE_URL: database.loginUrl }
  t.same(await migrate({ ...environment, MIGRATE_DATABASE_URL: '' }), succeeded(LOGIN_ROLE))
  const privileges = await privilegesOf(database, LOGIN_ROLE)
  t.same(privileges.filter(privilege => needed.includes(privilege)), needed)
})

t.test('role names are quoted', async t => {
  const database = await useDatabase(t)
  for (const name of ['Corner "Shop" $& Röle', "o'; drop schema oneflight cascade; --"]) {
    const quoted = quoteName(name)
    await withAdmin(sql => sql.unsafe(`create role ${quoted} login`))
    t.teardown(() => withAdmin(sql => sql.unsafe(`drop role ${quoted}`)))
    t.teardown(() => database.sql.unsafe(`drop owned by ${quoted}`))
    const login = new URL(database.loginUrl)
    login.username = encodeURIComponent(name)
    t.same(
      await migrate({ MIGRATE_DATABASE_URL: database.url, DATABASE_URL: login.href }),
      succeeded(name)
    )
    t.same(await privilegesOf(database, name), needed)
  }
})

t.test('a failed migration prints one line without secrets and creates nothing', async t => {
  const database = await useDatabase(t)
  const { url, loginUrl, name } = database
  const change = (from: string, parts: Readonly<Record<string, string>>): string =>
    Object.assign(new URL(from), { password: 'hunter2', ...parts }).href
  const nobody = change(loginUrl, { username: 'oneflight_nobody' })
  const rows = [
    ['no URL', {}, /^oneflight: DATABASE_URL: required$/],
    ['no login', { MIGRATE_DATABASE_URL: url }, /^oneflight: DATABASE_URL: required$/],
    ...([
      ['postgres://u:hunter2@127.0.0.1:port/d', /^oneflight: MIGRATE_DATABASE_URL: /],
      [change(url, { host: '127.0.0.1:1' }), /^oneflight: .*127\.0\.0\.1:1/]
    ] as const).map(([MIGRATE_DATABASE_URL, line]) => [
      `the owner's URL ${MIGRATE_DATABASE_URL}`,
      { DATABASE_URL: loginUrl, MIGRATE_DATABASE_URL },
      line
    ] as const),
    ['an unknown user', { DATABASE_URL: nobody }, /^oneflight: .*oneflight_nobody/],
    [
      'an unknown login role', { DATABASE_URL: nobody, MIGRATE_DATABASE_URL: url },
      /^oneflight: .*role "oneflight_nobody" does not exist$/
    ],
    [
      'a login role without privileges', { DATABASE_URL: loginUrl },
      new RegExp(`^oneflight: permission denied for database ${name}. Set MIGRATE_DATABASE_URL to `)
    ]
  ] as const
  for (const [what, env, line] of rows) {
    const { code, out, err } = await migrate(env)
    t.same([code, out], [1, ''], what)
    t.match(err.replace(/\n$/, ''), line, what)
    t.equal(err.split('\n').length, 2, `${what}: one line: ${err}`)
    t.notMatch(err, /hunter2|login@|:login/, what)
    t.notOk(await exists(database), what)
  }
})

t.test('functions in public with better matching types are not called', async t => {
  const database = await useDatabase(t)
  // Everyone may create functions in public by default before PostgreSQL 15. PostgreSQL would
  // prefer one with a better matching signature to that of pg_catalog.
  const fake = (name: string, types: string): string =>
    `create function public.${name}(${types}) returns int8 language plpgsql as $$ begin ` +
    `insert into ran values ('${name}'); return 1; end $$;`
  await database.sql.unsafe(`create table public.ran (what text); ${
    [
      ['hashtextextended', 'text, int'],
      ['hashtextextended', 'varchar, int'],
      ['pg_advisory_xact_lock', 'int'],
      ['now', 'int default 0']
    ].map(([name = '', types = '']) => fake(name, types)).join('\n')
  }`)
  t.same(await migrate(envOf(database)), succeeded(LOGIN_ROLE))
  t.same(await database.sql`select * from ran`, [])
  t.same(await privilegesOf(database, LOGIN_ROLE), needed)
})

t.test('deploy/migrate.sql runs in psql with only one variable', t => {
  const file = readFileSync(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8')
  const statements = file.split('\n').filter(line => !line.startsWith('--')).join('\n')
  t.same(new Set(statements.match(/(?<![:\w]):["'A-Za-z]\w*"?/g)), new Set([':"login_role"']))
  t.notMatch(statements, /^\s*\\/m, 'no psql commands')
  t.end()
})
