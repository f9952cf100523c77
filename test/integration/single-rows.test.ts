/**
 * Tests operations that return one row at most: a select, an update or a delete whose conditions
 * name all columns of a key, and an insert of one row with `on_conflict`. Their rows come without
 * an aggregate: the same responses as with one.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const schema = `
  create table stock (sku text, place int, qty int, note text default 'x',
    primary key (sku, place), unique (qty));
  create function parts(stock) returns setof int stable language sql
    as 'select generate_series(1, 3)';
  create table parents (id int primary key);
  create table children () inherits (parents);
  insert into stock values ('fig', 1, 10, repeat('n', 70000)), ('fig', 2, 20, 'x'),
    ('nut', 1, null, 'x');`

const fig = { sku: { eq: 'fig' }, place: { eq: 1 } }
const key = { sku: { eq: 'fig' }, place: { eq: 2 } }

t.test('a select by key returns the row, or none', async t => {
  const { post, database: { sql } } = await useService(t, {
    schema,
    env: { MAX_RESPONSE_BYTES: '65536' }
  })
  const cases: ReadonlyArray<readonly [name: string, select: object, rows: readonly object[]]> = [
    ['all and more', { where: key, columns: ['*', { column: 'qty', as: 'row' }] }, [
      { sku: 'fig', place: 2, qty: 20, note: 'x', row: 20 }
    ]],
    ['a unique column', { where: { qty: { eq: 20 } }, columns: ['place'] }, [{ place: 2 }]],
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
    ['a limit', { where: key, limit: 0 }, []]
  ]
  for (const [name, select, rows] of cases) {
    const { body } = await post([op.select('s', 'stock', select)])
    t.strictSame(body.data, { s: rows }, name)
  }
  const large = await post([op.select('s', 'stock', { where: fig })])
  t.equal(large.body.error?.code ?? large.body.code, 'response_too_large')

  await sql`alter table stock drop constraint stock_pkey`
  await sql`insert into stock values ('fig', 2, 21)`
  const { body } = await post([op.select('s', 'stock', { where: key, columns: ['qty'] })])
  t.strictSame(body.data, { s: [{ qty: 20 }, { qty: 21 }] }, 'the key was dropped')
})

const note = { set: { note: 'new' }, returning: ['place', 'note'] }
const one = { sku: 'fig', place: 2, qty: 21, note: 'y' }
const conflict = (more: object = {}): object =>
  ({ on_conflict: { columns: ['sku', 'place'], do: 'update', ...more } })

t.test('writes of one row return it as soon as it is there', async t => {
  const { post } = await useService(t, { schema })
  /** [name, batch, the number of rows of its last operation] */
  const cases = [
    ['of the key', [op.update('u', 'stock', { set: { place: 3 }, where: key })], 1],
    ['a table with children', [op.delete('d', 'parents', { where: { id: { eq: 1 } } })], 0],
    ['a part of the key', [
      op.update('u', 'stock', { ...note, where: { sku: { eq: 'fig' } } })
    ], 2],
    ['a unique column', [op.update('u', 'stock', { ...note, where: { qty: { eq: 20 } } })], 1],
    ['a list', [op.update('u', 'stock', { ...note, where: { qty: { in: [20] } } })], 1],
    ['an upsert that is read', [
      op.insert('i', 'stock', [one], conflict()),
      op.update('u', 'stock', { set: { note: '$i.0.note' }, where: { qty: { eq: 10 } } }),
      op.select('s', 'stock', { where: { sku: { eq: '$i.0.sku' }, place: { eq: 1 } } })
    ], 1]
  ] as const
  for (const [name, batch, rows] of cases) {
    const { body, text } = await post(batch, { headers: { prefer: 'tx=rollback' } })
    const [last] = Object.values<readonly object[]>(body.data ?? {}).slice(-1)
    t.equal(last?.length, rows, `${name} ${text}`)
  }
})

t.test('a row that is missing is an error where it is read', async t => {
  const { post } = await useService(t, { schema })
  const skipped = op.insert('i', 'stock', [one], conflict({ where: { qty: { gt: 99 } } }))
  for (const sku of ['$i.0.sku', 'fig']) {
    const where = { sku: { eq: sku }, place: { eq: '$i.0.place' } }
    const read = op.select('s', 'stock', { where })
    const { body } = await post([skipped, read])
    t.match(body.error, { code: 'reference_row_missing' })
  }
})

t.test('without its constraint, an operation returns all rows', async t => {
  const { post, database: { sql } } = await useService(t, { schema, env: { MAX_ROWS: '10' } })
  const update = [op.update('u', 'stock', { ...note, where: key })]
  await post(update)
  await sql`alter table stock drop constraint stock_pkey`
  await sql`insert into stock values ('fig', 2, 21)`
  const updated = { place: 2, note: 'new' }
  t.strictSame((await post(update)).body.data, { u: [updated, updated] })
  const { body } = await post([op.delete('d', 'stock', { where: key, returning: ['qty'] })])
  t.strictSame(body.data, { d: [{ qty: 20 }, { qty: 21 }] })
})
