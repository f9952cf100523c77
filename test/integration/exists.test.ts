/**
 * Tests that `exists` and `not_exists` obey policies and privileges of the other table, that `in`
 * with an empty array matches no row, and that a mistake never widens a filter. model.test.ts and
 * the language page test which rows they match.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { ids } from '../support/database/same-rows.ts'
import { assertIssues } from '../support/issues.ts'
import { useService } from '../support/service.ts'

const schema = `
  create schema sales;
  create table customers (id int primary key, name text not null, region text);
  create table orders (id int primary key, customer_id int references customers, region text,
    status text not null, data jsonb);
  create table lines (order_id int references orders, sku text, qty numeric,
    primary key (order_id, sku));
  insert into customers values (1, 'a', 'n'), (2, 'b', 's'), (3, 'c', null), (4, 'd', 'n');
  insert into orders values (1, 1, 'n', 'paid', '{"k": 1}'), (2, 1, 's', 'open', null),
    (3, 2, 's', 'open', '{"k": 2}'), (4, 3, null, 'paid', null);
  insert into lines values (1, 'apple', 2), (1, 'pear', 5), (3, 'apple', 7.50), (4, 'fig', 1);
  create table hidden (customer_id int);
  alter table hidden enable row level security;
  create policy odd on hidden using (customer_id % 2 = 1);
  insert into hidden values (1), (2), (3);
  create table secret (customer_id int);
  revoke all on secret from oneflight_user;
  create domain positive as int check (value > 0);
  create type mood as enum ('calm', 'wild');
  create table items (id int primary key, p positive, m mood, data jsonb);
  insert into items values (1, 1, 'calm', '{"k": 1}'), (2, null, null, null);
`
const service = await useService(t, { schema })

t.test('policies and privileges of the other table apply', async t => {
  const select = (table: string): object =>
    op.select('s', 'customers', { where: { exists: { table, on: { customer_id: 'id' } } } })
  const { body } = await service.post([select('hidden')])
  t.same(ids(body.data['s']), [1, 3], 'rows that the policy hides do not count')
  const refused = await service.post([select('secret')])
  t.equal(refused.status, 403)
  t.equal(refused.body.error?.code, 'insufficient_privilege')
})

t.test('mistakes are refused and change nothing', async t => {
  const on = { customer_id: 'id' }
  const table = 'orders'
  const deep = (levels: number): object =>
    levels === 0 ? {} : { exists: { table, on: { id: 'id' }, where: deep(levels - 1) } }
  const invalid: ReadonlyArray<readonly [exists: unknown, issue: string]> = [
    [{ table }, 'member_missing where.exists.on'],
    [{ table, on: {} }, 'operand_invalid where.exists.on'],
    [{ table, on, where: { and: [] } }, 'where_empty where.exists.where.and'],
    [{ table: 'sales.visits', on }, 'schema_forbidden where.exists.table'],
    [
      { table, on: { id: 'id' }, where: deep(10) },
      `depth_exceeded where.exists${'.where.exists'.repeat(10)}`
    ]
  ]
  assertIssues(t, invalid.map(([exists, issue]) =>
    [{ op: 'delete', table: 'lines', where: { exists } }, issue]
  ))
  const failing: ReadonlyArray<readonly [exists: object, message: string]> = [
    [{ table, on: { id: 'ordr_id' } }, 'Table "lines" has no column "ordr_id".'],
    [{ table, on: { id: 'order_id' }, where: { nope: { eq: 1 } } },
      'Table "orders" has no column "nope".']
  ]
  for (const [exists, message] of failing) {
    const { body } = await service.post([op.delete('d', 'lines', { where: { exists } })])
    t.match(body.error, { code: 'undefined_column', message })
  }
  t.equal((await service.database.sql`select from lines`).length, 4)
})

const table = 'items'
const on = { id: 'id' }

t.test('an empty list of each type matches no row', async t => {
  for (const column of ['p', 'm', 'data', 'data->>k']) {
    const none = { [column]: { in: [] } }
    const { body, text } = await service.post([
      op.select('none', table, { where: none }),
      op.select('other', table, { where: { or: [none, { id: { in: [2] } }] }, columns: ['id'] }),
      op.select('twice', table, { where: { not: { [column]: { not: { in: [] } } } } })
    ])
    t.same(body.data, { none: [], other: [{ id: 2 }], twice: [] }, `${column}: ${text}`)
  }
})

t.test('an empty list that would match every row is refused', async t => {
  const refused: ReadonlyArray<readonly [where: object, path: string]> = [
    [{ id: { not: { nin: [] } } }, 'id.not.nin'],
    [{ not_exists: { table, on, where: { id: { in: [] } } } }, 'not_exists.where.id.in'],
    [{ not: { exists: { table, on, where: { id: { in: [] } } } } }, 'not.exists.where.id.in']
  ]
  assertIssues(t, refused.map(([where, path]) =>
    [{ op: 'delete', table, where }, `operand_invalid where.${path}`]
  ))
  const where = { not_exists: { table, on, where: { not: { id: { in: [] } } } } }
  const { body } = await service.post([{ id: 's', op: 'select', table, where }])
  t.same(body.data, { s: [] }, 'an even number of not')
})
