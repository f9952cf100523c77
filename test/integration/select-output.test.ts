/**
 * Tests that what a select returns is what the same select in SQL returns, in both forms of a
 * statement: `distinct`.
 */
import t from 'tap'
import { useForms } from '../support/forms.ts'
import { useService } from '../support/service.ts'

const schema = `
  create type mood as enum ('calm', 'wild');
  create domain positive as int check (value > 0);
  create table items (id int primary key, kind text, price numeric, qty int, at timestamptz,
    m mood, p positive, tags text[], data jsonb, raw json);
  create function label(items) returns text language sql immutable as 'select $1.kind || $1.qty';
  insert into items values
    (1, 'a', 1.50, 1, '2026-01-01T00:00Z', 'wild', 1, '{x}', '{"k": 1, "s": "u"}', '{"k": 1}'),
    (2, 'a', 1.5, 2, '2026-01-02T00:00Z', 'calm', 2, '{}', '{"k": 1.0, "s": "v"}', '{"k":1}'),
    (3, 'b', 9007199254740993.25, 1, null, null, null, null, '{"k": "1", "s": "7"}', null),
    (4, null, null, null, null, 'calm', 2, '{x}', null, '{"k": 2}'),
    (5, 'b', 3, 2, '2026-01-01T00:00Z', null, 1, '{y,x}', '{"s": null}', '{"k": 2}');
  create table pairs (a int, b text);
  insert into pairs values (1, 'x'), (1, 'x'), (2, null), (2, null), (null, null), (1, 'y');
  create table jsons (a json);
  grant all on items, pairs, jsons to oneflight_user;
`
const tables = ['items', 'pairs']

type Case = readonly [operation: object, query: string, form?: 'general']

const id = { id: 'asc' }

/** Members of a select of items, or of another table, with the same select in SQL. */
const cases: readonly Case[] = [
  [{ columns: ['kind'], distinct: true, order: [{ kind: 'asc' }] },
    'select distinct kind from items order by kind'],
  [{
    columns: ['kind', 'qty'],
    distinct: true,
    order: [{ qty: 'desc' }, { kind: 'asc' }],
    limit: 3,
    offset: 1
  },
  'select distinct kind, qty from items order by qty desc, kind limit 3 offset 1'],
  [{
    columns: ['data->k', { column: 'raw->k', as: 'r' }],
    distinct: true,
    order: [{ 'data->k': 'asc' }, { 'raw->k': 'asc' }]
  },
  'select distinct data->\'k\' as k, (raw->\'k\')::jsonb as r from items order by 1, 2'],
  [{ columns: ['label'], distinct: true, order: [{ label: 'asc' }] },
    'select distinct label(items) from items order by 1'],
  [{ table: 'pairs', distinct: true, order: [{ a: 'asc' }, { b: { nulls: 'first' } }], limit: 4 },
    'select distinct * from pairs order by a, b nulls first limit 4'],
  [{ table: 'pairs', distinct: true, where: { b: { in: ['x'] } } },
    'select distinct * from pairs where b = \'x\''],
  [{
    columns: [{ fn: 'count', column: 'kind', distinct: true },
      { fn: 'sum', column: 'qty', distinct: true }, { fn: 'avg', column: 'price', distinct: true },
      { fn: 'min', column: 'm', distinct: true }, { fn: 'max', column: 'at', distinct: true },
      { fn: 'count', column: 'raw->k', distinct: true, as: 'r' }, { fn: 'count', as: 'n' }]
  },
  `select count(distinct kind), sum(distinct qty), avg(distinct price), min(distinct m),
      max(distinct at), count(distinct (raw->'k')::jsonb) as r, count(*) as n from items`],
  [{
    columns: ['kind', { fn: 'count', column: 'qty', distinct: true }],
    group_by: ['kind'],
    order: [{ count: 'desc' }, { kind: 'asc' }]
  },
  'select kind, count(distinct qty) from items group by kind order by 2 desc, 1'],
  [{ columns: [{ fn: 'count' }], group_by: ['kind'], distinct: true, order: [{ count: 'asc' }] },
    'select distinct count(*) from items group by kind order by 1']
]

