/**
 * `on_conflict` with JSON paths, partial indexes, errors, privileges and views. model.test.ts has
 * its other forms.
 */
import t from 'tap'
import { untilBlocked } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { renderRows } from '../support/operations.ts'
import { useService, type Answer } from '../support/service.ts'

const columns =
  `k int primary key, code text, n int default 7, note text default 'default', j jsonb,
  kind text generated always as (code || '!') stored`
const schema = `
  create table t (${columns}, constraint by_code unique (code));
  create table twin (${columns}, constraint twin_by_code unique (code));
  create table src (id int);
  insert into src values (5);
  create table digits (k int, big bigint, num numeric);
  create unique index on digits (k)
    where big = 9007199254740993 and num = 12345678901234567890.1234567890;
  create table present (k int, "exists" boolean);
  create unique index on present (k) where "exists" = true;
  create table base (k int primary key, n int);
  create view renamed as select n as amount, k as key from base;
  create function double() returns trigger language plpgsql as $$ begin new.n := new.n * 2;
    return new; end $$;
  create trigger double before insert or update on base for each row execute function double();
  insert into base values (1, 1);
  create table counted (k int primary key, n int);
  create table mixed (id int primary key, a int default -1, b int default -2);
  create table owned (k int primary key, owner text
    default current_setting('request.jwt.claims')::json ->> 'role', n int);
  insert into owned values (1, 'oneflight_user', 1), (2, 'oneflight_other', 2);
  alter table owned enable row level security;
  create policy mine on owned
    using (owner = current_setting('request.jwt.claims')::json ->> 'role');
  grant all on all tables in schema public to oneflight_user;
  create table narrow (k int primary key, n int);
  insert into narrow values (1, 1);
  grant insert, select (k), update (n) on narrow to oneflight_user;
`
const names = 'k, code, n, note, j'
const seeds = `
  truncate t, twin;
  insert into t (${names}) values
    (1, 'a', 10, 'one', '{"v": 1}'), (2, 'b', 20, null, null), (3, 'c', null, 'three', '{"v": 3}');
  insert into twin (${names}) select ${names} from t`

/** [values, on_conflict, the insert into twin (as x), a copy of the table, in SQL] */
const inserts: ReadonlyArray<readonly [values: string, onConflict: string, sql: string]> = [
  ['[{"k":1}]', '{"columns":["k"],"do":"update"}',
    '(k) values (1) on conflict (k) do update set k = excluded.k'],
  ['[{"k":1,"code":"x"}]', '{"columns":["k"],"do":"update","where":{"exists":{"table":"owned",' +
    '"on":{"k":"k"},"where":{"owner":{"neq":{"$excluded":"code"}}}}}}',
    `(k, code) values (1, 'x') on conflict (k) do update set code = excluded.code
      where exists (select from owned o where o.k = x.k and o.owner <> excluded.code)`],
  ['[{"k":1,"j":{"deep":{"name":"x","list":[1.10,2]}}}]',
    '{"columns":["k"],"do":"update","set":{"note":{"$excluded":"j->deep->>name"},' +
    '"j":{"$excluded":"j->deep->list->0"}}}',
    '(k, j) values (1, $$ {"deep":{"name":"x","list":[1.10,2]}}$$) on conflict (k) do ' +
    'update set note = excluded.j->$$deep$$->>$$name$$, j = excluded.j->$$deep$$->$$list$$->0'],
  ['[{"k":1,"j":{"v":1}},{"k":3,"j":{"v":4}}]',
    '{"columns":["k"],"do":"update","where":{"j->v":{"eq":{"$excluded":"j->v"}}}}',
    '(k, j) values (1, $$ {"v":1}$$), (3, $$ {"v":4}$$) on conflict (k) do update set j = ' +
    'excluded.j where x.j->$$v$$ = excluded.j->$$v$$']
]

const service = await useService(t, { schema, keys: true })
const { sql } = service.database
const contents = (table: string): Promise<string> =>
  renderRows(sql, `select ${names} from ${table} order by k`)

t.test('each insert returns and stores the same rows as the insert in SQL', async t => {
  for (const [values, onConflict, query] of inserts) {
    for (const [returning, list] of [
      ['', 'x.*'],
      [',"returning":["n",{"column":"k","as":"key"},"j->v"]', "x.n, x.k as key, x.j->'v' as v"]
    ] as const) {
      await sql.unsafe(seeds)
      const { text } = await service.post(`[{"id":"o","op":"insert","table":"t",
        "values":${values},"on_conflict":${onConflict}${returning}}]`)
      const inserted = `with r as (insert into twin as x ${query} returning ${list})`
      t.equal(
        text.slice(text.lastIndexOf('"o":[') + 4, -2),
        await renderRows(sql, 'select * from r', inserted),
        encodeURI(`${values} ${onConflict}, in the order of values`)
      )
      t.equal(await contents('t'), await contents('twin'))
    }
  }
})

