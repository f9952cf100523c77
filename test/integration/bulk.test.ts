/**
 * Tests large batches. Rows that need no change are passed to PostgreSQL as the text that was sent,
 * and the results are the same as for rows that are serialized again. Growth is asserted by counts,
 * never by times.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { parseJson, writeJson, type Json, type JsonObject } from '../../src/json/parse.ts'
import type { InsertNode, PlanNode } from '../../src/plan/nodes.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { compile } from '../../src/sql/compile.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const limits = {
  schemas: ['public'] as [string], maxRows: 10_000, maxConditions: 1000, maxWork: 100_000
}
/** JSON text of as many rows as one batch may insert. `more` returns the members after `id`. */
const rowsOf = (more: (i: number) => string, count = 10_000): string =>
  `[${Array.from({ length: count }, (_, i) => `{"id":${i}${more(i)}}`).join()}]`
const insertOf = (rows: string, id = 'a'): string =>
  `{"id":"${id}","op":"insert","table":"t","values":${rows}}`

function plan (body: string): readonly PlanNode[] {
  return planBatch(parseJson(Buffer.from(body)) as unknown as Batch, limits).operations
}

function piecesOf (node: PlanNode | undefined): ReadonlyArray<readonly string[]> {
  return (node as InsertNode).groups.map(({ rows }) => rows.document.pieces)
}

t.test('rows that need no change are passed on as the text that was sent', async t => {
  const rows: Readonly<Record<string, string>> = {
    text: rowsOf(i => `,"v":"ä€😀 ${i} {}[]:, values"`),
    numbers: rowsOf(() => ',"v":1.10,"w":9007199254740993,"x":-0,"y":1e400'),
    nested: rowsOf(i => `,"v":{"values":[${i},[{"values":[]}]]}`),
    'keys that are integers': rowsOf(() => ',"v":{"b":1,"0":2}')
  }
  for (const [name, text] of Object.entries(rows)) {
    t.same(piecesOf(plan(`[${insertOf(text)}]`)[0]), [[text]], name)
  }
  const [first, second, third] = plan(
    `[${insertOf(rows['text'] as string)},${insertOf('[{"id":1}]', 'b')},${
      insertOf(rows['numbers'] as string, 'c')
    }]`
  )
  t.same([first, second, third].map(piecesOf), [[[rows['text']]], [['[{"id":1}]']], [[
    rows['numbers']
  ]]], 'each operation has its own rows')
})

t.test('many rows are normalized in the same way as one value', async t => {
  const written = (text: string): string => JSON.stringify(parseJson(Buffer.from(text)))
  const cases: Readonly<Record<string, string>> = {
    'white space': rowsOf(() => ', "v" : { "a" : 1.10 }'),
    'the spelling of escapes': rowsOf(() => ',"v":"\\u00e4\\/"'),
    'a name with escapes': rowsOf(() => ',"v\\u0061":"b"')
  }
  for (const [name, text] of Object.entries(cases)) {
    t.same(piecesOf(plan(`[${insertOf(text)}]`)[0]), [[written(text)]], name)
  }
})

t.test('references and $$ are resolved in many rows', async t => {
  const rows = rowsOf(i => `,"v":"${i === 7 ? '$first.0.id' : i === 8 ? '$$first' : '$5'}"`)
  const [, node] = plan(`[${insertOf('[{"id":1}]', 'first')},${insertOf(rows)}]`)
  t.same(piecesOf(node), [rows.replace('"$$first"', () => '"$first"').split('"$first.0.id"')])
  const escaped = rows.replaceAll('"$', '"\\u0024')
  t.same(
    piecesOf(plan(`[${insertOf('[{"id":1}]', 'first')},${insertOf(escaped)}]`)[1]), piecesOf(node),
    'also if the $ is written as an escape'
  )
})

