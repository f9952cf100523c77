/**
 * Tests that `after` returns exactly the rows behind the given values, for orders that the random
 * batches of the model do not have: enums, paths and functions, with NULLs in both directions.
 */
import t from 'tap'
import { assertIssues } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('wild', 'calm');
  create table items (id int primary key, a int, b text, m mood, data jsonb);
  insert into items select i, nullif(i % 4, 0), nullif(chr(97 + i * 7 % 3), 'a'),
    (array['wild', 'calm', null])[i % 3 + 1]::mood,
    case when i % 4 > 0 then jsonb_build_object('k', i % 3, 's', nullif(i % 2, 1)::text) end
    from generate_series(1, 24) as i;
  create type pair as (x int, y text);
  alter table items add c pair;
  update items set c = (nullif(id % 5, 1), null) where id % 4 > 0;
  create function label(items) returns text language sql stable as 'select $1.b || ''!''';
  create table numbers (n int, id int primary key);
  insert into numbers select i / 3, i from generate_series(1, 30000) as i;
  create index on numbers (n, id);
  analyze numbers;
`
type SortElement = Readonly<Record<string, object | string>>

const last = { direction: 'desc', nulls: 'last' }
const orders: ReadonlyArray<readonly SortElement[]> = [
  [{ m: 'asc' }, { id: 'desc' }], [{ m: last }, { 'data->k': 'asc' }, { id: 'asc' }],
  [{ 'data->k': last }, { 'data->>s': last }, { id: last }],
  [{ 'data->>s': { nulls: 'first' } }, { b: 'desc' }, { id: 'asc' }],
  [{ label: last }, { m: { nulls: 'first' } }, { id: 'desc' }],
  [{ c: 'asc' }, { id: 'asc' }], [{ c: { nulls: 'first' } }, { id: 'asc' }]
]
const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })
const columns = ['id', 'b', 'm', 'c', 'label', 'data->k', 'data->>s']
const items = { op: 'select', table: 'items' }

t.test('pages follow each other', async t => {
  for (const order of orders) {
    const select = { ...items, columns, order }
    const { body, text } = await service.post([{ ...select, id: 's' }])
    t.equal(body.error, null, text)
    const rows = body.data['s'] as ReadonlyArray<Readonly<Record<string, unknown>>>
    const pages = await service.post([
      { ...select, id: 's' },
      ...rows.map((row, i) => {
        const after = order.flatMap(Object.keys).map(name => {
          const value = row[name.replace(/^data->>?/, '')]
          return name === 'c' && value !== null ? `$s.${i}.c` : value
        })
        return { ...select, id: `p${i}`, after }
      })
    ])
    t.same(
      pages.body.data,
      { s: rows, ...Object.fromEntries(rows.map((_, i) => [`p${i}`, rows.slice(i + 1)])) },
      `${JSON.stringify(order)} ${pages.text.slice(0, 300)}`
    )
  }
})

t.test('an index finds the page of an order in one direction', async t => {
  const explain = async (order: readonly SortElement[], after: readonly unknown[]) => {
    const { text } = await service.post(
      [{ id: 's', op: 'select', table: 'numbers', order, after, limit: 10 }],
      { headers: { prefer: 'explain' } }
    )
    return text
  }
  const down = await explain([{ n: 'desc' }, { id: 'desc' }], [5000, 15000])
  t.match(down, /"Index Cond": "\(ROW\(t?\.?n, t?\.?id\) </)
  t.notMatch(down, /"Node Type": "Sort"/)
  const mixed = await explain([{ n: 'desc' }, { id: 'asc' }], [5000, 15000])
  t.match(mixed, /"Index Cond": "\(t?\.?n <= /)
  const up = await explain([{ id: 'asc' }], [15000])
  t.match(up, /"Index Name": "numbers_pkey"/)
  t.notMatch(up, /"Node Type": "Sort"/)
})

t.test('mistakes are refused', async t => {
  const order = [{ a: 'asc' }, { id: 'asc' }]
  const invalid: ReadonlyArray<readonly [members: object, issue: string]> = [
    [{ after: [1] }, 'member_missing order'],
    ...[[1], { a: 1 }].map(after => [{ order, after }, 'member_invalid after'] as const),
    [{ order, after: [1, [2]] }, 'member_invalid after[1]'],
    [{ order, after: [1, '$before.*.id'] }, 'member_invalid after[1]'],
    ...[
      { order: [{ n: 'asc' }], columns: [{ fn: 'count', as: 'n' }] },
      { order: [{ a: 'asc' }], columns: ['a'], group_by: ['a'] },
      { order: [{ n: 'asc' }], columns: [{ column: 'a', cast: 'text', as: 'n' }] }
    ].map(members => [{ ...members, after: [1] }, 'member_invalid after'] as const)
  ]
  assertIssues(t, invalid.map(([members, issue]) => [{ ...items, ...members }, issue]))
  const { body, status } = await service.post([{ ...items, id: 's', order, after: ['x', 1] }])
  t.equal(status, 400)
  t.match(body.error, { message: /^Column "a": invalid input syntax/ })
})
