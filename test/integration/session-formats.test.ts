/**
 * Values are read and written in the formats that the batch sets for its session, even if a trigger
 * changes them: in the operation with the trigger, in later operations and at the end of the batch.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { ask, useService } from '../support/service.ts'

const schema = `
  create table plain (
    id int primary key, at timestamptz, span interval, raw bytea, float float8, day date, text text
  );
  create type price as (amount int, currency text);
  create table priced (id int primary key, day date, price price);
  create table after_row (command text);
  create table before_row (
    command text, at timestamptz default '2024-01-01T00:00:00Z',
    span interval default '1 day 2 hours', raw bytea default '\\x00ff',
    float float8 default 0.1, text text default 'é'
  );
  create function act() returns trigger language plpgsql as $$
    begin execute new.command; return new; end $$;
  create trigger act after insert on after_row for each row execute function act();
  create trigger act before insert on before_row for each row execute function act();
  create table times (
    id int primary key, at timestamptz, many timestamptz[], a int, b int, c int, d int,
    born timestamptz default '2024-01-01 00:00'
  );
  create table bare (id int generated always as identity, at timestamptz);
  create table texts (text text);
  insert into texts values ('2024-01-01 00:00');
  create function to_tokyo() returns trigger language plpgsql as $$
    begin perform set_config('TimeZone', 'Asia/Tokyo', true); return null; end $$;
  create trigger tokyo before insert or update or delete on times
    for each statement execute function to_tokyo();
  create trigger tokyo before insert on bare for each statement execute function to_tokyo();
  create table guarded (id int primary key, at timestamptz);
  insert into guarded values (1, '2024-01-01T00:00:00Z');
  alter table guarded enable row level security;
  create function in_tokyo() returns int language plpgsql as $$
    begin perform set_config('TimeZone', 'Asia/Tokyo', true); return 1; end $$;
  create view tokyo as select in_tokyo() as n, '2024-01-01T00:00:00Z'::timestamptz as at
    from generate_series(1, 3);
  create policy tokyo on guarded using (in_tokyo() = 1);
  create schema other;
  create table other.plain (id int);
  create table classes (id int primary key, class regclass, note text);
  create function note() returns text language sql as $$ select 'public' $$;
  create function other.note() returns text language sql as $$ select 'other' $$;
  create function to_other() returns trigger language plpgsql as $$
    begin perform set_config('search_path', 'other, public', true); return null; end $$;
  create trigger other before insert on classes for each statement execute function to_other();
  create function take_note() returns trigger language plpgsql as $$
    begin execute 'select note()' into new.note; return new; end $$;
  create trigger take_note before insert on classes
    for each row execute function take_note();
  create function other.answer(plain) returns int language sql as 'select 2';
  create function public.answer(plain) returns int language sql as 'select 1';
  create function eq_other(text, text) returns boolean language sql immutable as 'select true';
  create operator other.= (function = eq_other, leftarg = text, rightarg = text);
  grant usage on schema other to oneflight_user;
  grant all on all tables in schema public to oneflight_user`

const commands: readonly string[] = [
  "local timezone = 'Asia/Tokyo'",
  "timezone = 'America/St_Johns'",
  "local datestyle = 'German, DMY'",
  "local intervalstyle = 'iso_8601'",
  "local bytea_output = 'escape'",
  'local extra_float_digits = -10',
  "local client_encoding = 'LATIN1'",
  'local search_path = other, pg_catalog, public', 'local role none'
].map(text => `set ${text}`)

const row = {
  at: '2024-01-01T00:00:00+00:00', span: '1 day 02:00:00', raw: '\\x00ff', float: 0.1, text: 'é'
}
let id = 0

const { post, adminUrl, database: { sql } } =
  await useService(t, { schema, env: { POOL_SIZE: '1' } })

/** The number of retries because of a changed session. */
async function countRetries (): Promise<number> {
  const { text } = await ask(`${adminUrl}/metrics`)
  return Number(/service_txn_retry_count\{reason="session"\} (\d+)/.exec(text)?.[1] ?? 0)
}

