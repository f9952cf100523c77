/**
 * Settings of `ALTER ROLE … SET` apply to the batches of that role and to no others. PostgreSQL
 * applies them only at login, but a batch only switches to its role, so the service applies them.
 * It leaves out settings that the login role may not change, and those that it relies on itself.
 */
import postgres from 'postgres'
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { closeConnection } from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import { readRoleSettings } from '../../src/postgres/role-settings.ts'
import * as op from '../support/operations.ts'
import { ensureRoles, LOGIN_ROLE, withAdmin } from '../support/database/database.ts'
import { useProxy } from '../support/network/proxy.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

// Roles belong to the whole cluster, which other test files use at the same time.
const prefix = `oneflight_set_${process.pid}`
const plain = 'oneflight_user'

/**
 * View `look` shows the settings of a batch. Privileges are granted to public, so that the roles of
 * this file can be dropped.
 */
const schema = `
  create function setting(name text) returns text language sql stable as $$
    select current_setting(name, true) $$;
  create view look as select name, setting(name) as value from
    unnest('{role,search_path,statement_timeout,lock_timeout,row_security,datestyle,
    intervalstyle,timezone,client_encoding,bytea_output,extra_float_digits,array_nulls,
    default_transaction_read_only,default_transaction_isolation,default_transaction_deferrable,
    transaction_read_only,
    transaction_isolation,transaction_deferrable,client_connection_check_interval,work_mem,
    enable_seqscan,default_text_search_config,log_min_duration_statement,session_replication_role,
    app.tenant,app.other.Name,request.jwt.claims,request.id,request.method,oneflight.rows}'::text[])
      as name;
  create view me as select current_user::text as role, session_user::text as login;
  create schema other;
  create table t (n int);
  create view nap as select pg_sleep(30)::text as slept;
  create function interpret() returns int language plpgsql as $$ begin return 1; end $$;
  create view interpreted as select interpret() as n;
  grant all on all tables in schema public to public;`

const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
const { useAnother, database: { sql, name, loginUrl } } = service

type Settings = Readonly<Record<string, string>>

/**
 * The settings that a batch of the role sees. An unset custom setting reads as null or, if it was
 * set on the connection before, as ''.
 */
async function look (role: string, { post } = service): Promise<Settings> {
  const { status, body, text } = await post([op.select('l', 'look')], { role })
  t.equal(status, 200, text)
  const settings: ReadonlyArray<{ name: string, value: string | null }> = body.data?.l ?? []
  return Object.fromEntries(settings.map(({ name, value }) => [name, value ?? '']))
}

/** Creates roles, which are dropped at the end of the test. */
async function makeRoles (t: Test, names: readonly string[], attributes?: string): Promise<void> {
  await ensureRoles(names, attributes)
  t.teardown(() =>
    withAdmin(async admin => {
      for (const name of names) await admin.unsafe(`drop owned by ${name}; drop role ${name}`)
    })
  )
}

/**
 * Runs SQL as superuser, with `here` replaced by the database, and closes the connections of the
 * services. Later batches use new ones.
 */
