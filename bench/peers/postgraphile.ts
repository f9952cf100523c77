/**
 * PostGraphile 4 with atomic mutations: the mutations of a request are one transaction. The
 * settings follow its documentation for Fastify and production (no GraphiQL, no query log, roles by
 * `pgSettings`).
 */
import pg from 'pg'
import { postgraphile, PostGraphileResponseFastify3 } from 'postgraphile'
import atomic from 'postgraphile-plugin-atomic-mutations'
import { makeApp, serve, settings, type Claims } from './app.ts'

const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: settings.poolSize })
const app = await makeApp()

const middleware = postgraphile(pool, 'public', {
  appendPlugins: [atomic.AtomicMutationsPlugin],
  additionalGraphQLContextFromRequest: async request => ({
    mutationAtomicityContext: atomic.getMutationAtomicityContext(request as never, true)
  }),
  pgSettings: async request => {
    const claims =
      (request as unknown as { _fastifyRequest: { user: Claims } })._fastifyRequest.user
    return { role: claims.role, 'request.jwt.claims': JSON.stringify(claims) }
  },
  dynamicJson: true,
  setofFunctionsContainNulls: false,
  ignoreRBAC: false,
  graphiql: false,
  disableQueryLog: true,
  retryOnInitFail: false
})

app.post('/graphql', async (request, reply) => {
  await middleware.graphqlRouteHandler(
    new PostGraphileResponseFastify3(request as never, reply as never)
  )
  return reply
})

await serve(app)
