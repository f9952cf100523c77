/**
 * Tests selects whose conditions name all columns of a key. They return one row at most, without an
 * aggregate: the same responses as without a key.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const schema = `
  create table stock (sku text, place int, qty int, note text default 'x',
    primary key (sku, place), unique (qty));
  create function parts(stock) returns setof int stable language sql
    as 'select generate_series(1, 3)';
  insert into stock values ('fig', 1, 10, repeat('n', 70000)), ('fig', 2, 20, 'x'),
    ('nut', 1, null, 'x');
  grant all on stock to oneflight_user`

const fig = { sku: { eq: 'fig' }, place: { eq: 1 } }
const key = { sku: { eq: 'fig' }, place: { eq: 2 } }

t.test('a select by key returns the row, or none', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema,
    env: { MAX_RESPONSE_BYTES: '65536' }
  })
  const cases: ReadonlyArray<readonly [name: string, select: object, rows: readonly object[]]> = [
    ['a whole row', { where: key }, [{ sku: 'fig', place: 2, qty: 20, note: 'x' }]],
    ['columns', { where: key, columns: ['qty', { column: 'note', as: 'n' }] }, [
      { qty: 20, n: 'x' }
    ]],
    ['all and more', { where: key, columns: ['*', { column: 'qty', as: 'row' }] }, [
      { sku: 'fig', place: 2, qty: 20, note: 'x', row: 20 }
    ]],
    ['a unique column', { where: { qty: { eq: 20 } }, columns: ['place'] }, [{ place: 2 }]],
    ['no row', { where: { sku: { eq: 'pear' }, place: { eq: 1 } } }, []],
    ['another condition', { where: { ...key, note: { eq: 'y' } } }, []],
    ['a part of the key', { where: { sku: { eq: 'fig' } }, columns: ['place'] }, [
      { place: 1 },
      { place: 2 }
    ]],
    ['no row of a unique column', { where: { qty: { is: null } }, columns: ['sku'] }, [
      { sku: 'nut' }
    ]],
    ['an aggregate', { where: key, columns: [{ fn: 'count' }] }, [{ count: 1 }]],
    ['a function that returns several rows', { where: key, columns: ['parts'] }, [
      { parts: 1 },
      { parts: 2 },
      { parts: 3 }
    ]],
    ['a limit', { where: key, limit: 0 }, []],
    ['a lock', { where: key, lock: 'update', columns: ['place'] }, [{ place: 2 }]]
  ]
  for (const [name, select, rows] of cases) {
    for (const run of ['first', 'second', 'third']) {
      const { status, body } = await post([op.select('s', 'stock', select)])
      t.equal(status, 200, `${name}, ${run}`)
      t.strictSame(body.data, { s: rows }, `${name}, ${run}`)
    }
  }
  const large = await post([op.select('s', 'stock', { where: fig })])
  t.equal(large.body.error?.code ?? large.body.code, 'response_too_large')

  await sql`alter table stock drop constraint stock_pkey`
  await sql`insert into stock values ('fig', 2, 21)`
  const { body } = await post([op.select('s', 'stock', { where: key, columns: ['qty'] })])
  t.strictSame(body.data, { s: [{ qty: 20 }, { qty: 21 }] }, 'the key was dropped')
})