t.test('rows with different columns are serialized in groups', async t => {
  const rows = rowsOf(i => i < 5000 ? ',"v":1.10' : '')
  const halves = rows.slice(1, -1).split(',{"id":5000')
  t.same(piecesOf(plan(`[${insertOf(rows)}]`)[0]), [[`[${halves[0]}]`], [
    `[{"id":5000${halves[1]}]`
  ]])
})

t.test('only the member "values" of an operation is passed on as text', async t => {
  const rows = rowsOf(() => ',"v":"a"')
  const bodies = [
    `{"x":{"values":${rows}}}`, `[[{"values":${rows}}]]`, `[1,[${rows}]]`, `[{"value":${rows}}]`,
    `[{"a\\"values":${rows}}]`, `[{"values":{"a":${rows}}}]`, rows
  ]
  for (const body of bodies) {
    const value = parseJson(Buffer.from(body))
    t.equal(writeJson(value), JSON.stringify(value), body.slice(0, 30))
  }
  const [, operation] = parseJson(
    Buffer.from(`[0,{"returning":${rows},"values":${rowsOf(() => ',"v":"b"')}}]`)
  ) as readonly [Json, JsonObject]
  t.equal(writeJson(operation['returning'] as Json), rows)
  t.equal(writeJson(operation['values'] as Json), rowsOf(() => ',"v":"b"'))
})

/** Triggers suppress rows whose id is a multiple of 5. */
const schema = `
  create table t (id int primary key, v numeric, j json);
  create table wide (id int, v text);

  -- every kind of relation that accepts inserts
  create table plain (id int primary key, a int default -1, b int default -2);
  create table parted (like plain including all) partition by range (id);
  create table low partition of parted for values from (0) to (500);
  create table high partition of parted for values from (500) to (1000);
  create table base (like plain including all);
  create view simple as select b, a, id from base;
  create view nowhere as select 0 as id, 0 as a, 0 as b;
  alter view nowhere alter a set default -1, alter b set default -2;
  create table ruled (like plain including all);
  create rule ruled as on insert to ruled do instead insert into plain values (new.*) returning *;
  create table noted (like plain including all);
  create table notes (like plain);
  create table guarded (like plain including all);
  alter table guarded enable row level security;
  create policy everything on guarded using (true) with check (id >= 0);

  create function suppress() returns trigger language plpgsql as
    $$ begin return case when new.id % 5 > 0 then new end; end $$;
  create trigger suppress before insert on plain for each row execute function suppress();
  create trigger suppress before insert on parted for each row execute function suppress();
  create trigger suppress before insert on base for each row execute function suppress();
  create trigger suppress instead of insert on nowhere for each row execute function suppress();
  create trigger suppress before insert on guarded for each row execute function suppress();

  -- Inserts other rows and rolls half of them back.
  create function note() returns trigger language plpgsql as $$ begin
    begin
      insert into notes select x.* from json_populate_recordset(null::notes,
        json_build_array(to_json(new), to_json(new))) as x;
      if new.id % 2 = 0 then raise 'undo'; end if;
    exception when raise_exception then null; end;
    return case when new.id % 5 > 0 then new end;
  end $$;
  create trigger note before insert on noted for each row execute function note();

  create table numbered (id int generated always as identity, a int);
  create trigger suppress before insert on numbered for each row execute function suppress();
  create table resetting (id int primary key, a int, b int);
  create function reset_all() returns trigger language plpgsql as $$ begin
    if new.id % 3 > 0 then reset all; end if;
    return case when new.id < 1000 then new end; end $$;
  create trigger reset_all before insert on resetting for each row execute function reset_all();
  create table items (id int primary key, a int default 7, b text default 'b', c numeric,
    e jsonb, f text[]);
  create table seeds (like items including all);
  insert into seeds select n, -1, 'old' from generate_series(0, 9999, 3) as n;
  grant all on all tables in schema public to oneflight_user;`
const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '16000000' } })
const { sql } = service.database

