/**
 * Tests that a service that keeps types of columns, plans and prepared statements answers and
 * stores like one that starts anew or prepares nothing: after schema changes, for batches of the
 * same shape, and when triggers change the session, suppress rows or raise notices.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'
import { useTwins, type Twins } from '../support/twins.ts'
import { token, useService } from '../support/service.ts'
import { trapSchema } from '../support/database/triggers.ts'

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
    if (!isTaken(i >> 1, 2)) continue
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

const accountsSchema = `
  create table accounts (id int primary key, owner text not null, balance numeric(12, 2) not null,
    active bool, tags jsonb, note text, seen timestamptz, constraint funded check (balance >= 0));
  create table entries (n int generated always as identity (start 1000) primary key,
    account int not null references accounts, amount numeric(12, 2), doc json);
  grant all on all tables in schema public to oneflight_user, oneflight_other;`

/** More than it takes until the plan of a shape is used. */
const TIMES = 6

interface Case {
  readonly name: string
  /** The batch; `i` makes each one different. */
  readonly batch: (i: number) => readonly object[]
  readonly headers?: Readonly<Record<string, string>>
}

const open = (i: number): object => op.insert('open', 'accounts', [{
  id: i,
  owner: `owner "${i}" $5.00 é`,
  balance: i + 0.5,
  active: i % 2 === 0,
  tags: { i, list: [i, `${i}`] },
  note: i % 2 === 0 ? null : `$2b$${i}`,
  seen: `2024-01-0${1 + i % 9}T00:00:00Z`
}])

const cases: readonly Case[] = [
  {
    name: 'an insert that others read',
    batch: i => [
      open(i),
      op.insert('entry', 'entries', [
        { account: '$open.0.id', amount: i, doc: [i, { a: `${i}` }] }
      ]),
      op.select('all', 'entries', { where: { account: { eq: '$open.0.id' } } })
    ]
  },
  {
    name: 'a computed value and several conditions',
    batch: i => [op.update('paid', 'accounts', {
      set: { balance: { $inc: i }, note: `paid ${i}`, tags: { $merge: { paid: i } } },
      where: {
        id: { between: [0, i] },
        or: [{ owner: { like: `%${i}%` } }, { not: { balance: { lt: i } } }],
        note: { isdistinct: `paid ${i}` }
      },
      returning: ['id', 'balance', 'note', 'tags']
    })]
  },
  {
    name: 'rows of values for keys, of which two are sometimes equal',
    batch: i => [op.update('paid', 'accounts', {
      key: ['id', { column: 'owner', as: 'was' }],
      values: [
        { id: 1, was: 'owner "1" $5.00 é', balance: { $inc: i }, tags: { i }, note: `n${i}` },
        {
          id: [0, 2, 3, 1, '1', 1e0][i] ?? i,
          was: 'owner "1" $5.00 é',
          balance: { $inc: 2 },
          tags: [i],
          note: null
        }
      ],
      returning: ['id', 'balance', 'note', 'tags']
    })]
  },
  {
    name: 'json paths',
    batch: i => [op.select('found', 'accounts', {
      columns: ['id'],
      where: { 'tags->i': { gte: i }, 'tags->>i': { neq: `${i}` } },
      order: [{ id: 'asc' }]
    })]
  },
  {
    name: 'values of other types',
    batch: i => [op.select('found', 'accounts', {
      columns: ['id'],
      where: { id: { eq: [1, '2', 1e2, 12345678901, '', 'x'][i] } }
    })]
  },
  {
    name: 'an expectation that sometimes fails',
    batch: i => [op.select('one', 'accounts', { where: { id: { eq: i * 2 } }, expect: 1 })]
  },
  {
    name: 'a value that sometimes does not fit',
    batch: i => [
      op.select('first', 'entries', { limit: 1 }),
      op.insert('entry', 'entries', [
        { account: 1, amount: '1' },
        { account: 2, amount: i === 4 ? 'much' : `${i}` }
      ])
    ]
  },
  {
    name: 'a constraint that sometimes fails',
    batch: i => [
      op.update('a', 'accounts', { set: { balance: i === 4 ? -i : i }, all: true }),
      op.insert('entry', 'entries', [{ account: i === 5 ? 77 : 1 }])
    ]
  },
  {
    name: 'a referenced row that is sometimes missing',
    batch: i => [
      op.select('found', 'accounts', { where: { id: { eq: i === 4 ? 99 : 1 } } }),
      op.insert('entry', 'entries', [{ account: '$found.0.id', amount: i }])
    ]
  },
  {
    name: 'minimal answers',
    batch: i => [open(10 + i), op.delete('d', 'entries', { where: { amount: { eq: i } } })],
    headers: { prefer: 'return=minimal' }
  },
  { name: 'a dry run', batch: i => [open(20 + i)], headers: { prefer: 'tx=rollback' } },
  {
    name: 'query plans',
    batch: i => [op.select('s', 'accounts', { where: { id: { eq: i } } })],
    headers: { prefer: 'explain' }
  }
]

