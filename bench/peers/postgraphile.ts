/**
 * PostGraphile 5 with its default preset, for production: no GraphiQL, prepared statements. By
 * itself it runs each mutation of a request in a transaction of its own. Here a middleware runs the
 * whole request in one transaction with the role of the token.
 */
import pg from 'pg'
import { postgraphile } from 'postgraphile'
import { makePgService } from 'postgraphile/adaptors/pg'
import { grafserv } from 'postgraphile/grafserv/fastify/v5'
import { PostGraphileAmberPreset } from 'postgraphile/presets/amber'
import { makeApp, serve, settings, type Claims } from './app.ts'

const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: settings.poolSize })
const app = await makeApp()

/** A client of PostGraphile whose transaction is that of the request. */
function inTransaction (client: pg.PoolClient): any {
  const own = {
    rawClient: client,
    query: ({ text, name, values, arrayMode }: Readonly<Record<string, any>>) =>
      client.query({ text, name, values, ...(arrayMode ? { rowMode: 'array' } : {}) }),
    withTransaction: (work: (client: unknown) => unknown) => work(own)
  }
  return own
}

const oneTransaction: GraphileConfig.Plugin = {
  name: 'OneTransaction',
  version: '1.0.0',
  grafast: {
    middleware: {
      async execute (next, { args }) {
        const context = args.contextValue as Grafast.Context
        const claims = args.requestContext?.fastifyv5?.request.user as Claims
        const client = await pool.connect()
        try {
          await client.query('begin')
          await client.query({
            name: 'caller',
            text: "select set_config('role', $1, true), " +
              "set_config('request.jwt.claims', $2, true)",
            values: [claims.role, JSON.stringify(claims)]
          })
          context.withPgClient = Object.assign(
            async (_settings: unknown, work: (client: any) => any) => work(inTransaction(client)),
            { release: () => {} }
          )
          const result: any = await next()
          await client.query(result.errors === undefined ? 'commit' : 'rollback')
          return result
        } finally {
          client.release()
        }
      }
    }
  }
}

const instance = postgraphile({
  extends: [PostGraphileAmberPreset],
  plugins: [oneTransaction],
  pgServices: [makePgService({ pool, schemas: ['public'] })],
  grafserv: { graphiql: false, watch: false },
  grafast: { explain: false }
})
await instance.createServ(grafserv).addTo(app)

await serve(app)
