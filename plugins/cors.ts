/**
 * CORS: which origins may send batches from a browser and read the responses, errors included.
 * Preflights are answered without a token and without the database. Without `CORS_ORIGINS` there
 * are no CORS headers, and browsers refuse every other origin. Credentials (cookies) are never
 * allowed, because the token identifies the client.
 */
import fastifyCors, { type FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../schemas/config.ts'
import { AnswerHeaders, mcpHeaders, RequestHeaders } from '../schemas/http.ts'

/** How long a browser may cache a preflight response. Chromium's maximum is two hours. */
const MAX_AGE_S = 7200

async function cors (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  const { CORS_ORIGINS: origins } = config
  if (origins === undefined) return
  const common: FastifyCorsOptions = {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: [
      'authorization',
      'content-type',
      ...lowerNames(RequestHeaders),
      ...config.MCP === 'on' ? mcpHeaders : []
    ],
    exposedHeaders: lowerNames(AnswerHeaders),
    maxAge: MAX_AGE_S,
    credentials: false
  }
  // An OPTIONS request that is not a preflight is refused with 404 or 405.
  const [preflight, other] = [true, false].map(preflight => ({ ...common, preflight }))
  // With a prefix, the library's route /data* would also take the paths of /database.
  app.addHook('onRoute', route => {
    if (route.routePath === '*') route.url = `${app.prefix}/*`
  })
  await app.register(fastifyCors, {
    delegator: (request, done) => done(null, isPreflight(request) ? preflight : other)
  })
}

/** Recognises a CORS-preflight request (Fetch Standard §4.8). */
function isPreflight ({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
}

function lowerNames ({ properties }: { readonly properties: object }): string[] {
  return Object.keys(properties).map(name => name.toLowerCase())
}

export default fp(cors, { name: 'cors', dependencies: ['request-log'] })
