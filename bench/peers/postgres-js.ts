/**
 * The hand-written endpoint with postgres.js: `sql.begin`, and each statement awaited before the
 * next. The driver has its default settings: its own pool, prepared statements, parsed rows.
 */
import postgres from 'postgres'
import {
  asCaller,
  invoiceRoute,
  makeApp,
  orderRoute,
  serve,
  settings,
  type Claims,
  type Invoice,
  type Order
} from './app.ts'

const sql = postgres(settings.databaseUrl, { max: settings.poolSize })
const app = await makeApp()

app.post<{ Body: Invoice }>(
  '/invoices',
  invoiceRoute,
  ({ body, user }) =>
    asCaller(sql, user as Claims, async tx => {
      const [counter] = await tx`update counters set n = n + 1 where id = 1 returning n`
      const [invoice] = await tx`insert into invoices (number, note) values (${
        counter?.['n']
      }, ${body.note}) returning id`
      await tx`insert into invoice_lines (invoice_id, article, qty) values (${
        invoice?.['id']
      }, ${body.article}, ${body.qty})`
      const [made] = await tx`select * from invoices where id = ${invoice?.['id']}`
      return made
    })
)

app.post<{ Body: Order }>(
  '/orders',
  orderRoute,
  ({ body, user }) =>
    asCaller(sql, user as Claims, async tx => {
      const [customer] = await tx`insert into customers (name) values (${body.name}) returning id`
      const [order] = await tx`insert into orders (customer_id) values (${
        customer?.['id']
      }) returning id`
      await tx`insert into order_items ${
        tx(body.items.map(({ sku, qty, price }) => ({ order_id: order?.['id'], sku, qty, price })))
      }`
      await tx`update orders set status = 'paid' where id = ${order?.['id']}`
      const items = await tx`select * from order_items where order_id = ${order?.['id']}`
      return { id: order?.['id'], items }
    })
)

await serve(app)