t.test('the JSON null is not NULL', async t => {
  await sql.unsafe(seeds)
  const { text } = await service.post([op.insert('o', 't', [{ k: 1 }], {
    on_conflict: { columns: ['k'], do: 'update', set: { j: { $value: null } } }
  })])
  t.same([...await sql`select j::text from t where k = 1`], [{ j: 'null' }], text)
})

t.test('numbers of index_where keep every digit', async t => {
  const insert = (id: string): string => `{"id":"${id}","op":"insert","table":"digits",
    "values":[{"k":1,"big":9007199254740993,"num":12345678901234567890.1234567890}],
    "on_conflict":{"columns":["k"],"index_where":{"big":{"eq":9007199254740993},
      "num":{"eq":12345678901234567890.1234567890}},"do":"nothing"}}`
  const { body, text } = await service.post(`[${insert('a')},${insert('b')}]`)
  t.equal(body.data?.b.length, 0, text)
})

t.test('index_where can name a column like a word of filters', async t => {
  const insert = {
    op: 'insert',
    table: 'present',
    values: [{ k: 1, exists: true }],
    on_conflict: { columns: ['k'], index_where: { exists: { eq: true } }, do: 'nothing' }
  }
  const { body, text } = await service.post([{ id: 'a', ...insert }, { id: 'b', ...insert }])
  t.match(body.data, { a: [{ k: 1 }], b: [] }, text)
})

t.test('an error of PostgreSQL names the insert, and nothing is written', async t => {
  await sql.unsafe(seeds)
  const before = await contents('t')
  const updates = (members: object): object => ({ columns: ['k'], do: 'update', ...members })
  const one = [{ k: 1 }]
  const rows: ReadonlyArray<
    readonly [values: object[], onConflict: object, code: string, more?: object]
  > = [
    [[{ k: 9 }, { k: 9 }], updates({}), 'cardinality_violation'],
    [[{ k: 9 }, { k: 9, n: 1 }], updates({ set: { n: 1 } }), 'cardinality_violation'],
    [[{ k: 1 }, { k: 1, n: 1 }], updates({ set: { n: 1 } }), 'cardinality_violation'],
    [one, { columns: ['n'], do: 'nothing' }, 'invalid_column_reference', {
      path: ['on_conflict', 'columns'],
      message: 'Table "t" has no unique index with exactly these columns. For a partial index, ' +
        'write its condition as "index_where".'
    }],
    [one, { columns: ['nope'], do: 'nothing' }, 'undefined_column'],
    [one, { constraint: 'nope', do: 'nothing' }, 'undefined_object',
      { path: ['on_conflict', 'constraint'] }],
    [one, updates({ set: { n: { $excluded: 'nope' } } }), 'undefined_column'],
    [one, updates({ set: { n: { $excluded: 'note' } } }), 'datatype_mismatch'],
    [[{ k: 1, n: 5 }], updates({ set: { kind: 'x' } }), 'generated_always'],
    [[{ k: 9, code: 'a' }], updates({}), 'unique_violation', { status: 409 }],
    [[{ k: 99 }], updates({ set: { n: '$src.9.id' } }), 'reference_row_missing', { status: 422 }],
    [[{ k: 99 }], updates({ set: { n: 1 }, where: { n: { eq: '$src.nope' } } }),
      'reference_column_missing', { status: 422 }]
  ]
  for (const [values, onConflict, code, more] of rows) {
    const { body, ...answer } = await service.post([
      op.insert('first', 't', [{ k: 100 }]),
      op.select('src', 'src'),
      op.insert('o', 't', values, { on_conflict: onConflict })
    ])
    const error = { type: 'execution_error', code, op: 'o', index: 2, committed: false }
    t.match({ ...body.error, status: answer.status }, { status: 400, ...error, ...more },
      encodeURI(`${JSON.stringify([values, onConflict])} ${answer.text}`))
  }
  t.equal(await contents('t'), before)
})

