/**
 * Tests `oneflight check --database`: what PostgreSQL refuses is reported with its position, and
 * nothing is executed.
 */
import t from 'tap'
import { useDatabase } from '../support/database/database.ts'
import { useShopDatabase } from '../support/database/shop.ts'
import { oneflight, runInside } from '../support/process/cli.ts'
import { findTracked } from '../support/tracked-files.ts'

const role = 'oneflight_user'
const schema = `
  create table things (id int generated always as identity primary key, name text, "a ""b" int,
    data jsonb);
  insert into things (name) values ('one');
  create table secret (a int);
  create function refuse () returns trigger language plpgsql as $$ begin
    raise 'a trigger ran'; end $$;
  create trigger refuse before insert or update or delete on things for each statement
    execute function refuse();
  create function fail () returns int language plpgsql as $$ begin raise 'a function ran'; end $$;
  create view failing as select fail() as value;
  create function unknown () returns int language plpgsql stable as $$ begin
    return (select nothing from things limit 1); end $$;
  create view unknown as select 1 as value from things where id = unknown();
  grant all on things, failing, unknown to ${role};`

const refused = `[
  {"id": "a", "op": "select", "table": "thingz"},
  {"id": "b", "op": "select", "table": "things", "where": {"naem": {"eq": "x"}}},
  {"id": "c", "op": "insert", "table": "things", "values": [{"name": "naem", "naem": 1}]},
  {"id": "d", "op": "update", "table": "things", "set": {"a \\"c": 1}, "all": true},
  {"id": "e", "op": "delete", "table": "things", "all": true, "returning": ["id", "dota->é"]},
  {"id": "f", "op": "select", "table": "things", "where": {"id": {"eq": "one"}}},
  {"id": "g", "op": "select", "table": "things", "where": {"id": {"like": "1"}}},
  {"id": "h", "op": "select", "table": "secret"},
  {"id": "i", "op": "insert", "table": "things", "values": [{}],
    "on_conflict": {"columns": ["name"], "do": "nothing"}},
  {"id": "j", "op": "select", "table": "things", "where": {"name": {"eq": "🍎"}}, "lock": "update"},
  {"id": "k", "op": "select", "table": "unknown"}
]`