async function alter (texts: readonly string[], { post } = service): Promise<void> {
  // After this batch, the connection that the service opens at its start is open, and no other is
  // being opened.
  await post([op.select('l', 'me')])
  for (const text of texts) await sql.unsafe(text.replaceAll(' here ', ` ${name} `))
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
    and pid <> pg_backend_pid() and application_name = 'oneflight'`
  await until(async () =>
    (await sql`select from pg_stat_activity where datname = ${name}
      and application_name = 'oneflight'`).length === 0
  )
}

const odd = ['it\'s "quoted"', 'a, b,c', 'a=b=c', 'ünï→日本 🦆', ' spaces ', 'line\n\\end', '{x}', '']
const quoted = (text: string): string => `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`

/** Clauses of ALTER ROLE, and the differences from a role without settings. */
const rows: ReadonlyArray<readonly [clauses: readonly string[], differs: Settings]> = [
  [["set statement_timeout = '7s'", "set lock_timeout = '300ms'"],
    { statement_timeout: '7s', lock_timeout: '300ms' }],
  [["set app.tenant = 'acme'", "set app.other.Name = 'x'"],
    { 'app.tenant': 'acme', 'app.other.Name': 'x' }],
  ...odd.map(text => [[`set app.tenant = E${quoted(text)}`], { 'app.tenant': text }] as const),
  // Settings for one database override settings for all.
  [
    ["set app.tenant = 'everywhere'", "in database here set app.tenant = 'here'",
      "set work_mem = '64kB'", "in database here set lock_timeout = '1s'"],
    { 'app.tenant': 'here', work_mem: '64kB', lock_timeout: '1s' }
  ],
  [["in database here set app.tenant = ''", "set app.tenant = 'everywhere'"], { 'app.tenant': '' }],
  [["in database postgres set app.tenant = 'elsewhere'"], {}],
  [["set app.tenant = 'x'", 'reset app.tenant'], {}],
  // Settings that the service relies on.
  [
    ["set TimeZone = 'Asia/Tokyo'", "set DateStyle = 'German'", "set IntervalStyle = 'iso_8601'",
      "set bytea_output = 'escape'", 'set extra_float_digits = -3',
      "set client_encoding = 'LATIN1'", 'set row_security = off', 'set search_path = other',
      'set client_connection_check_interval = 0', 'set array_nulls = off'],
    {}
  ],
  [['set default_transaction_read_only = on', "set default_transaction_isolation = 'serializable'",
    'set default_transaction_deferrable = on'], {}],
  [
    ['set request.jwt.claims = \'{"role":"postgres"}\'', "set request.id = 'x'",
      "set request.method = 'x'", "set oneflight.rows = 'x'"],
    {}
  ],
  [['set role = none'], {}],
  // Settings that only a superuser may change.
  [
    ['set log_min_duration_statement = 0', 'set session_replication_role = replica',
      "set session_preload_libraries = 'nothing'", "set app.tenant = 'x'"],
    { 'app.tenant': 'x' }
  ],
  // Settings that PostgreSQL knows only after PL/pgSQL is loaded. They then need a superuser.
  [["set plpgsql.variable_conflict = 'use_column'", "set plpgsql.extra_warnings = 'all'",
    "set app.tenant = 'x'"], { 'app.tenant': 'x' }]
]

t.test('settings of a role apply only to its batches', async t => {
  const roles = rows.map((_, i) => `${prefix}_${i}`)
  await makeRoles(t, roles)
  await alter(
    rows.flatMap(([clauses], i) => clauses.map(clause => `alter role ${roles[i]} ${clause}`))
  )
  const before = await look(plain)
  t.match(before, {
    statement_timeout: '15s', lock_timeout: '5s', timezone: 'UTC', 'app.tenant': ''
  })
  const own = (
    { role, 'request.jwt.claims': claims, 'request.id': id, ...rest }: Settings
  ): object => rest
  const check = async (): Promise<void> => {
    for (const [i, [clauses, differs]] of rows.entries()) {
      const seen = await look(roles[i] as string)
      t.same(own(seen), own({ ...before, ...differs }), clauses.join('; '))
      t.match(seen, {
        role: roles[i],
        'request.jwt.claims': `"role":"${roles[i]}"`,
        'request.id': /^[0-9a-f-]{36}$/
      })
      t.same(own(await look(plain)), own(before), `after ${clauses.join('; ')}`)
      t.match(
        (await service.post([op.select('m', 'me'), op.insert('w', 't', [{ n: i }])], {
          role: roles[i] as string
        })).body,
        { error: null, data: { m: [{ role: roles[i], login: LOGIN_ROLE }] } },
        'the role can write'
      )
    }
  }
  await check()
  t.equal((await service.post([op.select('i', 'interpreted')])).status, 200)
  await check()
})

t.test('timeouts of a role apply, also to the anonymous role', async t => {
  const service = await useAnother(t, { env: { POOL_SIZE: '1', ANON_ROLE: `${prefix}_anon` } })
  const hasty = [`${prefix}_hasty`, `${prefix}_anon`] as const
  await makeRoles(t, hasty)
  const texts = hasty.map(role => `alter role ${role} set statement_timeout = '1s';
    alter role ${role} in database here set lock_timeout = '10ms'`)
  await alter(texts, service)
  for (const role of [hasty[0], null]) {
    t.match(await service.post([op.select('n', 'nap')], { role }), {
      status: 504, body: { error: { code: 'query_canceled', op: 'n', committed: false } }
    })
    await sql.begin(async sql => {
      await sql`lock table t`
      t.match(
        await service.post([op.insert('w', 't', [{ n: 1 }])], { role }),
        { status: 409, body: { error: { code: 'lock_not_available', retryable: true } } }
      )
    })
  }
  t.match(await look(plain, service), { statement_timeout: '15s', lock_timeout: '5s' })
})

t.test('a change takes effect on new connections', async t => {
  const role = `${prefix}_changing`
  await makeRoles(t, [role])
  t.match(await look(role), { 'app.tenant': '' })
  await sql.unsafe(`alter role ${role} set app.tenant = 'one'`)
  t.match(await look(role), { 'app.tenant': '' }, 'settings are read when a connection opens')
  await alter([`alter role ${role} set app.tenant = 'two'`])
  t.match(await look(role), { 'app.tenant': 'two' })
  await alter([`alter role ${role} rename to ${role}_x; alter role ${role}_x rename to ${role};
    alter role ${role} reset all`])
  t.match(await look(role), { 'app.tenant': '' })
})

/** Gives a role a setting that is valid as long as its configuration exists. */
const setGone = (role: string): string => `
  create text search configuration gone (copy = pg_catalog.simple);
  alter role ${role} in database here set default_text_search_config = 'public.gone';
  alter role ${role} set app.tenant = 'x'`

t.test('a setting that can no longer be applied leads to a new connection', async t => {
  const service = await useAnother(t, { env: { POOL_SIZE: '2' } })
  const role = `${prefix}_later`
  await makeRoles(t, [role])
  await alter([setGone(role)], service)
  t.match(await look(role, service), {
    'app.tenant': 'x', default_text_search_config: 'public.gone'
  })
  await sql`drop text search configuration gone`
  t.match(await look(role, service), {
    'app.tenant': 'x', default_text_search_config: /^pg_catalog[.]/
  })
  t.match(
    await service.post([op.select('l', 'look')], { role: 'nobody_has_this_name' }), { status: 403 }
  )
})

t.test('settings beyond 100 per role or 1024 bytes are left out', async t => {
  const role = `${prefix}_many`
  await makeRoles(t, [role])
  await sql.unsafe(`
    alter role ${role} set application_name = '${'x'.repeat(1025)}';
    alter role ${role} set work_mem = '64kB';
    do $$ begin for i in 100..220 loop execute format('alter role ${role} set many.s%s = %L', i, i);
      end loop; end $$`
  )
  const connection = await openConnection(parseDatabaseUrl(loginUrl))
  const names = connection.roleSettings.get(role)?.map(([name]) => name)
  await closeConnection(connection)
  t.same(names, Array.from({ length: 100 }, (_, i) => `many.s${100 + i}`))
})

t.test('a server without privileges on parameters is not asked for them', async t => {
  const role = `${prefix}_old`
  await makeRoles(t, [role])
  await sql.unsafe(`
    alter role ${role} set work_mem = '64kB';
    alter role ${role} set log_min_duration_statement = '9s'`)
  const client = postgres(loginUrl, { max: 1, onnotice () {} })
  t.teardown(() => client.end())
  t.same((await readRoleSettings(client, 140_000)).get(role), [['work_mem', '64kB']])
})

t.test('a connection lost while settings are read fails to open', async t => {
  const role = `${prefix}_lost`
  await makeRoles(t, [role])
  await sql.unsafe(`alter role ${role} set work_mem = '64kB'`)
  const proxy = await useProxy(t, loginUrl)
  const target = parseDatabaseUrl(proxy.through(loginUrl))
  for (const text of ['pg_db_role_setting', 'set_config']) {
    proxy.deliver = ({ sent, held }) => {
      if (!sent.includes(text)) return held.length
      setImmediate(proxy.cut)
      return 0
    }
    await t.rejects(openConnection(target), /closed/, text)
  }
  proxy.deliver = ({ held }) => held.length
  const connection = await openConnection(target)
  t.same(connection.roleSettings.get(role), [['work_mem', '64kB']])
  await closeConnection(connection)
  const without = await openConnection(target, { roleSettings: false })
  t.same([...without.roleSettings], [])
  await closeConnection(without)
})

t.test('settings apply that the login role was granted with SET ON PARAMETER', async t => {
  const service = await useAnother(t, {
    env: { POOL_SIZE: '1' },
    databaseUrl: url => url.replace(`${LOGIN_ROLE}:login`, `${prefix}_login:login`)
  })
  const [login, role] = [`${prefix}_login`, `${prefix}_granted`] as const
  await makeRoles(t, [login], "login noinherit password 'login'")
  await makeRoles(t, [role])
  const grants = (await sql`select from pg_settings
      where name = 'server_version_num' and setting::int >= 150000`)
    .length > 0
  const grantRoles = `grant ${role}, ${plain} to ${login}`
  const grantSet = `grant set on parameter log_min_duration_statement to ${login}`
  t.ok(await sql.unsafe(grants ? `${grantRoles}; ${grantSet}` : grantRoles))
  await alter([`alter role ${role} set log_min_duration_statement = '9s';
    alter role ${role} set session_replication_role = replica`], service)
  t.match(await look(role, service), {
    log_min_duration_statement: grants ? '9s' : '-1', session_replication_role: 'origin'
  })
  await sql.unsafe('create table forbidden (n int)')
  t.match(
    await service.post([op.select('l', 'look'), op.select('f', 'forbidden')], { role }),
    { status: 403, body: { error: { code: 'insufficient_privilege', op: 'f' } } },
    'also if the session is set again'
  )
  t.match(await look(plain, service), {
    log_min_duration_statement: '-1', session_replication_role: 'origin'
  })
})
