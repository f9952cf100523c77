/**
 * What browsers are told (CORS): which foreign pages may send batches and read the answers,
 * refusals included. In charge of the headers and of preflights, which are answered without a token
 * and touch nothing. Without origins in the configuration nothing is said, and a browser lets no
 * foreign page in. Cookies are never meant: who asks is told by the token alone.
 */
import fastifyCors, { type FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import { AnswerHeaders, RequestHeaders } from '../schemas/http.ts'

export interface CorsOptions {
  readonly config: Pick<Config, 'CORS_ORIGINS'>
}

/**
 * How long a browser may remember the answer to a preflight. Chromium keeps it for two hours at
 * most.
 */
const MAX_AGE_S = 7200

async function cors (app: FastifyInstance, { config }: CorsOptions): Promise<void> {
  const { CORS_ORIGINS: origins } = config
  if (origins === undefined) return
  const common: FastifyCorsOptions = {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ['authorization', 'content-type', ...lowerNames(RequestHeaders)],
    exposedHeaders: lowerNames(AnswerHeaders),
    maxAge: MAX_AGE_S,
    credentials: false
  }
  // Any other OPTIONS is refused as ever.
  const [preflight, other] = [true, false].map(preflight => ({ ...common, preflight }))
  await app.register(fastifyCors, {
    delegator: (request, done) => done(null, isPreflight(request) ? preflight : other)
  })
}

/** Fetch Standard §4.8: what a browser asks before it sends what a form could not. */
function isPreflight ({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
}

function lowerNames ({ properties }: { readonly properties: object }): string[] {
  return Object.keys(properties).map(name => name.toLowerCase())
}

export default fp(cors, { name: 'cors', fastify: '5.x', dependencies: ['http', 'tracing'] })
