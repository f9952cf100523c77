/**
 * Tests that what a select returns is what the same select in SQL returns: `distinct`, `having`,
 * `*`, `cast`.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { issuesOf } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('calm', 'wild');
  create domain positive as int check (value > 0);
  create table items (id int primary key, kind text, price numeric, qty int, at timestamptz,
    m mood, p positive, tags text[], data jsonb, raw json);
  create function label(items) returns text language sql immutable as 'select $1.kind || $1.qty';
  create function bad(items) returns int language plpgsql as $$
    begin execute 'select 1 where 1'; return 1; end $$;
  insert into items values
    (1, 'a', 1.50, 1, '2026-01-01T00:00Z', 'wild', 1, '{x}', '{"k": 1, "s": "u"}', '{"k": 1}'),
    (2, 'a', 1.5, 2, '2026-01-02T00:00Z', 'calm', 2, '{}', '{"k": 1.0, "s": "v"}', '{"k":1}'),
    (3, 'b', 9007199254740993.25, 1, null, null, null, null, '{"k": "1", "s": "7"}', null),
    (4, null, null, null, null, 'calm', 2, '{x}', null, '{"k": 2}'),
    (5, 'b', 3, 2, '2026-01-01T00:00Z', null, 1, '{y,x}', '{"s": null}', '{"k": 2}');
  create table pairs (a int, b text);
  insert into pairs values (1, 'x'), (1, 'x'), (2, null), (2, null), (null, null), (1, 'y');
  create table jsons (a json);
  insert into jsons values ('1'), ('2');
  create table vals (id int, n int, price numeric, at timestamptz, s text, key text);
  insert into vals values (1, 2, 1.5, '2026-01-02T00:00Z', 'v', 's');
`
type Case = readonly [operation: object, query: string]

const id = { id: 'asc' }

/** Members of a select of items, or of another table, with the same select in SQL. */
const cases: readonly Case[] = [
  [{
    columns: ['data->k', { column: 'raw->k', as: 'r' }],
    distinct: true,
    order: [{ 'data->k': 'asc' }, { 'raw->k': 'asc' }]
  }, "select distinct data->'k' as k, (raw->'k')::jsonb as r from items order by 1, 2"],
  [{
    columns: ['data->k'],
    distinct: true,
    having: { k: { eq: { $value: 1 } } },
    order: [{ 'data->k': 'asc' }]
  }, "select distinct data->'k' as k from items where data->'k' = '1' order by 1"],
  [{ columns: ['label'], distinct: true, order: [{ label: 'asc' }] },
    'select distinct label(items) from items order by 1'],
  [{
    columns: [{ fn: 'count', column: 'kind', distinct: true },
      { fn: 'sum', column: 'qty', distinct: true }, { fn: 'avg', column: 'price', distinct: true },
      { fn: 'min', column: 'm', distinct: true }, { fn: 'max', column: 'at', distinct: true },
      { fn: 'count', column: 'raw->k', distinct: true, as: 'r' }, { fn: 'count', as: 'n' }]
  },
  `select count(distinct kind), sum(distinct qty), avg(distinct price), min(distinct m),
      max(distinct at), count(distinct (raw->'k')::jsonb) as r, count(*) as n from items`],
  [{
    columns: ['id', 'data->k', 'data->>s', { column: 'data', as: 'd' }, 'tags'],
    having: {
      k: { eq: { $value: 1 } },
      s: { in: ['u', 'v'] },
      'd->>s': { like: 'u' },
      d: { cs: { k: 1 }, has_key: 's' },
      tags: { cs: ['x'] }
    }
  }, "select id, data->'k' as k, data->>'s' as s, data as d, tags from items where id = 1"],
  [{
    columns: ['label', 'qty'],
    having: { label: { like: 'a%' } },
    order: [{ price: 'asc' }, { id: 'desc' }]
  }, "select label(items), qty from items where label(items) like 'a%' order by price, id desc"],
  [{ columns: ['raw->k', { fn: 'count' }], group_by: ['raw->k'], having: { k: { eq: 2 } } },
    "select (raw->'k')::jsonb as k, count(*) from items where raw->>'k' = '2' group by 1"],
  [{
    columns: [{ column: 'kind', as: 'b' }, { fn: 'count' }],
    group_by: ['kind'],
    having: { exists: { table: 'pairs', on: { a: 'count' }, where: { b: { eq: 'x' } } } }
  }, 'select kind as b, count(*) from items group by kind having count(*) = 1'],
  [{ columns: ['ctid', '*'], where: { id: { eq: 1 } } }, 'select ctid, * from items where id = 1'],
  [{ columns: [{ column: 'b', as: '*' }], table: 'pairs', order: [{ b: 'asc' }], limit: 2 },
    'select b as "*" from pairs order by b limit 2'],
  [{
    columns: ['id', { column: 'data->>k', cast: 'int', as: 'n' },
      { column: 'data->k', cast: 'text', as: 't' }, { column: 'raw->>k', cast: 'numeric' },
      { column: 'qty', cast: 'bigint', as: 'b' }, { column: 'price', cast: 'float8', as: 'f' }],
    where: { id: { neq: 2 } },
    order: [{ n: 'desc' }, id]
  },
  `select id, (data->>'k')::int as n, (data->'k')::text as t, (raw->>'k')::numeric as k,
    qty::bigint as b, price::float8 as f from items where id <> 2 order by n desc, id`],
  [{
    columns: [{ column: 'data->>k', cast: 'numeric', as: 'n' }, { fn: 'count' }],
    group_by: ['data->>k'],
    having: { n: { eq: 1 }, count: { gt: 1 } }
  }, 'select 1 as n, 2 as count'],
  [{
    columns: ['id', { column: 'raw', cast: 'jsonb', as: 'j' }],
    having: { j: { cs: { k: 2 } }, 'j->k': { eq: 2 } },
    order: [id]
  }, 'select id, raw::jsonb as j from items where raw->>\'k\' = \'2\' order by id'],
  [{
    columns: [{ column: 'price', cast: 'text', as: 't' }, 'price'],
    distinct: true,
    having: { t: { neq: 'x' } },
    order: [{ price: 'desc' }],
    limit: 1
  }, 'select max(price)::text as t, max(price) as price from items']
]

