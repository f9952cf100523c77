/**
 * Tests that `after` returns exactly the rows behind the given values: for random orders with mixed
 * directions and NULLs, for every row, with literals and references.
 */
import t from 'tap'
import { assertIssues } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('wild', 'calm');
  create table items (id int primary key, a int, b text, c numeric, d date, m mood, f boolean,
    data jsonb);
  insert into items select i, nullif(i % 4, 0), nullif(chr(97 + i * 7 % 3), 'a'),
    case when i % 3 > 0 then 9007199254740993 + (i % 3) * 0.25 end,
    case when i % 5 > 0 then date '2026-01-01' + i % 2 end,
    (array['wild', 'calm', null])[i % 3 + 1]::mood,
    nullif(i % 3, 2)::boolean,
    case when i % 4 > 0 then jsonb_build_object('k', i % 3, 's', nullif(i % 2, 1)::text) end
    from generate_series(1, 24) as i;
  create function label(items) returns text language sql stable as 'select $1.b || ''!''';
  create table numbers (n int, id int primary key);
  insert into numbers select i / 3, i from generate_series(1, 30000) as i;
  create index on numbers (n, id);
  analyze numbers;
  grant all on items, numbers to oneflight_user;
`
const columns = ['a', 'b', 'c', 'd', 'm', 'f', 'data->k', 'data->>s', 'label']

type SortElement = Readonly<Record<string, object | string>>

/** Random numbers that are the same in every run. */
function createRandom (seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor(state / 2_147_483_648 * below)
  }
}

/** Orders of one to three columns and the id, which decides. */
function createOrders (count: number): ReadonlyArray<readonly SortElement[]> {
  const random = createRandom(7)
  const directions = [
    'asc',
    'desc',
    { direction: 'asc', nulls: 'first' },
    { direction: 'desc', nulls: 'last' },
    { nulls: 'first' },
    { direction: 'desc', nulls: 'first' }
  ]
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T
  return Array.from({ length: count }, (_, i) => {
    // Some orders have one direction.
    const only = i % 3 === 0 ? pick(directions) : undefined
    const names = Array.from({ length: 1 + random(3) }, () => pick(columns))
    return [...names, 'id'].map(name => ({ [name]: only ?? pick(directions) }))
  })
}

const service = await useService(t, { schema, env: { EXPLAIN: 'on' } })
const outputs = columns.map((column, i) => ({ column, as: `o${i}` }))
const items = { op: 'select', table: 'items' }

/** A select in this order; its rows have the values of all columns. */
function select (order: readonly SortElement[], more: object = {}): object {
  return { ...items, id: 's', columns: ['id', ...outputs], order, ...more }
}

type Row = Readonly<Record<string, unknown>>

/** The value of an element of the order in a row, as a literal. */
function literalOf (element: SortElement, row: Row): unknown {
  const [name = ''] = Object.keys(element)
  if (name === 'id') return row['id']
  const value = row[`o${columns.indexOf(name)}`]
  // A number may have more digits than JavaScript keeps.
  return name === 'c' && value !== null ? String(value) : value
}

function referenceTo (element: SortElement): string {
  const [name = ''] = Object.keys(element)
  return name === 'id' ? '$at.0.id' : `$at.0.o${columns.indexOf(name)}`
}

t.test('pages follow each other in random orders', async t => {
  const texts = outputs.map(output => output.column === 'c' ? { ...output, cast: 'text' } : output)
  for (const order of createOrders(40)) {
    const { body, text } = await service.post([select(order, { columns: ['id', ...texts] })])
    t.equal(body.error, null, text)
    const rows = body.data['s'] as readonly Row[]
    const batch = rows.flatMap((row, i): object[] => [
      select(order, { id: `l${i}`, after: order.map(element => literalOf(element, row)) }),
      { ...items, id: `at${i}`, columns: ['id', ...outputs], where: { id: { eq: row['id'] } } },
      select(order, {
        id: `r${i}`,
        after: order.map(element => referenceTo(element).replace('$at', `$at${i}`)),
        limit: 3
      })
    ])
    const pages = await service.post(batch)
    t.equal(pages.body.error, null, pages.text)
    const idsOf = (name: string): unknown[] =>
      (pages.body.data[name] as readonly Row[]).map(row => row['id'])
    const ids = rows.map(row => row['id'])
    t.same(rows.map((_, i) => idsOf(`l${i}`)), ids.map((_, i) => ids.slice(i + 1)),
      `literals: ${JSON.stringify(order)}`)
    t.same(rows.map((_, i) => idsOf(`r${i}`)), ids.map((_, i) => ids.slice(i + 1, i + 4)),
      `references: ${JSON.stringify(order)}`)
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
    ...[[], [1], { a: 1 }].map(after => [{ order, after }, 'member_invalid after'] as const),
    [{ order, after: [1, [2]] }, 'member_invalid after[1]'],
    [{ order, after: [1, '$before.*.id'] }, 'member_invalid after[1]'],
    [{ order, after: [1, '$nope.0.id'] }, 'reference_unknown after[1]'],
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
