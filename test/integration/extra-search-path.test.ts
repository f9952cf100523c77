/**
 * Tests DB_EXTRA_SEARCH_PATH. Types, operators and functions of extensions are found, and requests
 * cannot name these schemas. A schema in which a token role can create objects is left out.
 */
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { closeConnection } from '../../src/postgres/connection.ts'
import type { ExtraSchemas } from '../../src/postgres/extra-schemas.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import * as op from '../support/operations.ts'
import { LOGIN_ROLE, useDatabase, withAdmin, withRoles } from '../support/database/database.ts'
import { gauge, useService, type ServiceUnderTest } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

// Roles belong to the cluster, which other test files use at the same time.
const prefix = `oneflight_path_${process.pid}`

/** citext has its own case-insensitive operators, digest() is a function of pgcrypto. */
const schema = `
  create schema api;
  create schema extensions;
  create extension citext schema extensions;
  create extension pgcrypto schema extensions;
  grant usage on schema api, extensions to public;
  revoke create on schema public from public;
  create table extensions.private (n int);
  create table api.people (name extensions.citext primary key, digest bytea);
  create function api.digest() returns trigger language plpgsql as $$
    begin new.digest := digest(new.name::text, 'sha256'); return new; end $$;
  create trigger digest before insert on api.people for each row execute function api.digest();
  create view api.look as select current_setting('search_path') as path;
  create type api.price as (amount int, currency text);
  create table api.orders (id int primary key, price api.price);
  create table api.commands (command text);
  create function api.act() returns trigger language plpgsql as $$
    begin execute new.command; return new; end $$;
  create trigger act after insert on api.commands for each row execute function api.act();
  create table api.names (name extensions.citext);
  insert into api.names values ('Ada'), ('Bob'), ('Cy');
  create extension hstore schema extensions;
  create table api.bags (id int, bag extensions.hstore, doc json);
  insert into api.bags values (1, 'b=>1', '{"b":"1"}'), (2, 'b=>2', '{"b":"2"}');
  grant all on all tables in schema api to oneflight_user;
  grant all on extensions.private to oneflight_user;`

const env = { DB_SCHEMAS: 'api', POOL_SIZE: '1' }
const extended = { ...env, DB_EXTRA_SEARCH_PATH: 'extensions' }

/** The pool that a batch uses: the one of the primary or the one of DATABASE_REPLICA_URL. */
type Access = 'read-write' | 'read-only'
const accesses = ['read-write', 'read-only'] as const

async function readPath (
  { post }: ServiceUnderTest,
  access: Access = 'read-write'
): Promise<string> {
  const batch = [op.select('l', 'api.look')]
  const { status, body, text } = await post(batch, { headers: { prefer: `access=${access}` } })
  if (status !== 200) throw new Error(text)
  return body.data.l[0].path
}