/** Runs a command in a trigger, in an operation of its own. */
const spoil = (command: string): object =>
  op.insert('spoil', 'after_row', [{ command }], { returning: [] })
const plain = op.select('s', 'plain')

t.test('settings changed by a trigger do not affect later operations', async t => {
  for (const command of commands) {
    const before = await countRetries()
    const { body, text } = await post([
      spoil(command),
      op.insert('i', 'plain', [{
        id: ++id,
        at: '2024-01-01 00:00',
        span: '1 day 2 hours',
        raw: '\\x00ff',
        float: 0.1,
        day: '24/02/03',
        text: 'é'
      }]),
      { ...plain, where: { id: { eq: id }, at: { eq: '2024-01-01 00:00' }, text: { eq: 'é' } } },
      { ...plain, id: 'none', where: { text: { eq: 'e' } } },
      { ...plain, id: 'list', where: { day: { in: '$i.*.day' }, id: { eq: id } }, columns: ['id'] }
    ])
    t.strictSame(body.data, {
      spoil: [],
      i: [{ id, ...row, day: '2024-02-03' }],
      s: [{ id, ...row, day: '2024-02-03' }],
      none: [],
      list: [{ id }]
    }, `${command} ${body.error === null ? '' : text}`)
    t.equal(await countRetries() - before, 1, 'the batch was retried once')
    const [stored] = await sql`
      select at = '2024-01-01T00:00:00Z' as at, day = '2024-02-03' as day, text
      from plain where id = ${id}`
    t.same(stored, { at: true, day: true, text: 'é' })
  }
})

t.test('an encoding that cannot represent later texts does not affect them', async t => {
  const text = 'é€ü日本語'
  for (const encoding of ['SJIS', 'EUC_KR', 'BIG5', 'GBK']) {
    // From the third run on, its statements are prepared.
    for (let i = 0; i < 4; i++) {
      const answer = await post([
        spoil(`set local client_encoding = '${encoding}'`),
        op.insert('i', 'plain', [{ id: ++id, text }]),
        { ...plain, where: { text: { eq: text }, id: { eq: id } } }
      ])
      t.match(answer.body.data, { i: [{ id, text }], s: [{ id, text }] }, encoding)
    }
  }
})

t.test('settings changed by a trigger do not affect the rows of its own operation', async t => {
  for (const command of commands) {
    const values = [{ command }, { command }]
    const insert = op.insert('i', 'before_row', values)
    for (const batch of [[insert], [plain, insert], [insert, plain]]) {
      for (const headers of [{}, { prefer: 'tx=rollback' }]) {
        const { body, text } = await post(batch, { headers })
        t.strictSame(
          body.data?.i, [{ command, ...row }, { command, ...row }],
          `${command} ${body.error === null ? '' : text}`
        )
      }
    }
    const { body: { data } } = await post([
      insert,
      op.select('s', 'before_row', { where: { at: { eq: '$i.1.at' } }, columns: [{ fn: 'count' }] })
    ])
    t.ok(data.s[0].count >= 2, 'a reference reads the same instant')
  }
  t.strictSame(
    (await post([op.select('s', 'tokyo', { columns: ['at'] })])).body.data.s,
    Array(3).fill({ at: row.at }), 'a function in a view'
  )
})

