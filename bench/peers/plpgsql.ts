/**
 * The hot batch as a PL/pgSQL function (bench/schema.sql), called in two ways. The first is a
 * transaction with the role of the token, which row-level security needs. The second is a single
 * statement of the login role: it is the limit, with one round trip, no role and no claims.
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