const service = await useService(t, { schema })

function toSelect (members: object): object {
  return op.select('s', 'items', members)
}

/** Asserts the rows of selects, byte for byte. */
async function assertRows (
  t: Test,
  cases: readonly Case[],
  before: readonly object[] = []
): Promise<void> {
  for (const [members, query] of cases) {
    const rows = await op.renderRows(service.database.sql, query)
    const { text } = await service.post([...before, toSelect(members)])
    t.equal(text.slice(text.lastIndexOf('"s":[') + 4, -2), rows, query)
  }
}

t.test('a select returns the rows of the same select in SQL', async t => {
  await assertRows(t, cases)
})

/** Conditions of the output with references to the rows of `v`. */
const referring: readonly Case[] = [
  [{ columns: ['id', 'data->>s'], having: { s: { eq: '$v.0.s' } } },
    "select id, data->>'s' as s from items where id = 2"],
  [{ columns: ['id', 'data'], having: { data: { has_key: '$v.0.key' } }, order: [id] },
    "select id, data from items where data ? 's' order by id"]
]

t.test('conditions of the output can refer to earlier operations', async t => {
  await assertRows(t, referring, [op.select('v', 'vals')])
})

t.test('an error inside a function names no column', async t => {
  const select = op.select('s', 'items', { columns: ['bad'] })
  const { body } = await service.post([select])
  t.match(body.error, { message: /argument of WHERE must be type boolean/ })
  t.notMatch(body.error, { message: /^Column/ })
})

