/**
 * The example of the OpenAPI document: a batch and its response, on the sample shop
 * (deploy/shop.sql).
 */

/** Places an order with a new customer and two lines, pays it and reads the remaining stock. */
export const exampleBatch = [
  { id: 'customer', op: 'insert', table: 'customers', values: [{ name: 'Bakery' }] },
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
  id: 2,
  customer_id: 2,
  status: 'open',
  owner: 'corner-shop',
  created_at: '2026-11-20T09:30:00.123456+00:00'
}

export const exampleAnswer = {
  error: null,
  data: {
    customer: [{ id: 2, name: 'Bakery', owner: 'corner-shop' }],
    order: [order],
    items: [{ order_id: 2, sku: 'apple', qty: 4 }, { order_id: 2, sku: 'pear', qty: 1 }],
    paid: [{ ...order, status: 'paid' }],
    left: [{ sku: 'apple', price: 0.3, qty: 992 }]
  }
}