t.test('the maximum number of rows is stored and returned with every digit', async t => {
  const rows = rowsOf(i => `,"v":${i}.10,"j":{"b":${i},"0":[1e400,"ä"]}`)
  const inserted = await service.post(`[${insertOf(rows)}]`)
  t.equal(inserted.status, 200)
  const [stored] = await sql<[{ rows: string, n: number }]>`
    select json_agg(t order by id)::text as rows, count(*)::int as n from t`
  t.equal(stored.n, 10_000)
  t.equal(stored.rows.replaceAll(/,\s+/g, ','), rows)
  t.equal(inserted.text, `{"error":null,"data":{"a":${stored.rows}}}`)
  const selected = await service.post([op.select('all', 't', {
    order: [{ id: 'asc' }]
  }), op.select('one', 't', { where: { id: { eq: 1 } } })])
  const [single = ''] = /\{"id":1,.*/.exec(stored.rows) ?? []
  const last = single.replace(/, *$/, '')
  t.equal(selected.text, `{"error":null,"data":{"all":${stored.rows},"one":[${last}]}}`)
  t.equal(Number(selected.headers.get('content-length')), Buffer.byteLength(selected.text))
})

t.test('a response of 50 MB arrives completely', async t => {
  const text = randomBytes(2500).toString('hex')
  await sql`insert into wide select n, ${text} from generate_series(1, 10000) n`
  const { status, body, headers, text: response } = await service.post([
    op.select('a', 'wide'), op.select('b', 'wide', { limit: 1 })
  ])
  t.equal(status, 200)
  t.ok(response.length > 50_000_000)
  t.equal(Number(headers.get('content-length')), response.length)
  t.equal(body.data.a.length, 10_000)
  t.ok(
    body.data.a.every(({ id, v }: { id: number, v: string }, i: number) =>
      id === i + 1 && v === text
    )
  )
  t.same(body.data.b, [{ id: 1, v: text }])
})

t.test('rows with mixed columns keep their order in every kind of relation', async t => {
  const values = Array.from({ length: 1000 }, (_, i) => {
    const id = i * 7 % 1000
    return i % 2 === 0 ? { id, a: i } : { b: i, id }
  })
  const expected = values.filter(({ id }) => id % 5 > 0).map(row => ({ a: -1, b: -2, ...row }))
  for (const table of ['plain', 'parted', 'simple', 'nowhere', 'ruled', 'noted', 'guarded']) {
    await sql`truncate plain`
    const insert = op.insert('i', table, values)
    const allColumns = await service.post([insert], { headers: { prefer: 'tx=rollback' } })
    t.same(allColumns.body.data?.i, expected, table)
    const returning = ['a', { column: 'id', as: 'x' }]
    const someColumns = await service.post([{ ...insert, returning }])
    t.same(someColumns.body.data?.i, expected.map(({ id, a }) => ({ a, x: id })), table)
  }
})

t.test('rows without columns are inserted among others', async t => {
  const values = Array.from({ length: 300 }, (_, i) => i % 2 === 0 ? {} : { a: i })
  const { body } = await service.post([op.insert('i', 'numbered', values)])
  // The rows without columns are inserted first and have the numbers from 1 to 150.
  const numbered = values.map((row, i) => ({
    id: i % 2 === 0 ? i / 2 + 1 : 150 + (i + 1) / 2, a: null, ...row
  }))
  t.same(body.data?.i, numbered.filter(({ id }) => id % 5 > 0))
})

t.test('a trigger that resets settings does not mix up rows with mixed columns', async t => {
  const rows = (count: number): object[] =>
    Array.from({ length: count }, (_, id) => id % 2 === 0 ? { id, a: id } : { id, b: id })
  const insert = (values: object[]): object => op.insert('i', 'resetting', values)
  const post = (...operations: object[]): ReturnType<typeof service.post> =>
    service.post(operations, { headers: { prefer: 'tx=rollback' } })
  const all = rows(300)
  t.same((await post(insert(all))).body.data?.i, all.map(row => ({ a: null, b: null, ...row })))
  // The trigger suppresses rows of one group and resets the settings for rows of the other.
  const apart = all.map((_, i) => i % 2 === 0 ? { id: 6 * i, a: i } : { id: 3 * i + 1, b: i })
  const kept = apart.filter(({ id }) => id < 1000)
  const returning = ['id']
  const response = await post({ ...insert(apart), returning })
  t.same(response.body.data?.i, kept.map(({ id }) => ({ id })))
  const { status, body } = await post(insert(rows(1002)))
  const error = { code: 'internal', op: 'i', committed: false, retryable: false }
  t.match({ status, error: body.error }, { status: 500, error })
  t.match(body.error?.message, /^A trigger reset the settings of the session/)
  t.same((await post({ ...insert(rows(1002)), returning: [] })).body.data?.i, [])
})

/** Rows that name five different sets of columns. The number of a row decides which. */
const shapes: ReadonlyArray<(id: number) => object> = [
  id => ({ id, a: id }), id => ({ b: `text ${id}`, id }), id => ({ id, a: id, c: 1.5 }),
  id => ({ id, e: { x: id } }), id => ({ id, b: null, f: ['x', 'y'] })
]
const mixes: Readonly<Record<string, (i: number) => number>> = {
  'in alternation': i => i % 5,
  'at random': i => (i * 7919 % 104729) % 5,
  'in as many runs as groups are allowed': i => Math.floor(i / 50) % 5,
  'in a few more runs': i => Math.floor(i / 49) % 5
}
const mixRows = (shapeOf: (i: number) => number, count = 10_000): object[] =>
  Array.from({ length: count }, (_, i) => (shapes[shapeOf(i)] as (id: number) => object)(i))

t.test('the maximum number of rows of a few shapes is inserted however they are mixed', async t => {
  const defaults = { a: 7, b: 'b', c: null, e: null, f: null }
  const rollback = { headers: { prefer: 'tx=rollback' } }
  for (const [i, [mix, shapeOf]] of Object.entries(mixes).entries()) {
    const values = mixRows(shapeOf) as ReadonlyArray<{ readonly id: number, readonly a?: number }>
    const insert = op.insert('i', 'items', values)
    await sql`truncate items`
    const plain = await service.post([insert], rollback)
    t.strictSame(plain.body.data?.i, values.map(row => ({ ...defaults, ...row })), mix)
    await sql`insert into items select * from seeds`
    const isNew = ({ id }: { readonly id: number }): boolean => id % 3 > 0
    // The action on a conflict does not depend on the mix: the two take turns.
    if (i % 2 === 0) {
      const nothing = { columns: ['id'], do: 'nothing' }
      const kept = await service.post([{ ...insert, on_conflict: nothing }], rollback)
      const added = values.filter(isNew).map(row => ({ ...defaults, ...row }))
      t.strictSame(kept.body.data?.i, added, `${mix}, do nothing`)
      continue
    }
    const saved = await service.post([{
      ...insert,
      on_conflict: { columns: ['id'], do: 'update', set: { a: { $excluded: 'a' } } },
      returning: ['id', 'a', 'b', { fn: 'inserted' }]
    }])
    t.match(
      saved.body.data?.i,
      values.map(row => ({
        id: row.id, a: row.a ?? 7, ...isNew(row) ? {} : { b: 'old' }, inserted: isNew(row)
      })),
      `${mix}, do update`
    )
    const [stored] = await sql`
      select count(*)::int as n, count(*) filter (where b = 'old')::int as old from items`
    t.same(stored, { n: 10_000, old: 3334 })
  }
})

t.test('the statement of mixed rows does not grow with their number', async t => {
  const session = { role: 'r', claims: '{}' }
  const texts = [1000, 10_000].map(count => {
    const values = JSON.stringify(mixRows(i => i % 5, count))
    const operation = planBatch(
      parseJson(Buffer.from(`[${insertOf(values)}]`)) as unknown as Batch, limits
    )
    t.equal((operation.operations[0] as InsertNode).groups.length, 5)
    const [statement] = compile(operation, { session, maxRows: 10_000, maxBytes: 100_000 })
    return statement?.text
  })
  t.equal(texts[0], texts[1])
})