/** Ends the connections of a service, so that new connections check the schemas again. */
async function renewConnections ({ database: { sql, name } }: ServiceUnderTest): Promise<void> {
  await until(async () =>
    (await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${name} and application_name = 'oneflight'`).length === 0
  )
}

function warningsOf ({ log }: ServiceUnderTest): unknown[] {
  return log.filter(({ level }) => level === 40)
    .map(({ schema, remedy, msg }) => ({ schema, remedy, msg }))
}

const { post, database: { sql } } = await useService(t, { schema, env: extended })

t.test('operators and functions of extensions are found', async t => {
  const people = (id: string): object =>
    op.select(id, 'people', { columns: ['name'], where: { name: { eq: 'ADA' } } })
  const values = [{ name: 'Ada' }]
  const insert = op.insert('i', 'people', values, { returning: ['digest'] })
  const { body } = await post([insert, people('p')])
  t.match(body.data, { i: [{ digest: /^\\x[0-9a-f]{64}$/ }], p: [{ name: 'Ada' }] })
  const rest = op.delete('d', 'people', { where: { name: { nin: ['ADA'] } } })
  t.same((await post([rest])).body.data.d, [])

  const without = await useService(t, { schema, env: { ...env, DB_EXTRA_SEARCH_PATH: 'api' } })
  t.match((await without.post([insert])).body, { error: { sqlstate: '42883' } })
  await without.database.sql.unsafe(`
    set search_path = extensions;
    insert into api.people values ('Ada')`)
  t.same((await without.post([people('p')])).body.data.p, [])
})

t.test('operators of extensions are still found after a trigger sets search_path', async t => {
  const values = [{ command: "set local search_path = ''" }]
  for (const id of [1, 2, 3]) {
    const { body, text } = await post([
      op.insert('c', 'commands', values, { returning: [] }),
      op.delete('d', 'names', { where: { name: { nin: ['ADA', 'BOB', 'CY'] } } }),
      op.insert('o', 'orders', [{ id, price: { amount: id } }])
    ])
    t.same(body.data?.d, [], text)
  }
  t.same(await sql`select count(*)::int from api.names`, [{ count: 3 }])
})

t.test('a path applies only to json and jsonb, even if an extension defines ->', async t => {
  const uses = (column: string): object[] => [
    { op: 'delete', where: { [column]: { neq: '2' } } },
    { op: 'update', set: { doc: { $col: column } }, all: true },
    { op: 'select', columns: [column] }
  ]
  for (const use of ['bag->b', 'bag->>b'].flatMap(uses)) {
    const error = failed(400, 'undefined_function', { message: /"bag" has no path/ })
    t.match(await post([{ id: 'o', table: 'bags', ...use }]), error, JSON.stringify(use))
  }
  const select = { op: 'select', table: 'bags', columns: ['id'] }
  const { body } = await post([
    { id: 'json', ...select, where: { 'doc->b': { neq: '2' } } },
    { id: 'key', ...select, where: { bag: { cs: 'b=>2' } } }
  ])
  t.same(body.data, { json: [{ id: 1 }], key: [{ id: 2 }] })
  t.same(await sql`select id from api.bags order by id`, [{ id: 1 }, { id: 2 }])
})

t.test('a request cannot name an extra schema', async t => {
  const batch = (table: string): object[] => [op.select('s', table)]
  const errors = [{ code: 'schema_forbidden' }]
  const forbidden = failed(403, 'validation_failed', { errors })
  t.match(await post(batch('extensions.private')), forbidden)
  t.match(await post(batch('private')), failed(404, 'undefined_table'))
})

t.test('search_path is DB_SCHEMAS, new schemas of DB_EXTRA_SEARCH_PATH, pg_temp', async t => {
  const rows: ReadonlyArray<readonly [schemas: string, extra: string, path: string]> = [
    ['api', 'public,extensions', '"api", "public", "extensions", pg_temp'],
    ['api', 'api', '"api", pg_temp'],
    ['api', 'gone,extensions,Not "There" Yet\\', '"api", "extensions", pg_temp']
  ]
  for (const [DB_SCHEMAS, DB_EXTRA_SEARCH_PATH, path] of rows) {
    const service = await useService(t, {
      schema, env: { POOL_SIZE: '1', DB_SCHEMAS, DB_EXTRA_SEARCH_PATH }, replicaUrl: url => url
    })
    for (const access of accesses) {
      t.equal(await readPath(service, access), path, `${DB_SCHEMAS} and ${DB_EXTRA_SEARCH_PATH}`)
    }
    t.same(warningsOf(service), [])
  }
})

t.test('an unsafe schema is left out with one warning, until it is safe', async t => {
  const service = await useService(t, {
    schema: `${schema} grant create on schema public to public;`,
    env: { ...env, POOL_SIZE: '2' },
    replicaUrl: url => url
  })
  const { sql } = service.database
  for (const access of accesses) t.equal(await readPath(service, access), '"api", pg_temp')
  // Open a second connection of the same pool.
  let waiting: ReadonlyArray<Promise<unknown>> = []
  await sql.begin(async sql => {
    await sql`lock table api.people`
    waiting = [1, 2].map(() => service.post([op.select('p', 'people')]))
    await until(async () => await gauge(service, 'service_pool_connections_busy') === 2)
  })
  await Promise.all(waiting)
  const remedy = 'REVOKE CREATE ON SCHEMA "public" FROM PUBLIC'
  const warning = {
    schema: 'public',
    remedy,
    msg: 'ignoring a schema of DB_EXTRA_SEARCH_PATH: token roles can create objects in it'
  }
  t.same(warningsOf(service), [warning])
  await sql.unsafe(remedy)
  t.equal(await readPath(service), '"api", pg_temp', 'the change applies to new connections')
  await renewConnections(service)
  t.equal(await readPath(service), '"api", "public", pg_temp')
  t.same(warningsOf(service), [warning])
})

/** Creates roles. They are dropped at the end of `t`, after databases that are created later. */
async function createRoles (t: Test, names: readonly string[]): Promise<void> {
  t.teardown(() =>
    withAdmin(async admin => {
      for (const name of names) await admin.unsafe(`drop role if exists ${name}`)
    })
  )
  await withRoles(async sql => {
    for (const name of names) await sql.unsafe(`create role ${name}`)
  })
}

const roleNames = [
  `${prefix}_token`, `${prefix}_granted`, `${prefix}_group`, `${prefix}_unrelated`,
  `${prefix}_admin`, `${prefix}_above`, `${prefix}_listed`
] as const

t.test('a schema is unsafe if a token role can create objects in it', async t => {
  const [token, granted, group, unrelated, admin, above, listed] = roleNames
  await createRoles(t, roleNames)
  const { sql, loginUrl } = await useDatabase(t)
  const [{ version } = { version: 0 }] = await sql<Array<{ version: number }>>`
    select current_setting('server_version_num')::int as version`
  // The login role can become `token` and `granted`. `token` has the privileges of `group`.
  await sql.unsafe(`
    grant ${token}, ${granted}, ${above} to ${LOGIN_ROLE};
    grant ${group} to ${token};
    alter role ${above} superuser`)
  const own = (role: string): string => `alter schema # owner to ${role}`
  const give = (role: string): string => `grant create on schema # to ${role}`
  const revoke = (role: string): string => `REVOKE CREATE ON SCHEMA # FROM ${role}`
  const move = 'ALTER SCHEMA # OWNER TO <a role that no token may name>'
  const rows: ReadonlyArray<readonly [sql: string, remedy: string | undefined]> = [
    ['select', undefined],
    ['grant usage on schema # to public', undefined],
    [give('public'), revoke('PUBLIC')],
    [give(token), revoke(`"${token}"`)],
    [give(group), revoke(`"${group}"`)],
    [
      give(`public, ${granted}, ${token}`),
      ['PUBLIC', `"${granted}"`, `"${token}"`].map(revoke).join('; ')
    ],
    [own(token), move],
    [own(group), move],
    [`${own(token)}; ${give('public')}`, `${move}; ${revoke('PUBLIC')}`],
    // Privileges of the login role and of roles that no token can name do not count.
    [`${give(LOGIN_ROLE)}; ${give(unrelated)}`, undefined],
    [own(LOGIN_ROLE), undefined],
    // A superuser does not need the privilege.
    [give(above), undefined],
    [own(above), undefined],
    [own(unrelated), undefined],
    // A privilege that another role has granted is revoked as that role.
    [`${give(admin)} with grant option; set role ${admin}; ${give(token)}; reset role`,
      `SET ROLE "${admin}"; ${revoke(`"${token}"`)}; RESET ROLE`],
    // Privileges that the holder has granted are revoked together with its own, by CASCADE.
    [
      `${give(granted)} with grant option; set role ${granted}; ${give(`${unrelated}, ${token}`)};
        reset role`,
      `${revoke(`"${granted}"`)} CASCADE`
    ],
    [
      `${give(admin)} with grant option; set role ${admin}; ${give(granted)} with grant option;
        set role ${granted}; ${give(token)}; reset role`,
      `SET ROLE "${admin}"; ${revoke(`"${granted}"`)} CASCADE; RESET ROLE`
    ],
    // A token cannot name a predefined role, but a token role can be granted its privileges.
    [give('pg_stat_scan_tables'), undefined],
    [give('pg_signal_backend'), revoke('"pg_signal_backend"')],
    // Since PostgreSQL 16, membership can be granted without SET ROLE and without inheritance.
    [give(listed), version < 160_000 ? revoke(`"${listed}"`) : undefined]
  ]
  t.teardown(() =>
    withAdmin(async admin => {
      await admin.unsafe(`revoke pg_stat_scan_tables from ${LOGIN_ROLE}`)
    })
  )
  await sql.unsafe(`
    grant pg_stat_scan_tables to ${LOGIN_ROLE};
    grant pg_signal_backend to ${token};
    grant ${listed} to ${LOGIN_ROLE} ${version < 160_000 ? '' : 'with set false'};
    grant ${listed} to ${token} ${version < 160_000 ? '' : 'with set false, inherit false'}`)
  const names = rows.map((_, i) => `extra "${i}" \\`)
  const quoted = (i: number): string => `"${names[i]?.replaceAll('"', '""')}"`
  for (const [i, [text]] of rows.entries()) {
    await sql.unsafe(`create schema #; ${text}`.replaceAll('#', () => quoted(i)))
  }
  const read = async (extraSchemas: readonly string[] = names): Promise<ExtraSchemas> => {
    const connection = await openConnection(parseDatabaseUrl(loginUrl), { extraSchemas })
    await closeConnection(connection)
    return { extraSchemas: connection.extraSchemas, unsafeSchemas: connection.unsafeSchemas }
  }
  const found = await read()
  const remedies = new Map(found.unsafeSchemas.map(({ schema, remedy }) => [schema, remedy]))
  for (const [i, [text, remedy]] of rows.entries()) {
    const name = names[i] as string
    t.equal(sorted(remedies.get(name)), sorted(remedy?.replaceAll('#', () => quoted(i))), text)
    t.equal(found.extraSchemas.includes(name), remedy === undefined, text)
  }
  const usable = names.filter(name => found.extraSchemas.includes(name))
  t.same(found.extraSchemas, usable, 'in the configured order')
  t.same((await read(names.toReversed())).extraSchemas, usable.toReversed())

  for (const { remedy } of found.unsafeSchemas) {
    await sql.unsafe(remedy.replaceAll(/<[^>]*>/g, 'current_user'))
  }
  const remedied = await read()
  t.same(remedied, { extraSchemas: names, unsafeSchemas: [] }, 'the remedies of the warnings work')

  const database = new URL(loginUrl).pathname.slice(1)
  const [first = ''] = names
  await sql.unsafe(`alter schema ${quoted(0)} owner to pg_database_owner`)
  t.same((await read([first])).extraSchemas, [first])
  await sql.unsafe(`alter database ${database} owner to ${group}`)
  const remedy = move.replace('#', () => quoted(0))
  t.same((await read([first])).unsafeSchemas, [{ schema: first, remedy }], 'owner of the database')
})

function sorted (remedy: string | undefined): string | undefined {
  return remedy?.split('; ').sort().join('; ')
}

t.test('a connection that runs no batches does not check the schemas', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  const options = { roleSettings: false, extraSchemas: ['extensions'] }
  const connection = await openConnection(parseDatabaseUrl(loginUrl), options)
  t.same(connection.extraSchemas, [])
  await closeConnection(connection)
})
