/**
 * The common part of the hand-written peers: a Fastify server that verifies the same tokens as
 * Oneflight, with @fastify/jwt.
 */
import { randomUUID } from 'node:crypto'
import jwt from '@fastify/jwt'
import Fastify, { LogController, type FastifyInstance } from 'fastify'
import metricsModule from 'fastify-metrics'
import type { Sql, TransactionSql } from 'postgres'
import { strictObject, text } from '../words/word.ts'

/** The settings of a peer. */
export const settings = {
  databaseUrl: process.env['DATABASE_URL'] as string,
  poolSize: Number(process.env['POOL_SIZE']),
  secret: process.env['JWT_SECRET'] as string
} as const

/** The payload of a verified token, and its JSON text for policies. */
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

const qty = { type: 'integer', minimum: 1 } as const

/** Options of the routes, with Fastify's validation of the body. */
export const invoiceRoute = { schema: { body: strictObject({ note: text, article: text, qty }) } }
export const orderRoute = {
  schema: {
    body: strictObject({
      name: text,
      items: {
        type: 'array',
        minItems: 1,
        maxItems: 100,
        items: strictObject({ sku: text, qty, price: { type: 'number' } })
      }
    })
  }
}

/** Creates a server that rejects invalid tokens with 401. */
export async function makeApp (): Promise<FastifyInstance> {
  const app = process.env['DUTIES'] === 'on'
    ? await withDuties()
    : Fastify({ logger: { level: 'warn' } })
  await app.register(jwt, { secret: settings.secret, verify: { algorithms: ['HS256'] } })
  app.addHook('onRequest', async request => {
    await request.jwtVerify()
  })
  return app
}

/** A server with a request id, one line of log per request, and the metrics of its routes. */
async function withDuties (): Promise<FastifyInstance> {
  const app = Fastify({
    logger: { level: 'info' },
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID()
  })
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
  })
  app.addHook('onResponse', async (request, { statusCode: status, elapsedTime: ms }) => {
    request.log.info({ method: request.method, path: request.url, status, ms }, 'completed')
  })
  // A CommonJS module: Node nests its default export.
  await app.register(metricsModule.default, { endpoint: '/metrics' })
  return app
}

/** Runs a transaction of postgres.js with the role of the token. */
export function asCaller<T> (
  sql: Sql,
  claims: Claims,
  work: (tx: TransactionSql) => Promise<T>
): Promise<unknown> {
  return sql.begin(async tx => {
    await tx`select set_config('role', ${claims.role}, true), set_config('request.jwt.claims', ${
      JSON.stringify(claims)
    }, true)`
    return work(tx)
  })
}

/** Listens on a free port, reports it to the benchmark, and stops with the benchmark. */
export async function serve (app: FastifyInstance): Promise<void> {
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  process.send?.({ url })
  process.on('disconnect', () => process.exit())
}