interface CheckOptions {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

const { sql, loginUrl } = await useDatabase(t, { schema })
const check = (input: string, { args = ['--role', role], env = {} }: CheckOptions = {}) =>
  runInside(['check', '--database', ...args, '-'], {
    env: { DATABASE_URL: loginUrl, ...env },
    input
  })

t.test('the examples are valid for the sample shop', async t => {
  const { loginUrl } = await useShopDatabase(t)
  const files = findTracked('examples/*.json')
  const { code, out, err } = await oneflight(
    ['check', '--database', '--role', 'shop_customer', ...files],
    // postgres.js would look for such a server.
    { env: { DATABASE_URL: loginUrl, PGTARGETSESSIONATTRS: 'standby' } }
  )
  t.same([code, err], [0, ''])
  t.same(out.match(/^.*(?=: ok)/gm), files)
})

t.test('what PostgreSQL refuses is reported for every operation, with its position', async t => {
  const { code, out, err } = await check(refused)
  t.same([code, err], [1, ''])
  t.same(out.match(/(?<=^<stdin>:)\S+: operation \d+ \(.\): \w+(?=: )/gm), [
    '2:31: operation 0 (a): undefined_table',
    '3:60: operation 1 (b): undefined_column',
    '4:78: operation 2 (c): undefined_column',
    '5:58: operation 3 (d): undefined_column',
    '6:83: operation 4 (e): undefined_column',
    '7:67: operation 5 (f): invalid_text_representation',
    '8:67: operation 6 (g): undefined_function',
    '9:3: operation 7 (h): insufficient_privilege',
    '11:21: operation 8 (i): invalid_column_reference',
    '13:3: operation 10 (k): schema_fault'
  ])
})

t.test('a column that the result of a function lacks is found', async t => {
  const { code, out } = await check(`[
  {"id": "a", "op": "call", "function": "unknown", "columns": ["nope"]}
]`)
  t.equal(code, 1)
  t.match(out, '<stdin>:2:3: operation 0 (a): undefined_column: The result of "unknown" has no ' +
    'column "nope".')
})

t.test('references are checked', async t => {
  const { code, out } = await check(`[
  {"id": "all", "op": "select", "table": "things"},
  {"id": "some", "op": "insert", "table": "things", "values": [{"name": "$all.0.nmae"}],
    "returning": ["id", {"column": "name", "as": "title"}]},
  {"id": "ok", "op": "select", "table": "things",
    "where": {"id": {"eq": "$some.id", "in": "$all.*.id"}, "name": {"eq": "$some.0.title"},
      "data": {"eq": {"$value": ["$all", "$all.0"]}}, "a \\"b": {"isdistinct": "$all.0.a \\"b"}}},
  {"id": "last", "op": "delete", "table": "things",
    "where": {"name": {"in": ["$some.0.name", "$some.0.id", "$all.0.nmae", "$all.1.nmae"]}}},
  {"id": "missing", "op": "select", "table": "thingz"},
  {"id": "more", "op": "select", "table": "things", "where": {"id": {"eq": "$missing.0.x"}}},
  {"id": "wide", "op": "select", "table": "things",
    "columns": ["*", {"column": "name", "as": "title"}]},
  {"id": "end", "op": "select", "table": "things",
    "where": {"name": {"in": ["$wide.0.title", "$wide.0.name", "$wide.0.nmae"]}}}
]`)
  t.equal(code, 1)
  t.same(out.match(/(?<=^<stdin>:).*/gm), [
    '3:65: operation 1 (some): reference_column_missing: "all" returns no column "nmae".',
    '9:61: operation 3 (last): reference_column_missing: "all" returns no column "nmae".',
    '9:31: operation 3 (last): reference_column_missing: "some" returns no column "name".',
    '10:37: operation 4 (missing): undefined_table: Table "thingz" does not exist in ' +
    'schema "public". Did you mean "things"?',
    '15:64: operation 7 (end): reference_column_missing: "wide" returns no column "nmae".'
  ])
})

t.test('nothing is executed, and row locks are not waited for', async t => {
  const batch = JSON.stringify([
    { id: 'a', op: 'insert', table: 'things', values: [{ name: 'a' }] },
    { id: 'b', op: 'update', table: 'things', set: { name: 'b' }, all: true },
    { id: 'c', op: 'delete', table: 'things', all: true },
    { id: 'd', op: 'select', table: 'failing' },
    { id: 'e', op: 'select', table: 'things', lock: 'update', expect: 7 }
  ])
  await sql.begin(async holder => {
    await holder`select from things for update`
    t.same(await check(batch), { code: 0, out: '<stdin>: ok: 5 operations\n', err: '' })
  })
  t.same(await sql`select name, (select last_value from things_id_seq) from things`, [{
    name: 'one',
    last_value: '1'
  }])
})

t.test('the role is an option or ANON_ROLE', async t => {
  const batch = '[{"id": "a", "op": "select", "table": "things"}]'
  t.equal((await check(batch, { args: [], env: { ANON_ROLE: role } })).code, 0)
  t.match(await check(batch, { args: [], env: { ANON_ROLE: 'oneflight_other' } }), {
    code: 1,
    out: /insufficient_privilege: permission denied for table things\n/
  })
  t.equal((await check(batch, { env: { ANON_ROLE: 'oneflight_other' } })).code, 0)
})

t.test('exit code 2 when the check is not possible', async t => {
  const batch = '[{"id": "a", "op": "select", "table": "things"}]'
  const rows: ReadonlyArray<readonly [options: CheckOptions, line: RegExp]> = [
    [{ env: { DATABASE_URL: '' } }, /DATABASE_URL: required/],
    [{ env: { DATABASE_URL: 'nonsense' } }, /DATABASE_URL: /],
    [{ env: { DB_SCHEMAS: 'pg_catalog', JWT_SECRET: 'short' } }, /JWT_SECRET: .*; DB_SCHEMAS: /],
    [{ args: [] }, /--database requires --role/],
    [{ args: ['--role', 'none'] }, /role "none" is reserved by PostgreSQL/],
    [{ args: ['--role', 'oneflight_login'] }, /"oneflight_login" is the login role/],
    [{ args: ['--role', 'nobody'] }, /cannot check against the database: the role does not exist/],
    [{ env: { DATABASE_URL: 'postgres://x@127.0.0.1:1/x' } }, /cannot check .* ECONNREFUSED/],
    [{ env: { DATABASE_URL: `${loginUrl}_2` } }, /cannot check .* database ".*_2" does not exist/]
  ]
  for (const [options, line] of rows) {
    const { code, out, err } = await check(batch, options)
    t.same([code, out], [2, ''], err)
    t.match(err, line)
  }
  await sql.begin(async holder => {
    await holder`lock table things`
    t.match(await check(batch, { env: { LOCK_TIMEOUT_MS: '50' } }), {
      code: 2,
      out: '',
      err: /cannot check against the database: .*lock timeout/
    })
  })
  t.match(await runInside(['check', '--role', role, '-'], { input: batch }), {
    code: 2,
    err: /--role requires --database/
  })
})