t.test('row level security and privileges apply', async t => {
  const upsert = (k: number, conflict: object = { do: 'update', set: { n: 50 } }): object =>
    op.insert('o', 'owned', [{ k, n: 5 }], { on_conflict: { columns: ['k'], ...conflict } })
  t.match((await service.post([upsert(1)])).body, { data: { o: [{ k: 1, n: 50 }] } })
  t.match(await service.post([upsert(2)]), {
    status: 403,
    body: { error: { code: 'insufficient_privilege', op: 'o', committed: false } }
  })
  const kept = await service.post([upsert(2, { do: 'nothing' })])
  t.same(kept.body, { error: null, data: { o: [] } })
  t.same(await sql`select k, n from owned order by k`, [{ k: 1, n: 50 }, { k: 2, n: 2 }])

  const narrow = op.insert('o', 'narrow', [{ k: 1, n: 5 }], { returning: [] })
  const rows: ReadonlyArray<readonly [onConflict: Record<string, unknown>, status: number]> = [
    [{ columns: ['k'], do: 'nothing' }, 200],
    [{ columns: ['k'], do: 'update', set: { n: { $excluded: 'n' } } }, 403],
    [{ columns: ['k'], do: 'update', set: { n: 8 } }, 200],
    [{ columns: ['k'], do: 'update' }, 403],
    [{ columns: ['k'], do: 'update', set: { n: { $inc: 1 } } }, 403],
    [{ columns: ['n'], do: 'nothing' }, 400]
  ]
  for (const [onConflict, status] of rows) {
    const answer = await service.post([{ ...narrow, on_conflict: onConflict }])
    t.equal(answer.status, status, encodeURI(`${JSON.stringify(onConflict)} ${answer.text}`))
  }
  t.same(await sql`select * from narrow`, [{ k: 1, n: 8 }])
})

const unknownKey = differsOneByOne('the key of a constraint is not known')
t.test('without `set`, the key is not set', unknownKey, async t => {
  const schema = `
    create table kept (a int, "b""c" text collate "C", v int, w int, at int default 0,
      constraint "the ""key""" unique (a, "b""c"));
    create unique index on kept (a) where w = 1;
    create function touch() returns trigger language plpgsql as $$ begin
      new.at := new.at + 1; return new; end $$;
    create trigger touch before update of a, "b""c" on kept for each row execute function touch();
    insert into kept values (1, 'x', 1, 1);
    grant select, insert, update (v) on kept to oneflight_user;
    create table hidden (k int primary key, v int);
    grant insert, select, update (v) on hidden to oneflight_user;
    insert into hidden values (1, 1);
    create view seen as select k, v from hidden;
    grant insert, select, update (v) on seen to oneflight_user;`
  const service = await useService(t, { schema })
  const { sql } = service.database
  const upsert = (values: unknown, target: object, table = 'kept'): object =>
    op.insert('o', table, values, { on_conflict: { ...target, do: 'update' } })
  const key = 'b"c'
  const constraint = 'the "key"'
  let v = 1
  for (const [values, target] of [
    [[{ a: 1, [key]: 'x' }], { columns: ['a', key] }],
    [[{ a: 1, [key]: 'x' }], { columns: [key, 'a'] }],
    [[{ a: 1, [key]: 'x' }], { constraint }],
    [[{ a: 1, [key]: 'x' }, { a: 2, [key]: 'y' }], { constraint }]
  ] as const) {
    for (let times = 0; times < 3; times++) {
      v++
      const rows = values.map(row => ({ ...row, v }))
      const answer = await service.post([upsert(rows, target)])
      const about = `${JSON.stringify(target)} ${v}`
      t.match(answer, { status: 200, body: { data: { o: rows } } }, about)
    }
  }
  t.same(await sql`select v, at from kept where a = 1`, [{ v, at: 0 }], 'no trigger of the key')
  t.match(await service.post([op.insert('o', 'kept', undefined, {
    from: { table: 'kept', where: { a: { eq: 1 } } },
    columns: { a: { $col: 'a' }, [key]: { $col: key }, v: 70 },
    on_conflict: { constraint, do: 'update' }
  })]), { status: 200, body: { data: { o: [{ v: 70, at: 0 }] } } })
  for (const table of ['hidden', 'seen']) {
    t.match(await service.post([upsert([{ k: 1, v }], { columns: ['k'] }, table)]), {
      status: 200, body: { data: { o: [{ k: 1, v }] } }
    }, table)
  }
  // A column that is not of the key is set, so it needs its privilege.
  for (const [row, target] of [
    [{ a: 1, [key]: 'x', w: 1 }, { constraint }],
    [{ a: 1, w: 1, v: 1 }, { columns: ['a'], index_where: { w: { eq: 1 } } }],
    [{ a: 1, [key]: 'x' }, { constraint }]
  ] as const) t.equal((await service.post([upsert([row], target)])).status, 403)
})

t.test('on_conflict works with views and triggers that change rows', async t => {
  const { body, text } = await service.post([
    op.insert('v', 'renamed', [{ key: 1, amount: 5 }, { key: 2, amount: 6 }], {
      on_conflict: { columns: ['key'], do: 'update', where: { amount: { eq: 2 } } }
    }),
    op.insert('w', 'renamed', [{ key: 1, amount: 5 }], {
      on_conflict: { columns: ['key'], do: 'update', set: { amount: { $inc: 1 } } }
    })
  ])
  t.same(body.data, {
    v: [{ amount: 20, key: 1 }, { amount: 12, key: 2 }],
    w: [{ amount: 42, key: 1 }]
  }, text)
})

