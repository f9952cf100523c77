/** Tests that a batch runs as one transaction, and the response if rendering fails after COMMIT. */
import t from 'tap'
import { forbidAnswers, useService } from '../support/service.ts'
import { shopSchema as schema } from '../support/shorthand.ts'

const service = await useService(t, { schema })

t.test('one batch is one transaction', async t => {
  const committed = await service.post([
    { id: 'customer', op: 'insert', table: 'customers', values: [{ name: 'Corner Shop' }] },
    {
      id: 'order',
      op: 'insert',
      table: 'orders',
      values: [{ customer_id: '$customer.0.id', total: 12.5 }]
    },
    {
      id: 'items',
      op: 'insert',
      table: 'order_items',
      values: [
        { order_id: '$order.0.id', sku: 'apple', qty: 2 },
        { order_id: '$order.0.id', sku: 'pear', qty: 1 }
      ]
    },
    {
      id: 'stock',
      op: 'update',
      table: 'stock',
      set: { qty: 8 },
      where: { sku: { eq: '$items.0.sku' } }
    },
    {
      id: 'orders',
      op: 'select',
      table: 'orders',
      where: { customer_id: { eq: '$customer.0.id' } }
    }
  ])
  t.equal(committed.status, 200)
  t.same(Object.keys(committed.body.data), ['customer', 'order', 'items', 'stock', 'orders'])
  t.match(committed.body.data.orders, [{ id: 1, customer_id: 1, total: 12.5 }])
  t.match(committed.text, '"total":12.50')
  t.same(await service.database.sql`select qty from stock where sku = 'apple'`, [{ qty: 8 }])

  const failed = await service.post([
    { id: 'a', op: 'insert', table: 'customers', values: [{ name: 'Market Stall' }] },
    { id: 'b', op: 'update', table: 'stock', set: { qty: -1 }, where: { sku: { eq: 'pear' } } },
    { id: 'c', op: 'select', table: 'stock' }
  ])
  t.equal(failed.status, 400)
  t.match(failed.body, {
    data: null,
    error: {
      type: 'execution_error',
      code: 'check_violation',
      committed: false,
      op: 'b',
      index: 1,
      sqlstate: '23514',
      constraint: 'stock_qty_check'
    }
  })
  t.same(await service.database.sql`select count(*)::int as n from customers`, [{ n: 1 }])
})

t.test('a response that cannot be rendered becomes an error that states the commit', async t => {
  forbidAnswers(t)
  const { status, body } = await service.post([
    { id: 'a', op: 'insert', table: 'customers', values: [{ name: 'Market Stall' }] }
  ])
  t.match({ status, error: body.error }, {
    status: 500,
    error: { code: 'commit_unknown', committed: 'unknown', message: /is committed/ }
  })
  t.same(await service.database.sql`select count(*)::int as n from customers`, [{ n: 2 }])
})
