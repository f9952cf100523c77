/**
 * Tests paths into composites and arrays, wherever a path may stand. They mean the same as in the
 * JSON of the column.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type point2 as (x float8, y numeric);
  create type address as (street text, no numeric, tags text[], "a->b" int, at point2, doc json);
  create domain numbers as numeric[] check (cardinality(value) < 9);
  create domain home as address check (true);
  create domain second_home as home;
  create table places (id int primary key, home address, homes address[], nums numeric[],
    grid int[][], checked numbers, second second_home, doc json, data jsonb, n int, words text[]);
  insert into places (id, home, homes, nums, grid, checked, second, doc, data, n, words) values
    (1, row('Elm', 12345678901234567890.10, '{a,b}', 7, row('-0', 1.50), '{"k" : 1.0}'),
      array[row('Oak', 1, null, null, null, null)::address], '{1.10,2}', '{{1,2},{3,4}}', '{5}',
      row('Fir', 3, null, null, null, null), '{"l": [1.0, 2]}', '{"l": [1, 2]}', 1,
      '{apple cakes,wine}'),
    (2, row('Ash', 2, '{}', null, null, null), '{}', '{2,NaN}', '{}', '{6.0}',
      row('Yew', null, null, null, null, null), '{"l": [3]}', '{"l": [3]}', 1, '{apple}'),
    (3, null, null, null, null, null, null, null, null, 2, null);
  create table visits (place int, word text);
  insert into visits values (1, 'Elm'), (1, 'b'), (2, 'Ash');
  create view streets as select id, home, nums from places;
  create table parts (id int, nums int[]) partition by range (id);
  create table part partition of parts default;
  insert into parts values (1, '{7,8}');
  create table narrow (id int, home address, secret address);
  insert into narrow values (1, row('Elm', 1, null, null, null, null), null);
  grant all on places, visits, streets, parts to oneflight_user;
  grant select (id, home) on narrow to oneflight_user;
`
const service = await useService(t, { schema })
const rollback = { headers: { prefer: 'tx=rollback' } }
const read = (members: object): object =>
  op.select('o', 'places', { order: [{ id: 'asc' }], ...members })

t.test('columns are returned as in the JSON of the column, with every digit', async t => {
  const columns = [
    'home->street', 'home->>no', 'home->tags->-1', 'home->a', 'home->at->x', 'home->at->>y',
    'home->doc', 'homes->0->>street', 'nums->0', 'nums->>1', 'grid->1->0', 'checked->0',
    'second->street', 'doc->l->0', 'data->l->1'
  ].map((column, i) => ({ column, as: `c${i}` }))
  const { text } = await service.post([read({ columns })])
  t.equal(text, '{"error":null,"data":{"o":[' +
    '{"c0":"Elm","c1":"12345678901234567890.10","c2":"b","c3":null,"c4":-0,"c5":"1.50",' +
    '"c6":{"k" : 1.0},"c7":"Oak","c8":1.10,"c9":"2","c10":3,"c11":5,"c12":"Fir","c13":1.0,' +
    '"c14":2}, \n {"c0":"Ash","c1":"2","c2":null,"c3":null,"c4":null,"c5":null,"c6":null,' +
    '"c7":null,"c8":2,"c9":"NaN","c10":null,"c11":6.0,"c12":"Yew","c13":3,"c14":null}, \n {' +
    columns.map(({ as }) => `"${as}":null`).join(',') + '}]}}')
})

const filters: ReadonlyArray<readonly [where: object, ids: readonly number[]]> = [
  [{ 'home->>street': { eq: { $value: 'Elm' } } }, [1]],
  [{ 'home->>street': { like: 'A%' } }, [2]],
  [{ 'home->no': { gt: 2 } }, [1]],
  [{ 'home->tags': { cs: ['a'] } }, [1]],
  [{ 'home->at->y': { eq: 1.5 } }, [1]],
  [{ 'nums->0': { in: [1.1, 7] } }, [1]],
  [{ 'grid->0->1': { between: [1, 3] } }, [1]],
  [{ or: [{ 'second->>street': { in: ['Yew'] } }, { id: { eq: 9 } }] }, [2]],
  [{ 'home->no': { eq: { $col: 'nums->0' } } }, [2]],
  [{ 'words->0': { fts: 'cake' } }, [1]],
  [{ 'words->>0': { plfts: { query: 'apples', config: 'english' } } }, [1, 2]],
  [{ 'home->a->b': { is: null } }, [1, 2, 3]]
]

t.test('filters, in reads and in changes', async t => {
  for (const [where, ids] of filters) {
    const rows = ids.map(id => ({ id }))
    const { body } = await service.post([
      read({ where, columns: ['id'] }),
      op.update('u', 'places', { set: { n: 5 }, where, returning: ['id'] }),
      op.delete('d', 'places', { where, returning: ['id'] })
    ], rollback)
    // Without an order, the rows come as they lie in the table, where PostgreSQL may move them.
    const sorted = Object.entries<ReadonlyArray<{ readonly id: number }>>(body.data)
      .map(([id, found]) => [id, found.toSorted((a, b) => a.id - b.id)])
    t.same(Object.fromEntries(sorted), { o: rows, u: rows, d: rows }, JSON.stringify(where))
  }
})

t.test('order, groups, pages, having, distinct and aggregates', async t => {
  const { body, text } = await service.post([
    read({ id: 'order', columns: ['id', 'home->no'], order: [{ 'home->no': 'desc' }] }),
    read({
      id: 'name', columns: ['id'], order: [{ 'nums->>0': { nulls: 'last', direction: 'desc' } }]
    }),
    read({
      id: 'page',
      columns: ['id'],
      order: [{ 'home->>street': 'desc' }, { id: 'asc' }],
      after: ['Elm', 1]
    }),
    read({
      id: 'group',
      order: [{ 'words->>0': 'desc' }],
      group_by: ['words->>0'],
      columns: [
        { column: 'words->>0', as: 'w' },
        { fn: 'count', column: 'home->street' },
        { fn: 'sum', column: 'checked->>0', cast: 'numeric' }
      ]
    }),
    read({
      id: 'having',
      columns: ['id', { column: 'nums', as: 'values' }, 'home'],
      having: { 'values->0': { eq: 2 }, 'home->>street': { eq: 'Ash' } }
    }),
    read({
      id: 'star', columns: ['*', { column: 'id', as: 'k' }], having: { 'nums->0': { eq: 2 } }
    }),
    read({
      id: 'distinct', columns: [{ column: 'checked->5', as: 'none' }], distinct: true, order: []
    })
  ])
  t.match(body.data, {
    order: [{ id: 3 }, { id: 1 }, { id: 2 }],
    name: [{ id: 2 }, { id: 1 }, { id: 3 }],
    page: [{ id: 2 }],
    group: [
      { w: null, count: 0, sum: null },
      { w: 'apple cakes', count: 1, sum: 5 },
      { w: 'apple', count: 1, sum: 6 }
    ],
    having: [{ id: 2 }],
    star: [{ id: 2, k: 2 }],
    distinct: [{ none: null }]
  }, text)
})

t.test('other tables, conflicts, references and what a change returns', async t => {
  const home = { street: 'Pine', no: 9 }
  const { body, text } = await service.post([
    op.insert(
      'saved', 'places',
      [{ id: 1, home, nums: [8] }, { id: 9, home }],
      {
        on_conflict: {
          columns: ['id'],
          do: 'update',
          set: { n: { $inc: 1 }, data: { $excluded: 'home->street' } },
          where: { 'home->>street': { eq: 'Elm' }, 'nums->0': { neq: { $excluded: 'nums->0' } } }
        },
        returning: ['id', 'home->>street', 'data', { fn: 'inserted' }]
      }
    ),
    op.delete('deleted', 'places', {
      where: { id: { eq: 2 } },
      returning: [{ column: 'nums->>1', as: 'x' }, { column: 'home->no', cast: 'text', as: 'y' }]
    }),
    op.insert('word', 'visits', [{ word: '$saved.1.street' }]),
    op.select('visits', 'visits', {
      columns: ['word'],
      where: {
        word: { eq: '$saved.1.street' },
        exists: { table: 'places', on: { n: 'place' }, where: { 'homes->0->no': { eq: 1 } } }
      }
    }),
    op.select('nested', 'visits', {
      where: { word: { eq: 'b' } },
      columns: ['word'],
      with: {
        at: {
          table: 'places',
          on: { id: 'place' },
          one: true,
          columns: ['home->>street', 'nums->0'],
          where: { 'home->tags->1': { eq: 'b' } },
          order: [{ 'home->no': 'asc' }]
        }
      }
    }),
    op.select('view', 'streets', {
      where: { 'home->no': { eq: '$saved.1.id' } }, columns: ['home->>street']
    }),
    op.update('parts', 'parts', {
      set: { id: 2 }, where: { 'nums->1': { eq: 8 } }, returning: ['id', 'nums->0']
    })
  ], rollback)
  t.same(body.data, {
    saved: [
      { id: 1, street: 'Elm', data: 'Pine', inserted: false },
      { id: 9, street: 'Pine', data: null, inserted: true }
    ],
    deleted: [{ x: 'NaN', y: '2' }],
    word: [{ place: null, word: 'Pine' }],
    visits: [],
    nested: [{ word: 'b', at: { street: 'Elm', nums: 1.1 } }],
    view: [{ street: 'Pine' }],
    parts: [{ id: 2, nums: 7 }]
  }, text)
})

t.test('the rows of from', async t => {
  const { body, text } = await service.post([
    op.insert('copied', 'visits', undefined, {
      from: { table: 'places', where: { 'home->no': { eq: 2 } }, columns: ['nums', 'home'] },
      columns: { place: { $col: 'id' }, word: { $col: 'home->>street' } }
    }),
    op.insert('grouped', 'visits', undefined, {
      from: {
        table: 'places',
        columns: ['words', 'id'],
        group_by: ['words', 'id'],
        where: { 'words->1': { eq: 'wine' } }
      },
      columns: { place: { $col: 'id' }, word: { $col: 'words->>1' } }
    }),
    op.update('joined', 'visits', {
      set: { place: { $inc: { $from: 'id' } } },
      from: {
        table: 'places',
        columns: ['words', 'id'],
        group_by: ['words', 'id'],
        on: { word: 'words->>1' }
      },
      where: { word: { eq: { $from: 'words->>1' } } }
    })
  ], rollback)
  t.same(body.data, {
    copied: [{ place: 2, word: 'Ash' }],
    grouped: [{ place: 1, word: 'wine' }],
    joined: [{ place: 2, word: 'wine' }]
  }, text)
})

t.test('a path into an array is no boolean', async t => {
  const { body } = await service.post([read({ where: { 'nums->0': { is: true } } })])
  t.match(body.error, { code: 'datatype_mismatch', message: /argument of IS TRUE must be type/ })
})

t.test('a column without a path is refused, and nothing happens', async t => {
  const uses = [
    read({ where: { 'n->a': { is: null } } }),
    read({ columns: ['n->>0'] }),
    op.update('o', 'places', { set: { id: 8 }, where: { 'n->a': { is: null } } }),
    op.delete('o', 'places', { where: { 'n->>a': { is: null } } }),
    op.delete('o', 'places', { all: true, returning: ['id', 'n->a'] })
  ]
  const first = op.delete('first', 'visits', { all: true })
  for (const operation of uses) {
    for (const batch of [[operation], [first, operation]]) {
      const { status, body } = await service.post(batch)
      t.match({ status, error: body.error }, {
        status: 400,
        error: {
          code: 'undefined_function',
          op: 'o',
          message: /^Column "n" has no path: paths go into json, jsonb, arrays and composites/
        }
      })
    }
  }
  t.equal((await service.database.sql`select * from places`).length, 3)
  t.equal((await service.database.sql`select * from visits`).length, 3)
})

t.test('a path needs no more privileges than its column', async t => {
  const select = op.select('o', 'narrow', { columns: ['home->>street'] })
  t.same((await service.post([select])).body.data, { o: [{ street: 'Elm' }] })
  const { status, body } = await service.post([{ ...select, columns: ['secret->>street'] }])
  t.match({ status, error: body.error }, { status: 403, error: { code: 'insufficient_privilege' } })
})
