/**
 * The hot batch as a PL/pgSQL function (bench/schema.sql), called in two ways: in a transaction
 * under the role of the token, as a service with row level security has to, and bare, as one
 * statement of the login role. The second is the limit: one round trip, no role, no claims.
 */
import postgres from 'postgres'
import { invoiceRoute, makeApp, serve, settings, type Claims, type Invoice } from './app.ts'

const sql = postgres(settings.databaseUrl, { max: settings.poolSize })
const app = await makeApp()

app.post<{ Body: Invoice }>('/invoices', invoiceRoute, ({ body, user }) => {
  const claims = user as Claims
  return sql.begin(async tx => {
    await tx`select set_config('role', ${claims.role}, true), set_config('request.jwt.claims', ${
      JSON.stringify(claims)
    }, true)`
    const [row] =
      await tx`select number_invoice(${body.note}, ${body.article}, ${body.qty}, ${claims.sub})
        as invoice`
    return row?.['invoice']
  })
})

app.post<{ Body: Invoice }>('/bare', invoiceRoute, async ({ body, user }) => {
  const [row] = await sql`select number_invoice(${body.note}, ${body.article}, ${body.qty}, ${
    (user as Claims).sub
  }) as invoice`
  return row?.['invoice']
})

await serve(app)
