/**
 * Each batch as a PL/pgSQL function (bench/schema.sql), called in a transaction with the role of
 * the token, which row-level security needs. Each is also called as a single statement of the login
 * role: it is the limit, with one round trip and no role.
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
      const [row] = await tx`select number_invoice(${body.note}, ${body.article}, ${body.qty}, ${
        (user as Claims).sub
      }) as invoice`
      return row?.['invoice']
    })
)

app.post<{ Body: Order }>(
  '/orders',
  orderRoute,
  ({ body, user }) =>
    asCaller(sql, user as Claims, async tx => {
      const items = tx.json(body.items as never)
      const [row] = await tx`select place_order(${body.name}, ${items}) as placed`
      return row?.['placed']
    })
)

app.post<{ Body: Invoice }>('/bare', invoiceRoute, async ({ body, user }) => {
  const [row] = await sql`select number_invoice(${body.note}, ${body.article}, ${body.qty}, ${
    (user as Claims).sub
  }) as invoice`
  return row?.['invoice']
})

app.post<{ Body: Order }>('/bare-orders', orderRoute, async ({ body, user }) => {
  const [row] = await sql`select
    set_config('request.jwt.claims', ${JSON.stringify(user)}, true) as claims,
    place_order(${body.name}, ${sql.json(body.items as never)}) as placed`
  return row?.['placed']
})

await serve(app)
