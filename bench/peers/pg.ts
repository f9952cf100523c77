/**
 * The hand-written endpoint with `pg`: BEGIN, each statement awaited, COMMIT. The statements have
 * names, so they are prepared. With pipelining, only statements that need the id of an earlier one
 * wait for it.
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

// Statements are sent at once only where the code does not await the one before.
const pool = new pg.Pool({
  connectionString: settings.databaseUrl,
  max: settings.poolSize,
  pipeline: true
})
const app = await makeApp()

type Query = (
  name: string,
  text: string,
  values: readonly unknown[]
) => Promise<ReadonlyArray<Record<string, unknown>>>

/** Runs steps, each after the one before, or `pipelined` without waiting. Returns the results. */
async function runAll<T> (
  steps: ReadonlyArray<() => Promise<T>>,
  pipelined: boolean
): Promise<readonly T[]> {
  if (pipelined) return Promise.all(steps.map(step => step()))
  const results: T[] = []
  for (const step of steps) results.push(await step())
  return results
}

/**
 * Runs a transaction with the role of the token. `pipelined`: its first statements do not wait for
 * each other.
 */
async function asCaller (
  claims: Claims,
  work: (query: Query) => Promise<unknown>,
  pipelined = false
): Promise<unknown> {
  const client = await pool.connect()
  const query: Query = async (name, text, values) =>
    (await client.query({ name, text, values: [...values] })).rows
  const becomeCaller = () =>
    query(
      'caller',
      "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
      [claims.role, JSON.stringify(claims)]
    )
  try {
    const steps = [() => client.query('begin'), becomeCaller, () => work(query)]
    const results = await runAll<unknown>(steps, pipelined)
    await client.query('commit')
    return results.at(-1)
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

for (const pipelined of [false, true]) {
  app.post<{ Body: Order }>(
    pipelined ? '/pipelined-orders' : '/orders',
    orderRoute,
    ({ body, user }) => asCaller(user as Claims, placeOrder(body, pipelined), pipelined)
  )
}

await serve(app)

/** The statements of an order. `pipelined`: those after its id do not wait for each other. */
function placeOrder ({ name, items }: Order, pipelined: boolean) {
  return async (query: Query) => {
    const [customer] = await query(
      'customer',
      'insert into customers (name) values ($1) returning id',
      [name]
    )
    const [order] = await query(
      'order',
      'insert into orders (customer_id) values ($1) returning id',
      [customer?.['id']]
    )
    const id = order?.['id']
    const tuples = items.map((_, i) => `($1, $${i * 3 + 2}, $${i * 3 + 3}, $${i * 3 + 4})`)
      .join(', ')
    const values = items.flatMap(({ sku, qty, price }) => [sku, qty, price])
    const steps = [
      () =>
        query(
          `items ${items.length}`,
          `insert into order_items (order_id, sku, qty, price) values ${tuples}`,
          [id, ...values]
        ),
      () => query('paid', "update orders set status = 'paid' where id = $1", [id]),
      () => query('lines', 'select * from order_items where order_id = $1', [id])
    ]
    return { id, items: (await runAll(steps, pipelined)).at(-1) }
  }
}