t.test('batches of one shape have the answers and the effects of their own values', async t => {
  const { post, compare, restartSecond } = await useTwins(t, {
    schema: accountsSchema, env: { EXPLAIN: 'on' }
  })
  // The first case stores what the others read.
  for (const group of [cases.slice(0, 1), cases.slice(1)]) {
    const succeeded = new Set<string>()
    for (let i = 0; i < TIMES; i++) {
      await restartSecond()
      for (const { name, batch, headers } of group) {
        if ((await post(batch(i), `${name}, ${i}`, headers)).status === 200) succeeded.add(name)
        await compare('select * from accounts order by id', name)
        await compare('select * from entries order by n', name)
      }
    }
    t.same(group.filter(({ name }) => !succeeded.has(name)), [])
  }
})

t.test('each caller has its own role and claims', async t => {
  const { first: { post } } = await useTwins(t, {
    schema: `${accountsSchema}
      alter table accounts enable row level security;
      create policy own on accounts using (owner =
        current_setting('request.jwt.claims')::json ->> 'sub' || ' ' || current_user);`
  })
  for (let i = 0; i < TIMES; i++) {
    for (const role of ['oneflight_user', 'oneflight_other']) {
      const sub = `caller ${i}`
      const row = { id: 2 * i + (role === 'oneflight_user' ? 0 : 1), balance: 0 }
      const { status, body } = await post([
        op.insert('a', 'accounts', [{ ...row, owner: `${sub} ${role}` }]),
        op.select('mine', 'accounts', { columns: ['id'] })
      ], { headers: { authorization: `Bearer ${token({ role, sub })}` } })
      t.equal(status, 200)
      t.same(body.data.mine, [{ id: row.id }], `${sub} ${role}`)
    }
  }
})

const sessionSchema = `
  ${trapSchema}
  create table t (id int, at timestamptz default '2026-01-02 03:04:05+00', f float8, raw bytea,
    role name default current_user, claims text default current_setting('request.jwt.claims'));
  create table picky (id int, name text);
  create function skip() returns trigger language plpgsql as $$
    begin if new.name = 'skip' then return null; end if; return new; end $$;
  create trigger skip before insert or update on picky for each row execute function skip();
  create table many (n int);
  insert into many select generate_series(1, 5);
  create table kinds (a text, b jsonb, c json, d numeric, e timestamptz, f float8, g bytea);
  grant all on all tables in schema public to oneflight_user, oneflight_other;`

const trap = (...commands: readonly string[]): object =>
  ({ id: 'trap', op: 'insert', table: 'trap', values: [{ commands }], returning: [] })
const row = { f: 0.1, raw: '\\x00ff' }
const insert = (id: string): object =>
  ({ id, op: 'insert', table: 't', values: [{ id: 1, ...row }] })
const select = { id: 's', op: 'select', table: 't', where: { at: { eq: '2026-01-02T03:04:05' } } }
const update = { id: 'u', op: 'update', table: 't', set: { at: '2026-01-02T03:04:05' }, all: true }

/** What a trigger does, and the code of the response if it must not. */
const commands: ReadonlyArray<readonly [command: string, code?: string]> = [
  ['set role oneflight_other'],
  ["set timezone = 'Asia/Tokyo'"],
  ['set extra_float_digits = -10'],
  ['deallocate all'],
  ['discard plans'],
  ["do $x$ begin for i in 1..3000 loop raise notice 'a notice of a trigger'; end loop; end $x$"],
  ['listen gossip'],
  ['notify gossip'],
  ['select 1 / 0', 'division_by_zero'],
  ['copy t to stdout', 'feature_not_supported'],
  ['commit', 'feature_not_supported']
]
const stored = {
  id: 1,
  at: '2026-01-02T03:04:05+00:00',
  ...row,
  role: 'oneflight_user',
  claims: /"sub":"twin"/
}

t.test('a trigger changes the session: prepared statements have the same effect', async t => {
  const twins = await useTwins(t, { schema: sessionSchema, env: { LOG_LEVEL: 'error' } })
  const uses = { id: 'r', op: 'select', table: 'many', where: { n: { eq: '$a.0.id' } } }
  // A text that was seen is prepared by the next batch, and used by the one after it.
  for (const [command, code] of [['select 1'], ['select 1'], ...commands] as typeof commands) {
    for (const batch of [
      [insert('a'), trap(command), insert('b'), select, update],
      [insert('a'), uses, select, trap(command)],
      [trap(command), insert('a'), uses]
    ]) {
      const { body: { data, error } } = await twins.post(batch, command)
      t.equal(error?.code, code, command)
      for (const rows of [data?.a, data?.b]) {
        if (rows !== undefined) t.match(rows, [stored], `${command}: what other operations store`)
      }
    }
    await twins.compare(
      'select role, claims, at, count(*)::int from t group by 1, 2, 3 order by 1, 2, 3',
      command
    )
    await twins.sql('truncate t, trap')
  }
})

