/**
 * Tests schema changes after the types of columns were read: the response and the stored values are
 * those of a service that starts after the change, and the types are learned again.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useTwins, type Twins } from '../support/twins.ts'

/** [name, type of the column, value, statements on the table `t`, values afterwards] */
const changes: ReadonlyArray<
  readonly [name: string, type: string, value: unknown, ddl: string, values: readonly unknown[]]
> = [
  ['int to text', 'int', 5, 'alter table t alter v type text', ['05', 'x', 5]],
  ['int to bigint', 'int', 5, 'alter table t alter v type bigint', ['9007199254740993', 7]],
  ['bigint to int', 'bigint', 5, 'alter table t alter v type int', ['9007199254740993', 7]],
  ['text to int', 'text', '5', 'alter table t alter v type int using v::int', ['05', 'x', 7]],
  ['text to jsonb', 'text', '5', 'alter table t alter v type jsonb using v::jsonb', ['5', '{}']],
  ['jsonb to text', 'jsonb', '5', 'alter table t alter v type text', ['5', '{}', { a: 1 }]],
  ['json to jsonb', 'json', { b: 1 }, 'alter table t alter v type jsonb', [{ c: [] }, '5']],
  ['date to timestamp', 'date', '2020-01-01', 'alter table t alter v type timestamp', [
    '2020-01-01T10:00',
    'infinity'
  ]],
  ['timestamp to date', 'timestamp', '2020-01-01T10:00', 'alter table t alter v type date', [
    '2020-01-01T10:00'
  ]],
  ['timestamp to timestamptz', 'timestamp', '2020-01-01T10:00',
    'alter table t alter v type timestamptz', ['2020-01-01T10:00+05', '2020-01-01T10:00']],
  ['numeric to numeric(4, 1)', 'numeric', 1.25, 'alter table t alter v type numeric(4, 1)', [
    1.25,
    99999
  ]],
  ['varchar(2) to varchar', 'varchar(2)', 'ab', 'alter table t alter v type varchar', ['abc']],
  ['varchar to varchar(2)', 'varchar', 'ab', 'alter table t alter v type varchar(2)', ['abc']],
  ['char(4) to text', 'char(4)', 'ab', 'alter table t alter v type text', ['ab  ', 'ab']],
  ['text to an enum', 'text', 'sad', 'alter table t alter v type mood using v::mood', [
    'happy',
    'other'
  ]],
  ['an enum to text', 'mood', 'sad', 'alter table t alter v type text', ['happy', 'other']],
  ['a new label of an enum', 'mood', 'sad', "alter type mood add value 'new'", ['new', 'other']],
  ['a renamed label', 'mood', 'sad', "alter type mood rename value 'sad' to 'blue'", [
    'sad',
    'blue'
  ]],
  ['a renamed enum', 'mood', 'sad', 'alter type mood rename to temper', ['sad', 'other']],
  ['an enum that is replaced later', 'mood', 'sad', `alter table t alter v type text;
    drop type mood; create type mood as enum ('happy', 'sad', 'new');
    alter table t alter v type mood using v::mood`, ['sad', 'happy', 'new', 'other']],
  ['an enum that is dropped', 'mood', 'sad', `alter table t alter v type text;
    drop type mood`, ['sad', 'other']],
  ['an enum that is replaced', 'mood', 'sad', `alter table t alter v type text;
    drop type mood; create type mood as enum ('happy', 'sad');
    alter table t alter v type mood using v::mood`, ['sad', 'happy']],
  ['an enum that is replaced by a domain', 'mood', 'sad', `alter table t alter v type text;
    drop type mood; create domain mood as text check (value <> 'sad');
    update t set v = 'fine'; alter table t alter v type mood`, ['sad', 'happy']],
  ['a domain', 'text', 'x', `create domain short as text check (length(value) < 3);
    alter table t alter v type short`, ['ab', 'abc']],
  ['an array', 'text', 'x', 'alter table t alter v type text[] using array[v]', ['{a}', ['b']]],
  ['a dropped column', 'int', 5, 'alter table t drop v', [5, '05']],
  ['a dropped column that is added again', 'int', 5,
    'alter table t drop v; alter table t add v text', [5, '05']],
  ['a column more', 'int', 5, "alter table t add more text default 'x'", [6, '05']],
  ['a column before', 'int', 5, `drop table t;
    create table t (more int default 1, v text, id int primary key)`, ['05', 5]],
  ['a renamed column', 'int', 5, 'alter table t rename v to w', [6]],
  ['swapped names', 'int', 5, `alter table t rename v to x; alter table t rename other to v;
    alter table t rename x to other`, ['05', 6]],
  ['a renamed table', 'int', 5, `alter table t rename to u;
    create table t (id int primary key, v text, other text)`, ['05', 6]],
  ['a view', 'int', 5, `alter table t rename to u;
    create view t as select id, v::text as v, other from u`, ['05', 6]],
  ['a default', 'int', 5, 'alter table t alter v set default 7, alter v set not null', [null, 6]],
  ['a generated column', 'int', 5, `alter table t drop v;
    alter table t add v int generated always as (id) stored`, [5]],
  ['a trigger', 'text', 'x', `create trigger t before insert on t for each row
    execute function change()`, ['y']],
  ['a policy', 'int', 5, `alter table t enable row level security;
    create policy p on t using (v = 5)`, [5, 6]],
  ['a revoked privilege', 'int', 5, 'revoke update on t from oneflight_user', [6]],
  ['a rule', 'int', 5, 'create rule r as on insert to t do also notify x', [6]]
]

