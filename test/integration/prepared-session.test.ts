/**
 * Tests that a service that prepares statements answers like one that does not when triggers change
 * the session or its prepared statements, suppress rows, or raise notices, and when responses are
 * stored for a key.
 */
import t from 'tap'
import { trapSchema } from '../support/database/triggers.ts'
import { token, useService } from '../support/service.ts'
import { useTwins } from '../support/twins.ts'

const schema = `
  ${trapSchema}
  create table t (id int, at timestamptz default '2026-01-02 03:04:05+00', f float8, raw bytea,
    role name default current_user, claims text default current_setting('request.jwt.claims'));
  create schema other;
  create table other.t (id int);
  create table before (commands text[]);
  create function run() returns trigger language plpgsql as $$
    declare command text;
    begin
      for command in select unnest(commands) from script where timing = tg_argv[0] loop
        execute command;
      end loop;
      return null;
    end $$;
  create table script (timing text, commands text[]);
  create table staged (id int);
  create trigger first before insert on staged for each statement execute function run('before');
  create trigger last after insert on staged for each statement execute function run('after');
  create table picky (id int, name text);
  create function skip() returns trigger language plpgsql as $$
    begin if new.name = 'skip' then return null; end if; return new; end $$;
  create trigger skip before insert or update on picky for each row execute function skip();
  create table many (n int);
  insert into many select generate_series(1, 5);
  create table kinds (a text, b jsonb, c json, d numeric, e timestamptz, f float8, g bytea);
  grant usage on schema other to oneflight_user, oneflight_other;
  grant all on all tables in schema public, other to oneflight_user, oneflight_other;`

const trap = (...commands: readonly string[]): object =>
  ({ id: 'trap', op: 'insert', table: 'trap', values: [{ commands }], returning: [] })
const row = { f: 0.1, raw: '\\x00ff' }
const insert = (id: string): object =>
  ({ id, op: 'insert', table: 't', values: [{ id: 1, ...row }] })
const select = { id: 's', op: 'select', table: 't', where: { at: { eq: '2026-01-02T03:04:05' } } }
const update = { id: 'u', op: 'update', table: 't', set: { at: '2026-01-02T03:04:05' }, all: true }
const staged = { id: 'staged', op: 'insert', table: 'staged', values: [{ id: 1 }] }

const commands = [
  'set role oneflight_other',
  'set role none',
  'set local role none',
  'reset role',
  'reset all',
  'set search_path = other',
  "set timezone = 'Asia/Tokyo'",
  "set datestyle = 'German'",
  "set bytea_output = 'escape'",
  'set extra_float_digits = -10',
  "set client_encoding = 'LATIN1'",
  'select set_config(\'request.jwt.claims\', \'{"role":"x"}\', true)',
  'select set_config(\'request.jwt.claims\', \'{"role":"x"}\', false)',
  'set session authorization default',
  'deallocate all',
  'discard plans',
  'prepare x as select 1',
  "do $x$ begin for i in 1..3000 loop raise notice 'a notice of a trigger'; end loop; end $x$",
  'listen gossip',
  'notify gossip',
  'select 1 / 0',
  'copy t to stdout',
  'commit'
]

/** The commands that a trigger must not run, and the code of the response. */
const refused: Readonly<Record<string, string>> = {
  'select 1 / 0': 'division_by_zero',
  'copy t to stdout': 'feature_not_supported',
  commit: 'feature_not_supported'
}
const stored = {
  id: 1,
  at: '2026-01-02T03:04:05+00:00',
  ...row,
  role: 'oneflight_user',
  claims: /"sub":"twin"/
}

t.test('a trigger changes the session: prepared statements have the same effect', {
  timeout: 240_000
}, async t => {
  const twins = await useTwins(t, { schema, env: { LOG_LEVEL: 'error' } })
  const post = async (batch: readonly object[], name: string): Promise<unknown> => {
    const { body: { data, error } } = await twins.post(batch, name)
    for (const rows of [data?.a, data?.b]) {
      if (rows !== undefined) t.match(rows, [stored], `${name}: what other operations store`)
    }
    return error?.code
  }
  const uses = { id: 'r', op: 'select', table: 'many', where: { n: { eq: '$a.0.id' } } }
  const postTrap = async (command: string): Promise<void> => {
    const codes = [
      await post([insert('a'), trap(command), insert('b'), select, update], `${command}: row`),
      await post([insert('a'), uses, select, trap(command)], `${command}: last`),
      await post([trap(command), insert('a'), uses], `${command}: first`)
    ]
    t.same(codes, Array(3).fill(refused[command]), command)
  }
  const postStaged = async (before: string, after: string): Promise<void> => {
    await twins.sql(`truncate script; insert into script values
      ('before', array[$q$${before}$q$]), ('after', array[$q$${after}$q$])`)
    const name = `${before}, ${after}`
    await post([insert('a'), staged, uses, insert('b'), update], `${name}: staged`)
    await post([insert('a'), uses, staged], `${name}: staged is last`)
    await post([staged], `${name}: only staged`)
  }
  const quiet = 'select 1'
  // A text that was seen is prepared by the next batch, and used by the one after it.
  await postTrap(quiet)
  await postStaged(quiet, quiet)
  for (const command of commands) {
    await postTrap(quiet)
    await postTrap(command)
    for (const [before, after] of [
      [command, 'set local role oneflight_user'],
      ['set local role oneflight_other', command],
      [command, 'reset all']
    ] as const) {
      await postStaged(quiet, quiet)
      await postStaged(before, after)
    }
    await twins.compare(
      'select role, claims, at, count(*)::int from t group by 1, 2, 3 order by 1, 2, 3',
      command
    )
    await twins.sql('truncate t, staged, trap, script')
  }
})

t.test('suppressed rows, expectations and limits have the same effect', async t => {
  const twins = await useTwins(t, { schema, env: { MAX_ROWS: '4', LOG_LEVEL: 'error' } })
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
  const twins = await useTwins(t, { schema, keys: true, env: { LOG_LEVEL: 'error' } })
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
      schema: `${schema}
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

t.test('a BEGIN that a function replaced leaves nothing that is reported as failed', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema,
    env: { POOL_SIZE: '1', LOG_LEVEL: 'error' }
  })
  const authorization = `Bearer ${token({ role: 'oneflight_user', sub: 'one' })}`
  const replace = `do $do$ declare r record; begin
    for r in select name from pg_prepared_statements where statement like 'begin%' loop
      execute format('deallocate %I', r.name);
      execute format('prepare %I as select 1', r.name);
    end loop; end $do$`
  const results: unknown[] = []
  for (let i = 0; i < 12; i++) {
    const n = 100 + i
    const { status, body } = await post([
      { id: 'i', op: 'insert', table: 'many', values: [{ n }] },
      ...i % 4 === 3 ? [trap(replace)] : []
    ], { headers: { authorization } })
    const count = (await sql`select from many where n = ${n}`).length
    results.push([status, body.error?.committed ?? true, count])
    if (status === 200) t.equal(count, 1)
    else if (body.error.committed === false) t.equal(count, 0, 'nothing is applied')
  }
  t.comment(JSON.stringify(results))
})