function toSelect (members: object): object {
  return { id: 's', op: 'select', table: 'items', ...members }
}

t.test('a select returns the rows of the same select in SQL', async t => {
  const service = await useService(t, { schema })
  for (const [members, query] of cases) {
    const [row] = await service.database.sql.unsafe<Array<{ rows: string }>>(
      `set timezone to 'UTC'; select coalesce(json_agg(q), '[]')::text as rows from (${query}) as q`
    ).then(results => (results as unknown as Array<Array<{ rows: string }>>)[1] ?? [])
    // The plain form is used from the second batch on.
    for (const attempt of [1, 2, 3]) {
      const { text } = await service.post([toSelect(members)])
      t.equal(text, `{"error":null,"data":{"s":${row?.rows}}}`, `${query}, attempt ${attempt}`)
    }
  }
})

t.test('both forms of a statement agree', async t => {
  const forms = await useForms(t, { schema, tables })
  for (const [members, query, form = 'aggregated'] of cases) {
    const { general, plain, used } = await forms.run([toSelect(members)])
    t.same(plain, general, query)
    t.equal(general.failure, undefined, query)
    t.same(used, [form], query)
  }
})

t.test('rows of a distinct select can be referred to', async t => {
  const service = await useService(t, { schema })
  const batch = [
    toSelect({ id: 'd', table: 'pairs', distinct: true, order: [{ a: 'asc' }, { b: 'desc' }] }),
    toSelect({ columns: ['id'], where: { qty: { eq: '$d.0.a' } }, order: [id] }),
    toSelect({ id: 'l', columns: ['id'], where: { qty: { in: '$d.*.a' } }, order: [id] })
  ]
  for (const attempt of [1, 2, 3]) {
    const { body } = await service.post(batch)
    t.same(body.data['s'], [{ id: 1 }, { id: 3 }], `attempt ${attempt}`)
    t.same(body.data['l'], [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 5 }])
  }
})

t.test('mistakes are refused', async t => {
  const service = await useService(t, { schema })
  const invalid: ReadonlyArray<readonly [members: object, code: string, path: unknown[]]> = [
    [{ distinct: false }, 'member_invalid', ['distinct']],
    [{ distinct: ['kind'] }, 'member_invalid', ['distinct']],
    [{ distinct: true, lock: 'update' }, 'member_invalid', ['lock']],
    [{ columns: [{ fn: 'count', distinct: true }] }, 'member_missing', ['columns', 0, 'column']],
    [{ columns: [{ fn: 'sum', column: 'qty', distinct: 'yes' }] }, 'member_invalid',
      ['columns', 0, 'distinct']],
    [{ columns: [{ column: 'qty', distinct: true }] }, 'member_unknown', ['columns', 0, 'distinct']]
  ]
  for (const [members, code, path] of invalid) {
    const { body, status } = await service.post([toSelect(members)])
    t.equal(status, 422)
    t.match(body.error?.errors, [{ code, path }], JSON.stringify(members))
  }
  const { sql } = service.database
  await sql`insert into jsons values ('1'), ('2')`
  const failing: ReadonlyArray<readonly [members: object, code: string, message: RegExp]> = [
    [{ columns: ['kind'], distinct: true, order: [{ qty: 'asc' }] },
      'invalid_column_reference', /SELECT DISTINCT/],
    [{ columns: ['raw'], distinct: true }, 'undefined_function', /Column "raw".*type json/],
    [{ table: 'jsons', distinct: true }, 'undefined_function', /type/],
    [{ columns: [{ fn: 'sum', column: 'kind', distinct: true }] }, 'undefined_function',
      /"sum" does not work with column "kind"/]
  ]
  for (const [members, code, message] of failing) {
    const { body, status } = await service.post([toSelect(members)])
    t.equal(status, 400, JSON.stringify(members))
    t.match(body.error, { code, message })
  }
})
