/**
 * What every hand-written peer has in common: a Fastify server that takes the same tokens as
 * Oneflight does.
 *
 * In charge of: checking tokens with @fastify/jwt, the checks of bodies, listening, and ending with
 * the bench. Refuses to: speak to a database; each peer does as its users would.
 */
import jwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'

/** What the bench tells each peer. */
export const settings = {
  databaseUrl: process.env['DATABASE_URL'] as string,
  poolSize: Number(process.env['POOL_SIZE']),
  secret: process.env['JWT_SECRET'] as string
} as const

/** The payload of a token that was checked; the payload as JSON text is what policies see. */
export interface Claims {
  readonly role: string
  readonly sub: string
}

export interface Invoice {
  readonly note: string
  readonly article: string
  readonly qty: number
}
export interface Order {
  readonly name: string
  readonly items: ReadonlyArray<
    { readonly sku: string, readonly qty: number, readonly price: number }
  >
}

const text = { type: 'string', maxLength: 100 } as const
const qty = { type: 'integer', minimum: 1 } as const
const closed = <T extends Record<string, object>>(properties: T) =>
  ({
    type: 'object',
    required: Object.keys(properties),
    additionalProperties: false,
    properties
  }) as const

/** Options of the two routes: Fastify's own checks of the body, as its users have them. */
export const invoiceRoute = { schema: { body: closed({ note: text, article: text, qty }) } }
export const orderRoute = {
  schema: {
    body: closed({
      name: text,
      items: {
        type: 'array',
        minItems: 1,
        maxItems: 100,
        items: closed({ sku: text, qty, price: { type: 'number' } })
      }
    })
  }
}

/**
 * A server that answers 401 to requests without a good token. It logs warnings alone, as Oneflight
 * does in the bench.
 */
export async function makeApp (): Promise<FastifyInstance> {
  const app = Fastify({ logger: { level: 'warn' } })
  await app.register(jwt, { secret: settings.secret, verify: { algorithms: ['HS256'] } })
  app.addHook('onRequest', async request => {
    await request.jwtVerify()
  })
  return app
}

/** Listens on a free port, tells the bench, and ends when the bench does. */
export async function serve (app: FastifyInstance): Promise<void> {
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  process.send?.({ url })
  process.on('disconnect', () => process.exit())
}
