/**
 * Tests computed columns, which are functions of a row that are read as columns. Each function is
 * called as often as in handwritten SQL. returning.test.ts has names of aggregates.
 */
import t from 'tap'
import { untilBlocked } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const schema = `
  create table t (id int primary key, a int, data jsonb);
  insert into t select i, i % 4, jsonb_build_object('x', i % 3) from generate_series(1, 12) as i;
  create sequence calls;
  create function price(t) returns int language plpgsql volatile as $$
    begin perform nextval('calls'); return $1.a * 2; end $$;
  create function doc(t) returns jsonb language plpgsql volatile as $$
    begin perform nextval('calls'); return $1.data; end $$;
  create function text_doc(t) returns json language plpgsql volatile as $$
    begin
      perform nextval('calls');
      return format('{"x":{"b" : 1.10,"a":%s}}', ($1.data ->> 'x'))::json; end $$;
  create function note(t) returns text language plpgsql volatile as $$
    begin perform nextval('calls'); return 'red fox ' || $1.id; end $$;
  create function words(t) returns setof text language sql as $$
    select unnest(array['a', 'b', 'c']) $$;
  create function docs(t) returns setof jsonb language sql as $$
    select jsonb_build_object('x', i, 'y', -i) from generate_series(1, 2) as i $$;
  create function strict_id(t) returns int language plpgsql volatile as $$
    begin
      if $1.id is null then raise exception 'called without a row'; end if;
      perform nextval('calls'); return $1.id; end $$;`

const { post, database } = await useService(t, { schema })
const { sql } = database

/** Runs a select and returns its rows and the number of function calls. */
async function select (
  select: object,
  before: readonly object[] = []
): Promise<{ rows: any, calls: number }> {
  await sql`select setval('calls', 1, false)`
  const { status, text, body } = await post([...before, op.select('s', 't', select)])
  if (status !== 200) throw new Error(text)
  const [{ n } = { n: 0 }] = await sql<Array<{ n: number }>>`
    select (last_value - (not is_called)::int)::int as n from calls`
  return { rows: body.data.s, calls: n }
}

t.test('a function that returns a set multiplies the rows once', async t => {
  const all = await select({
    columns: ['id', 'words'],
    where: { id: { lte: 2 } },
    order: [{ id: 'asc' }]
  })
  t.strictSame(all.rows, [1, 2].flatMap(id => ['a', 'b', 'c'].map(words => ({ id, words }))))
  const groups = await select({
    columns: ['words', { fn: 'count' }],
    group_by: ['words'],
    order: [{ words: 'asc' }]
  })
  t.strictSame(groups.rows, ['a', 'b', 'c'].map(words => ({ words, count: 12 })))
  const paths = await select({
    columns: ['id', 'docs->y', 'docs->>x', 'docs'],
    where: { id: { eq: 1 } },
    order: [{ 'docs->x': 'asc' }]
  })
  t.strictSame(paths.rows, [1, 2].map(x => ({ id: 1, y: -x, x: `${x}`, docs: { x, y: -x } })))
})

t.test('a volatile function is called once for each row', async t => {
  const first = [op.select('f', 't', { order: [{ id: 'asc' }], columns: ['id', 'a'] })]
  const group = (column: string): object => ({
    columns: [column, { fn: 'count' }],
    group_by: [column],
    order: [{ [column]: 'asc' }]
  })
  const ordered = (column: string): object => ({ columns: [column], order: [{ [column]: 'asc' }] })
  const filters = [
    { note: { fts: 'fox' } },
    { strict_id: { in: [3, '$f.0.id', '$f.1.id'] } },
    { strict_id: { gt: { any: [3, '$f.0.id'] } } }
  ]
  const once: readonly object[] = [
    { columns: ['id', 'price'], order: [{ price: 'asc' }], limit: 3 },
    { columns: ['id'], order: [{ price: 'desc' }], limit: 3 },
    ...['price', 'doc->>x', 'text_doc->x'].map(group),
    { columns: [{ fn: 'sum', column: 'price' }] },
    ...['doc->x', 'text_doc->x', 'text_doc->>x'].map(ordered),
    {
      columns: ['id', 'text_doc->x', { column: 'text_doc->x', as: 'again' }, 'text_doc->x->a'],
      order: [{ 'text_doc->x->a': 'asc' }, { 'text_doc->x': 'desc' }, { id: 'asc' }],
      limit: 2
    },
    { columns: [{ fn: 'count', column: 'text_doc->x' }], order: [{ count: 'asc' }] },
    ...filters.map(where => ({ columns: ['id'], where }))
  ]
  for (const query of once) {
    t.equal((await select(query, first)).calls, 12, JSON.stringify(query))
  }
  const limited = { columns: ['id', 'price'], order: [{ id: 'asc' }], limit: 3 }
  t.equal((await select(limited)).calls, 3)
  await sql`select setval('calls', 1, false)`
  const insert = op.insert('i', 't', [{ id: 20, a: 1 }, { id: 21, a: 2 }], {
    returning: ['id', 'price']
  })
  const inserted = await post([insert], { headers: { prefer: 'tx=rollback' } })
  t.strictSame(inserted.body.data.i, [{ id: 20, price: 2 }, { id: 21, price: 4 }])
  t.same(await sql`select last_value::int from calls`, [{ last_value: 2 }])
})

t.test('a path into json is returned unchanged and ordered as jsonb', async t => {
  const order = [{ 'text_doc->x': 'desc' }, { id: 'asc' }]
  const { text } = await post([
    op.select('s', 't', { columns: ['id', 'text_doc->x'], order, offset: 3, limit: 2 })
  ])
  t.match(
    text.replaceAll(/,\s*\n\s*/g, ','),
    '[{"id":11,"x":{"b" : 1.10,"a":2}},{"id":1,"x":{"b" : 1.10,"a":1}}]'
  )
})

t.test('a row that is locked after a wait is returned in its latest state', async t => {
  const pending = await sql.begin(async sql => {
    await sql`update t set data = '{"x": 7}' where id = 1`
    const waiting = post([op.select('s', 't', {
      columns: ['data->x', { column: 'text_doc->x->a', as: 'a' }],
      where: { id: { eq: 1 } },
      order: [{ 'text_doc->x->a': 'asc' }],
      lock: 'update'
    })])
    await untilBlocked(database)
    return { waiting }
  })
  t.same((await pending.waiting).body.data, { s: [{ x: 7, a: 7 }] })
})

t.test('the JSON null is compared only with JSON', async t => {
  const where = (column: string): object =>
    op.select('s', 't', { where: { [column]: { eq: { $value: null } } } })
  t.match((await post([where('doc')])).body, { data: { s: [] } })
  t.match((await post([where('note')])).body.error, { code: 'value_invalid', message: /"note"/ })
})