t.test('a constraint that changes after the snapshot of the batch has its new key', async t => {
  await sql.unsafe(`create table keyed (a int, b int, n int, constraint one unique (a));
    grant all on keyed to oneflight_user; insert into keyed values (1, 1, 1);
    insert into counted values (9, 1)`)
  const upsert = (a: number, n: number): object => op.insert('o', 'keyed', [{ a, b: 1, n }], {
    on_conflict: { constraint: 'one', do: 'update' }
  })
  t.equal((await service.post([upsert(1, 2)])).status, 200, 'the key is known')
  let answer: Promise<Answer> | undefined
  await sql.begin(async tx => {
    await tx`select from counted for update`
    answer = service.post([
      op.select('wait', 'counted', { lock: 'update', answer: 'count' }),
      upsert(7, 3)
    ], { headers: { prefer: 'isolation=repeatable-read' } })
    await untilBlocked(service.database)
    await sql`alter table keyed drop constraint one, add constraint one unique (b)`
  })
  t.match((await answer)?.body.data, { o: [{ a: 7, b: 1, n: 3 }] })
})

/** A row of a request. Missing columns take the defaults of table `mixed`. */
interface Mixed {
  readonly id: number
  readonly a?: number
  readonly b?: number
}
/** Rows that alternate between two sets of columns, with unique, unordered keys. */
const alternating = (count: number): Mixed[] =>
  Array.from({ length: count }, (_, i) => {
    const id = i * 7 % count
    return i % 2 === 0 ? { id, a: i } : { b: i, id }
  })

const nothing = { columns: ['id'], do: 'nothing' }

t.test('up to 200 runs of rows are inserted in the order of values', async t => {
  await sql`truncate mixed`
  // The second and the last row have the same key. If runs with the same columns are merged, the
  // last row is in the first group.
  const values = (runs: number): Mixed[] =>
    [{ id: -1 }, { id: 0, a: 1 }, ...alternating(runs - 2).slice(1), { id: 0 }]
  const inserted = async (runs: number): Promise<unknown> => {
    const insert = { op: 'insert', table: 'mixed', values: values(runs), on_conflict: nothing }
    const found = { op: 'select', table: 'mixed', columns: ['a'], where: { id: { eq: 0 } } }
    const batch = [{ id: 'i', ...insert, returning: [] }, { id: 's', ...found }]
    return (await service.post(batch, { headers: { prefer: 'tx=rollback' } })).body.data?.s
  }
  t.same(await inserted(200), [{ a: 1 }])
  t.same(await inserted(201), [{ a: -1 }])
})

t.test('too many different sets of columns are rejected', async t => {
  const insert = { id: 'i', op: 'insert', table: 'mixed' }
  const rejects = async (members: object, limit: string): Promise<void> => {
    const { status, body } = await service.post([{ ...insert, ...members }])
    const message = `${limit}. Name the same columns in more rows, ` +
      'or divide the rows among several operations.'
    t.equal(status, 422)
    const issue = { op: 'i', index: 0, code: 'rows_limit', path: ['values'], message }
    t.same(body.error?.errors, [issue])
  }
  const shapes = (count: number): object[] =>
    Array.from({ length: count }, (_, i) => ({ id: i, [`c${i}`]: i }))
  for (const members of [{}, { on_conflict: nothing }]) {
    await rejects(
      { values: shapes(201), ...members },
      'The rows name 201 different sets of columns; at most 200 are allowed'
    )
  }
  // The other members of the operation are repeated in the SQL for each group of rows.
  const set = (count: number, value: unknown = 1): object => ({
    columns: ['id'],
    do: 'update',
    set: Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, value])),
    where: { not: { or: [{ a: { eq: 1 } }, { b: { eq: 1 } }] } }
  })
  const limits: ReadonlyArray<readonly [conflict: object, parts: number, most: number]> = [
    [set(49), 51, 98],
    [set(17, { $merge: { a: 1 } }), 53, 94]
  ]
  for (const [conflict, parts, most] of limits) {
    await rejects(
      { values: shapes(100), on_conflict: conflict },
      `The rows name 100 different sets of columns; at most ${most} are allowed with ${parts} ` +
        'values, conditions and columns in "on_conflict" and "returning" ' +
        '("$append" and "$merge" count three times)'
    )
  }
  const { body } = await service.post([{ ...insert, values: shapes(100), on_conflict: set(48) }])
  t.match(body.error, { code: 'undefined_column' })
  await sql`truncate mixed`
  // 100 runs of rows again, but with only two different sets of columns.
  const values = alternating(100)
  const returning = Array.from({ length: 51 }, (_, i) => ({ column: 'id', as: `c${i}` }))
  const answer = await service.post([{ ...insert, values, returning }])
  const ids = answer.body.data?.i.map(({ c50 }: { c50: number }) => c50)
  t.same(ids, values.map(({ id }) => id))
})
