/**
 * Tests operations that are sent one by one (DATABASE_ENGINE=sequential): what the service decides
 * between them. `npm run test:one-by-one` runs the tests of the language in this way.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { postBatch } from '../support/shorthand.ts'

const schema = `
  create table t (id int primary key, a int, txt text, list int[], doc jsonb, odd json,
    wait interval, waits interval[]);
  insert into t (id, a, txt, list, doc, odd) values
    (1, 1, repeat('x', 40000), '{1,2}', '{"k": [1]}', null),
    (2, 1, 'two', '{3}', '{"k": [2]}', '1'),
    (3, null, 'k', null, null, null),
    (9, null, null, null, null, '{"b": 1, "b": 2}');
  create table seen (id int, claims text default current_setting('request.jwt.claims'));
  create function forget() returns trigger language plpgsql as $$ begin
    perform set_config('request.jwt.claims', '', true); return null; end $$;
  create trigger forget after insert on seen for each row execute function forget();
  create function twice(a int) returns int language sql as 'select 2 * a';
  create function twice(a text) returns text language sql as 'select a || a';`
const { post, run, url } = await useService(t, {
  schema,
  env: {
    DATABASE_ENGINE: 'sequential',
    MAX_RESPONSE_BYTES: '65536',
    MAX_ROWS: '20',
    MAX_STREAM_ROWS: '100',
    EXPLAIN: 'on'
  },
  batches: {
    store: {
      params: op.rowsOf({ id: true }),
      operations: [{ id: 'i', op: 'insert', table: 't', values: '$params.rows' }]
    },
    join: {
      params: { type: 'object', properties: { x: true }, required: ['x'] },
      operations: [
        op.select('s', 't', { where: { id: { eq: 2 } } }),
        op.update('u', 't', { set: { doc: ['$params.x', '$s.0.id'] }, where: { id: { eq: 2 } } }),
        op.insert('i', 't', [
          { id: 70, doc: ['$params.x', '$s.0.id'] },
          { id: 71, txt: '$params.x' }
        ])
      ]
    }
  }
})
const rollback = { headers: { prefer: 'tx=rollback' } }
const read = (id: number, more = {}): object =>
  op.select('s', 't', { where: { id: { eq: id } }, ...more })

t.test('each row is inserted with the claims of the token, whatever a trigger leaves', async t => {
  const { body } = await post([op.insert('i', 'seen', [{ id: 1 }, { id: 2 }])])
  const [first, second] = body.data.i
  t.match(first.claims, /"role"/)
  t.equal(second.claims, first.claims)
})

t.test('the service refuses what the rows of an operation show', async t => {
  const byKey = (...values: readonly object[]): object =>
    ({ id: 'o', op: 'update', table: 't', key: ['id'], values })
  const upsert = (...ids: readonly unknown[]): object =>
    op.insert('o', 't', ids.map(id => ({ id, a: 5 })), {
      on_conflict: { columns: ['id'], do: 'update' }
    })
  const update = (set: object): object => op.update('o', 't', { set, where: { id: { eq: 3 } } })
  const where = (where: object): object => op.select('o', 't', { where })
  for (const [batch, code, message] of [
    [[read(1), update({ a: '$s.0.list' })], 'value_invalid', /"a"/],
    [[read(1), op.insert('o', 't', [{ id: 80 }, { id: 81, a: '$s.0.list' }])], 'value_invalid',
      /^Row 1 of values, column "a"/],
    [[read(1), update({ list: '$s.0.a' })], 'value_invalid', /takes an array/],
    [[read(1), update({ list: { $append: '$s.*.list' } })], 'value_invalid', /"list", at 0/],
    [[read(1), update({ list: [[1, 2], '$s.0.list'] })], 'value_invalid', /"list", at 1/],
    [[op.insert('o', 't', [{ id: 80, a: 1 }, { id: 81, a: 1 }], {
      on_conflict: { columns: ['id'], do: 'update', set: { a: 1.5 } }
    })], 'value_invalid', /^Column "a": /],
    [[read(9), update({ doc: '$s.0.odd' })], 'value_invalid', /"s" have JSON/],
    [[read(1), where({ wait: { in: '$s.*.list' } })], 'value_invalid', /"wait"/],
    [[{ ...byKey({ a: 1, txt: 'x' }), key: ['a'] }], 'rows_ambiguous', /same key/],
    [[read(1), { id: 'o', op: 'call', function: 'twice', args: { a: '$s.0.id' } }],
      'value_invalid', /take it with different types/],
    [[read(3), byKey({ id: '$s.0.a', a: 1 })], 'value_invalid', /key must not be null/],
    [[read(3), byKey({ id: '$s.0.id', a: 1 }, { id: 3, a: 2 })], 'key_duplicate', /Row 1 /],
    [[read(1), { ...byKey({ list: '$s.0.list', a: 1 }, { list: [1, 2], a: 2 }), key: ['list'] }],
      'key_duplicate', /Row 1 /],
    [[upsert(3, 4, '3')], 'cardinality_violation', /second time/],
    [[op.insert('o', 't', [{ id: 3 }, { id: 3 }], {
      on_conflict: { constraint: 'nope', do: 'update' }
    })], 'undefined_object', /"nope"/],
    [[op.select('s', 't', { order: [{ id: 'asc' }] }), { ...read(1), id: 'o' }],
      'response_too_large', /MAX_RESPONSE_BYTES/]
  ] as const) {
    const { body: { error }, text } = await post(batch)
    t.match(error, { code, message }, text.slice(0, 300))
  }
  const conflict = { columns: ['id'], do: 'update', set: { a: 0.5 } }
  const refused = op.insert('o', 't', [{ id: 80 }, { id: 81, a: 0.5 }], { on_conflict: conflict })
  t.same(
    (await post([refused])).body.error.errors.map(({ path }: { path: unknown }) => path),
    [['on_conflict', 'set', 'a'], ['values', 1, 'a']],
    'a value of all rows is listed once'
  )
  t.match((await post([read(3)])).body.data?.s, [{ id: 3, a: null, doc: null }], 'nothing changed')
})

t.test('rows and values of every kind are sent alone', async t => {
  const values = [
    { id: 1, list: { $append: [9] }, doc: { $merge: { m: 1 } } },
    { id: 2, list: { $append: ['$s.0.id'] }, doc: { $merge: { m: 2 } } }
  ]
  const returning = ['list', 'doc']
  const update = { id: 'u', op: 'update', table: 't', key: ['id'], values, returning }
  t.match((await post([read(3), update], rollback)).body.data?.u, [
    { list: [1, 2, 9], doc: { k: [1], m: 1 } },
    { list: [3, 3], doc: { k: [2], m: 2 } }
  ])
  t.match((await run('join', { x: 'x' }, rollback)).body.data, {
    u: [{ doc: ['x', 2] }], i: [{ id: 70, doc: ['x', 2] }, { id: 71, txt: 'x' }]
  })
  const upserted = op.insert('u', 't', [{ id: 2 }], {
    on_conflict: { columns: ['id'], do: 'update', set: { doc: ['$s.0.id'] } }, returning: ['doc']
  })
  t.match((await post([read(3), upserted], rollback)).body.data?.u, [{ doc: [3] }])
  const empty = op.update('e', 't', { set: { a: 7 }, where: { id: { eq: 2 } }, returning: [] })
  const copied = op.update('c', 't', { set: { doc: '$e.0' }, where: { id: { eq: 3 } } })
  t.match((await post([empty, copied], rollback)).body.data, { e: [], c: [{ doc: {} }] })
  const nested = read(1, { with: { again: { table: 't', on: { id: 'id' } } }, answer: 'count' })
  t.match((await post([nested])).body.data, { s: 1 })
  const none = await run('store', { rows: [] }, { headers: { prefer: 'explain' } })
  t.match(none.body.data?.i, [{ Plan: {} }])
  t.same((await run('store', { rows: [] })).body.data?.i, [])
  const accept = 'application/x-ndjson'
  const { text } = await postBatch(url, [read(2, { columns: ['id'] })], { accept })
  t.match(text, /^\{"id":2\}\n/)
})

t.test('many rows that are not returned refer to earlier operations', async t => {
  const many = (row: (id: number) => object, more = {}): object => op.insert(
    'i', 't', Array.from({ length: 17 }, (_, i) => ({ id: 100 + i, ...row(100 + i) })), more)
  const stored = op.select('o', 't', {
    columns: ['id', 'a', 'txt', 'doc', 'list', 'wait'],
    where: { id: { gte: 100 } },
    order: [{ id: 'asc' }]
  })
  const row = (id: number): object => ({
    a: '$s.0.a',
    txt: `r${id}`,
    doc: { id: '$s.0.id', d: ['$s.0.doc', id] },
    list: '$s.0.list',
    wait: '$s.0.id'
  })
  const expected = Array.from({ length: 17 }, (_, i) => ({
    id: 100 + i,
    a: 1,
    txt: `r${100 + i}`,
    doc: { id: 2, d: [{ k: [2] }, 100 + i] },
    list: [3],
    wait: '00:00:02'
  }))
  for (const more of [
    { answer: 'count' },
    { returning: [] },
    { on_conflict: { columns: ['id'], do: 'update', set: { id: { $excluded: 'id' } } } }
  ]) {
    const { body, text } = await post([read(2), many(row, more), stored], rollback)
    t.strictSame(body.data?.o, expected, text.slice(0, 300))
  }
  const refused = many(id => ({ a: id === 103 ? '$s.0.list' : '$s.0.a' }), { returning: [] })
  t.match((await post([read(2), refused])).body.error, {
    code: 'value_invalid', path: ['values', 3, 'a']
  })
  const unknown = many(() => ({ nope: '$s.0.a' }), { returning: [] })
  t.match((await post([read(2), unknown])).body.error, {
    code: 'undefined_column', path: ['values', 0, 'nope']
  })
})

t.test('the values of earlier operations have a limit', async t => {
  const long = Array.from({ length: 1000 }, () => '$s.0.txt')
  for (const operation of [
    op.insert('o', 't', [{ id: 100, doc: long }]),
    op.insert('o', 't', [{ id: 100, doc: long }, { id: 101 }]),
    op.update('o', 't', { set: { doc: long }, where: { id: { eq: 2 } } })
  ]) {
    const { status, body: { error } } = await post([read(1, { answer: 'count' }), operation])
    t.match({ status, error }, {
      status: 400,
      error: { code: 'program_limit_exceeded', op: 'o', index: 1, message: /33554432 characters/ }
    })
  }
})