t.test('suppressed rows, expectations and limits have the same effect', async t => {
  const twins = await useTwins(t, {
    schema: sessionSchema, env: { MAX_ROWS: '4', LOG_LEVEL: 'error' }
  })
  const skip = { id: 1, name: 'skip' }
  const picky = (...values: readonly object[]): object =>
    ({ id: 'p', op: 'insert', table: 'picky', values })
  const many = (op: string, more: object = {}): object =>
    ({ id: op[0], op, table: 'many', ...more })
  const select = (where: object): object => many('select', { where })
  const n = { eq: '$p.0.id' }
  const rows: ReadonlyArray<readonly object[]> = [
    [picky(skip)],
    [{ ...picky(skip), expect: 1 }],
    [{ ...picky(skip), expect: 0 }],
    [picky(skip), many('update', { set: { n: '$p.0.id' }, where: { n: { eq: 77 } } })],
    [picky(skip), select({ n: { eq: 77 }, not: { n } })],
    [picky(skip), many('delete', { where: { n } })],
    [picky(skip), many('insert', { values: [{ n: '$p.0.id' }] })],
    [picky(skip, { id: 2, name: 'x' }), select({ n })],
    [picky(skip, { id: 2, name: 'x' }), select({ n: { eq: '$p.1.id' } })],
    [many('select')],
    [select({ n: { lte: 4 } })],
    [many('update', { set: { n: 1 }, where: { n: { gt: 0 } } })],
    [many('insert', { values: Array(4).fill({ n: 9 }), expect: 4 })],
    [many('select', { where: { n: { eq: 1 } }, expect: { min: 2 } })]
  ]
  for (const [i, batch] of rows.entries()) {
    for (const headers of [{ prefer: 'tx=rollback' }, { prefer: 'tx=rollback, return=minimal' }]) {
      for (let j = 0; j < 3; j++) await twins.post(batch, `${i} ${headers.prefer} ${j}`, headers)
    }
  }
  await twins.compare('select * from many order by 1', 'many')
})

t.test('rows of an insert have the bytes of json_agg; replays have the same bytes', async t => {
  const twins = await useTwins(t, {
    schema: sessionSchema, keys: true, env: { LOG_LEVEL: 'error' }
  })
  const values = [
    { a: 'x"\\\n\u2028é😀', b: { z: 1.10, a: [null, -0] }, c: { z: 1 }, d: '1.10', f: 'NaN' },
    { a: '', b: '5', c: 'x', d: '12345678901234567890.10', e: '2024-01-01T00:00+05', g: '\\x00ff' },
    { a: null, e: 'infinity', f: '-0', d: 'NaN' }
  ]
  const empty = Object.fromEntries([...'abcdefg'].map(name => [name, null]))
  for (const returning of [undefined, ['a'], ['e', 'd'], []]) {
    for (const count of [1, 2, 3]) {
      const all = values.map(value => ({ ...empty, ...value }))
      const output = returning === undefined ? {} : { returning }
      const batch = [
        { id: 'i', op: 'insert', table: 'kinds', values: all.slice(0, count), ...output },
        { id: 'one', op: 'insert', table: 'kinds', values: all.slice(-1), ...output }
      ]
      for (let i = 0; i < 3; i++) {
        const name = `${count} rows of ${String(returning)} ${i}`
        await twins.post(batch, name)
        const key = { 'idempotency-key': name.replaceAll(' ', '-') }
        const first = await twins.post(batch, `${name}, with a key`, key)
        const again = await twins.post(batch, `${name}, replayed`, key)
        t.equal(again.text, first.text, `${name}: the same bytes`)
        t.equal(again.headers.get('idempotent-replayed'), 'true', name)
      }
    }
  }
  await twins.compare('select k::text from kinds as k order by 1', 'kinds')
})

t.test('equal operations are prepared once, and none with PREPARED_STATEMENTS=off', async t => {
  for (const mode of ['on', 'off']) {
    const { post } = await useService(t, {
      schema: `${sessionSchema}
        create view prepared as
          select count(*)::int as n, count(distinct statement)::int as distinct
          from pg_prepared_statements where statement ~ '"t"';
        grant select on prepared to oneflight_user;`,
      env: { POOL_SIZE: '1', LOG_LEVEL: 'error', PREPARED_STATEMENTS: mode }
    })
    const batch = Array.from({ length: 5 }, (_, i) => insert(`i${i}`))
    for (let i = 0; i < 5; i++) {
      t.equal((await post(batch)).status, 200)
      const { body } = await post([{ id: 'p', op: 'select', table: 'prepared' }])
      const [{ n, distinct }] = body.data.p
      t.equal(n, distinct)
      t.equal(n > 0, mode === 'on')
    }
  }
})
