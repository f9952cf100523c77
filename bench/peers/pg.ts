/**
 * The hand-written endpoint with `pg`: BEGIN, each statement awaited, COMMIT. The statements have
 * names, so they are prepared.
 */
import pg from 'pg'
import {
  invoiceRoute,
  makeApp,
  orderRoute,
  serve,
  settings,
  type Claims,
  type Invoice,
  type Order
} from './app.ts'

const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: settings.poolSize })
const app = await makeApp()

type Query = (
  name: string,
  text: string,
  values: readonly unknown[]
) => Promise<ReadonlyArray<Record<string, unknown>>>

/** Runs a transaction with the role of the token. */
async function asCaller<T> (claims: Claims, work: (query: Query) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  const query: Query = async (name, text, values) =>
    (await client.query({ name, text, values: [...values] })).rows
  try {
    await client.query('begin')
    await query(
      'caller',
      "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
      [claims.role, JSON.stringify(claims)]
    )
    const result = await work(query)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

app.post<{ Body: Invoice }>(
  '/invoices',
  invoiceRoute,
  ({ body, user }) =>
    asCaller(user as Claims, async query => {
      const [counter] = await query(
        'counter',
        'update counters set n = n + 1 where id = 1 returning n',
        []
      )
      const [invoice] = await query(
        'invoice',
        'insert into invoices (number, note) values ($1, $2) returning id',
        [counter?.['n'], body.note]
      )
      await query(
        'line',
        'insert into invoice_lines (invoice_id, article, qty) values ($1, $2, $3)',
        [invoice?.['id'], body.article, body.qty]
      )
      const [made] = await query('made', 'select * from invoices where id = $1', [invoice?.['id']])
      return made
    })
)

app.post<{ Body: Order }>(
  '/orders',
  orderRoute,
  ({ body, user }) =>
    asCaller(user as Claims, async query => {
      const [customer] = await query(
        'customer',
        'insert into customers (name) values ($1) returning id',
        [body.name]
      )
      const [order] = await query(
        'order',
        'insert into orders (customer_id) values ($1) returning id',
        [customer?.['id']]
      )
      const tuples = body.items.map((_, i) => `($1, $${i * 3 + 2}, $${i * 3 + 3}, $${i * 3 + 4})`)
        .join(', ')
      const values = body.items.flatMap(({ sku, qty, price }) => [sku, qty, price])
      await query(
        `items ${body.items.length}`,
        `insert into order_items (order_id, sku, qty, price) values ${tuples}`,
        [order?.['id'], ...values]
      )
      await query('paid', "update orders set status = 'paid' where id = $1", [order?.['id']])
      const items = await query('lines', 'select * from order_items where order_id = $1', [
        order?.['id']
      ])
      return { id: order?.['id'], items }
    })
)

await serve(app)
