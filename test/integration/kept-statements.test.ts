/**
 * Tests that a service that keeps types of columns, plans and prepared statements answers and
 * stores like one that starts anew or prepares nothing: for batches of the same shape, and when
 * triggers change the session or suppress rows. ddl-words.test.ts does the same after schema
 * changes.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useTwins } from '../support/twins.ts'
import { token, useService } from '../support/service.ts'
import { trapSchema } from '../support/database/triggers.ts'

/** More than it takes until the plan of a shape is used. */
const TIMES = 6

t.test('each caller has its own role and claims', async t => {
  const { post } = await useService(t, {
    env: { POOL_SIZE: '1' },
    schema: `create table accounts (id int primary key, owner text not null, balance numeric);
      grant all on accounts to oneflight_user, oneflight_other;
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

const row = { f: 0.1, raw: '\\x00ff' }
const insert = (id: string): object =>
  ({ id, op: 'insert', table: 't', values: [{ id: 1, ...row }] })
/** What a trigger does, and the code of the response if it must not. */
const commands: ReadonlyArray<readonly [command: string, code?: string]> = [
  ['deallocate all'],
  ['discard plans'],
  ["do $x$ begin for i in 1..3000 loop raise notice 'a notice of a trigger'; end loop; end $x$"],
  ['select 1 / 0', 'division_by_zero'],
  ['copy t to stdout', 'feature_not_supported'],
  ['commit', 'feature_not_supported']
]

t.test('a trigger changes the session: prepared statements have the same effect', async t => {
  const twins = await useTwins(t, { schema: sessionSchema, env: { LOG_LEVEL: 'error' } })
  const select = op.select('s', 't', { where: { at: { eq: '2026-01-02T03:04:05' } } })
  // A text that was seen is prepared by the next batch, and used by the one after it.
  for (const [command, code] of [['select 1'], ['select 1'], ...commands] as typeof commands) {
    const trap = op.insert('trap', 'trap', [{ commands: [command] }], { returning: [] })
    const { body } = await twins.post([insert('a'), trap, insert('b'), select], command, {
      prefer: 'tx=rollback'
    })
    t.equal(body.error?.code, code, command)
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