const schema = `
  create function change() returns trigger language plpgsql as $$
    begin new.v := 'changed'; return new; end $$;
  create table results (id int, v text);
  grant all on results to oneflight_user;`

function batches (table: string, id: number, v: unknown): ReadonlyArray<readonly object[]> {
  const insert = (id: number): object => op.insert('i', table, [{ id, v }])
  const scalar = v === null || typeof v === 'object' ? 'x' : v
  const named = { returning: ['id'] }
  return [
    [insert(id), op.insert('r', 'results', [{ id: '$i.0.id', v: '$i.0.v' }])],
    // Row 0 exists: whether an object for a text is refused can depend on the rows.
    [op.update('u', table, { set: { v }, where: { id: { in: [0, id] } }, ...named })],
    [op.select('s', table, { where: { v: { eq: scalar } }, order: [{ id: 'asc' }] })],
    [op.select('s', table, { where: { v: { in: [scalar] } }, columns: ['id'] })],
    [{ ...insert(id + 1000), ...named },
      op.delete('d', table, { where: { id: { eq: '$i.0.id' } }, ...named })]
  ]
}

async function postAll (
  twins: Twins,
  values: readonly unknown[],
  { table, from, name }: { readonly table: string, readonly from: number, readonly name: string }
): Promise<void> {
  for (const [i, value] of values.entries()) {
    for (const [j, batch] of batches(table, from + i, value).entries()) {
      await twins.post(batch, `${name} ${i} ${j}`)
    }
  }
}

/** After these changes nothing is prepared: there is no such column. */
const unprepared: ReadonlySet<string> = new Set(['a dropped column', 'a renamed column'])

/** Gives tables and types names that no other change uses. */
const rename = (text: string, i: number): string =>
  text.replaceAll(/\b(?:t|u|mood|temper|short)\b/g, name => `${name}${i}`)

t.test('after DDL, a service has the effect of one that starts then', {
  timeout: 240_000
}, async t => {
  const twins = await useTwins(t, { schema, env: { LOG_LEVEL: 'error' } })
  for (const [i, [name, type, value, ddl, values]] of changes.entries()) {
    const sql = (text: string): Promise<void> => twins.sql(rename(text, i))
    const table = rename('t', i)
    await sql(`create type mood as enum ('sad', 'happy');
      create table t (id int primary key, v ${type}, other text);
      grant all on t to oneflight_user`)
    await twins.reconnect()
    await postAll(twins, Array(2).fill(value), { table, from: 0, name })
    t.ok(await twins.countPrepared(table) > 0, `${name}: statements were prepared`)
    await sql(ddl)
    if (name !== 'a revoked privilege') await sql('grant all on t to oneflight_user')
    if (i % 2 === 1) await twins.reconnect()
    await twins.restartSecond()
    await postAll(twins, values, { table, from: 100, name: `${name}, after` })
    const before = await twins.countPrepared(table)
    await postAll(twins, values, { table, from: 200, name: `${name}, learned` })
    const again = await twins.countPrepared(table) > before
    t.equal(again, !unprepared.has(name), `${name}: statements are prepared again`)
    for (const changed of [table, 'results']) {
      await twins.compare(`select r::text from ${changed} as r order by 1`, name)
    }
    await sql('truncate results')
  }
})
