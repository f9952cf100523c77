/**
 * The batch that shows what a batch is, with its answer: the order of the README, on the shop of
 * deploy/shop.sql. A test holds it against the README.
 */

/** An order: its customer, its lines, paid, and what is left of the first article. */
export const exampleBatch = [
  { id: 'customer', op: 'insert', table: 'customers', values: [{ name: 'Corner Shop' }] },
  { id: 'order', op: 'insert', table: 'orders', values: [{ customer_id: '$customer.0.id' }] },
  {
    id: 'items',
    op: 'insert',
    table: 'order_items',
    values: [{ order_id: '$order.0.id', sku: 'apple', qty: 4 }, {
      order_id: '$order.0.id',
      sku: 'pear',
      qty: 1
    }]
  },
  {
    id: 'paid',
    op: 'update',
    table: 'orders',
    set: { status: 'paid' },
    where: { id: { eq: '$order.0.id' } }
  },
  { id: 'left', op: 'select', table: 'stock', where: { sku: { eq: '$items.0.sku' } } }
]

const order = {
  id: 1,
  customer_id: 1,
  status: 'open',
  owner: 'corner-shop',
  created_at: '2026-11-20T09:30:00.123456+00:00'
}

export const exampleAnswer = {
  error: null,
  data: {
    customer: [{ id: 1, name: 'Corner Shop', owner: 'corner-shop' }],
    order: [order],
    items: [{ order_id: 1, sku: 'apple', qty: 4 }, { order_id: 1, sku: 'pear', qty: 1 }],
    paid: [{ ...order, status: 'paid' }],
    left: [{ sku: 'apple', price: 0.3, qty: 996 }]
  }
}