t.test('settings changed by triggers and policies do not affect values', async t => {
  const [at, instant] = ['2024-01-01 00:00', row.at]
  const insert = (values: object[], more: object = {}): object =>
    op.insert('i', 'times', values, { expect: values.length, ...more })
  const conflict = (set: object): object =>
    insert([{ id: 1 }], { on_conflict: { columns: ['id'], do: 'update', set } })
  const change = (set: object, more: object = {}): object =>
    op.update('u', 'times', { where: { id: { eq: 1 } }, set, expect: 1, ...more })
  const texts = op.select('t', 'texts')
  const same = { at: { eq: '$t.0.text' } }
  const read = (where: object): object => op.select('s', 'times', { where })
  const batches: ReadonlyArray<readonly object[]> = [
    [insert([{ id: 3, at }, { id: 4, at }])],
    [insert([{ id: 3, at }, { id: 4, at, a: 1 }, { id: 5, at }, { id: 6, many: [at] }])],
    [texts, insert([{ id: 3, at: '$t.0.text' }, { id: 4, at, a: 1 }])],
    [insert([{ id: 3, at }], { returning: [] })],
    [insert([{ id: 3, at }, { id: 4, many: [at] }], { returning: ['at'] }), read({})],
    [
      insert([{ id: 3, at }]),
      read({
        at: { eq: '$i.0.at' },
        a: { isdistinct: '$i.0.id' },
        and: ['b', 'c', 'd'].map(column => ({ id: { neq: `$i.0.${column}` } }))
      })
    ],
    [conflict({ at })],
    [conflict({ many: [at, at] })],
    [texts, conflict({ at: '$t.0.text' })],
    [texts, conflict({ many: '$t.*.text' })],
    [insert([{ id: 3 }]), change({ at })],
    [texts, change({ at: '$t.0.text', many: [at] })],
    [change({ a: { $inc: 1 }, at }, { returning: [] })],
    [texts, op.delete('d', 'times', { where: same, expect: 2 })],
    [texts, change({ at }, { table: 'guarded', where: same })],
    [texts, op.select('s', 'guarded', { where: same, expect: 1 })],
    [texts, op.select('s', 'tokyo', { where: same, expect: 3 })],
    [op.insert('i', 'bare', [{}, {}], { expect: 2 })]
  ]
  for (const batch of batches) {
    for (const headers of [{}, { prefer: 'return=minimal' }]) {
      await sql`truncate times`
      await sql`insert into times (id, at) values (1, ${instant}), (2, ${instant})`
      const { status, text } = await post(batch, { headers })
      t.equal(status, 200, `${JSON.stringify(batch)} ${text}`)
      t.notMatch(text, /\+09/)
      t.same(
        await sql`
        select id, at, many, born from times where born <> ${instant} or at <> ${instant}
          or ${instant} <> any (many)
        union all select id, at, null, null from guarded where at <> ${instant}`,
        [],
        text
      )
    }
  }
})

t.test('table names in values are resolved without the search_path of a trigger', async t => {
  const values = [{ id: 1, class: 'plain' }, { id: 2, class: 'plain' }]
  t.strictSame(
    (await post([op.insert('i', 'classes', values), plain])).body.data?.i,
    values.map(row => ({ ...row, note: 'other' }))
  )
  t.same(
    await sql`select distinct class = 'public.plain'::regclass as x from classes`, [{ x: true }]
  )
})

t.test('a changed format does not affect rows with composite values', async t => {
  const command = "set local datestyle = 'ISO, DMY'"
  const price = { amount: 5, currency: 'EUR' }
  const batch = (id: number): object[] => [
    spoil(command),
    op.insert('i', 'priced', [{ id, day: '02/03/04', price }])
  ]
  const before = await countRetries()
  // From the second run on, the service knows that the table has a composite column.
  for (const id of [1, 2, 3]) {
    const { body, text } = await post(batch(id))
    t.strictSame(body.data?.i, [{ id, day: '2002-03-04', price }], text)
    t.equal(await countRetries() - before, id)
  }
  t.same(await sql`select distinct day::text from priced`, [{ day: '2002-03-04' }])
})

t.test('a batch whose triggers do not change the session runs once', async t => {
  const before = await countRetries()
  const values = [{ command: "set local work_mem = '8MB'" }]
  const price = { amount: 5, currency: 'EUR' }
  const inserts = [
    ...['after_row', 'before_row'].map(table => ({ table, values })),
    ...[4, 5, 6].map(id => ({ table: 'priced', values: [{ id, price }] }))
  ]
  for (const insert of inserts) {
    t.equal((await post([{ id: 'i', op: 'insert', ...insert }, plain])).status, 200)
  }
  t.equal(await countRetries(), before)
})