t.test('mistakes are refused', async t => {
  const having = { id: { eq: 1 } }
  const invalid: ReadonlyArray<readonly [members: object, issue: string]> = [
    [{ distinct: false }, 'member_invalid distinct'],
    [{ distinct: true, lock: 'update' }, 'member_invalid lock'],
    [{ columns: [{ fn: 'sum', column: 'qty', distinct: 'yes' }] },
      'member_invalid columns[0].distinct'],
    [{ columns: [{ column: 'qty', distinct: true }] }, 'member_unknown columns[0].distinct'],
    [{ having }, 'member_missing columns'],
    [{ columns: ['id'], having: { kind: { eq: 'a' } } }, 'member_invalid having.kind'],
    [{ columns: ['id'], having: { 'data->k': { eq: 1 } } }, 'member_invalid having["data->k"]'],
    [{ columns: ['id'], having: { id: { eq: { $col: 'qty' } } } }, 'member_invalid having.id.eq'],
    [{ columns: ['id'], having: { exists: { table: 'pairs', on: { a: 'qty' } } } },
      'member_invalid having.exists.on.a'],
    [{ columns: ['id'], having: { id: { equals: 1 } } }, 'operator_unknown having.id.equals'],
    [{ columns: ['id'], having: { not: { id: { in: [] } } } }, 'operand_invalid having.not.id.in'],
    [{ columns: ['id'], having: [] }, 'member_invalid having'],
    [{ columns: [{ column: 'id', cast: 'integer' }] }, 'member_invalid columns[0].cast'],
    [{ columns: [{ fn: 'count', cast: 'int' }] }, 'member_missing columns[0].column'],
    [{ columns: ['*', 'id', '*'] }, 'member_invalid columns[2]'],
    [{ columns: ['id'], having, lock: 'update' }, 'member_invalid lock']
  ]
  for (const [members, issue] of invalid) {
    t.same(issuesOf([toSelect(members)]), [issue], JSON.stringify(members))
  }
  const failing: ReadonlyArray<readonly [members: object, code: string, message: RegExp]> = [
    [{ columns: ['kind'], distinct: true, order: [{ qty: 'asc' }] },
      'invalid_column_reference', /SELECT DISTINCT/],
    [{ columns: ['kind'], distinct: true, having: { kind: { neq: 'z' } }, order: [{ qty: 'asc' }] },
      'invalid_column_reference', /SELECT DISTINCT/],
    [{ columns: ['raw'], distinct: true }, 'undefined_function', /Column "raw".*type json/],
    [{ columns: [{ fn: 'sum', column: 'kind', distinct: true }] }, 'undefined_function',
      /"sum" does not work with column "kind"/],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { eq: 'many' } } },
      'invalid_text_representation', /Column "n": .*bigint/],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { like: 'many' } } },
      'undefined_function', /"like" does not work with column "n"/],
    [{ columns: [{ column: 'kind', cast: 'int' }] }, 'invalid_text_representation',
      /type integer: "…"/],
    [{ columns: [{ column: 'tags', cast: 'int' }] }, 'cannot_coerce', /integer/],
    [{ columns: [{ fn: 'sum', column: 'data->>k', cast: 'date' }] }, 'undefined_function',
      /"sum" does not work with column "data"/],
    [{ columns: ['*', { column: 'id', as: 'qty' }] }, 'ambiguous_column',
      /"\*" contains a column "qty" already/],
    [{ columns: [{ column: 'data->x', as: 'kind' }, '*'], having: { id: { eq: 1 } } },
      'ambiguous_column', /"kind"/],
    [{ columns: ['*', { fn: 'count' }] }, 'grouping_error', /./],
    [{ columns: [{ fn: 'count', as: 'n' }], having: { n: { eq: { $value: null } } } },
      'value_invalid', /Column "n": only json and jsonb can hold the JSON null/]
  ]
  for (const [members, code, message] of failing) {
    const { body, status } = await service.post([toSelect(members)])
    t.equal(status, code === 'value_invalid' ? 422 : 400, JSON.stringify(members))
    t.match(body.error, { code, message })
  }
})
