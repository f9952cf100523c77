/**
 * `GET /tables` lists the tables and columns that the role of the request may use (API_TABLES).
 */
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../../schemas/config.ts'
import { listTables } from '../../src/tables/read-tables.ts'
import { choosePool, type Database } from '../../src/transaction/decorators.ts'
import { clientClosed } from './respond.ts'

async function tables (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  const database = app.getDecorator<Database>('database')
  const authenticate = app.getDecorator<onRequestHookHandler>('authenticate')
  app.get('/tables', { onRequest: authenticate }, async (request, reply) => {
    const { identity } = request
    const pool = choosePool(database, { access: 'read-only' })
    const tables = await listTables(pool, {
      role: identity.role,
      anonymous: identity.anonymous,
      schemas: config.DB_SCHEMAS,
      verbose: config.ERROR_VERBOSITY === 'verbose',
      maxBytes: config.MAX_RESPONSE_BYTES,
      timeoutMs: config.STATEMENT_TIMEOUT_MS,
      deadline: performance.now() - reply.elapsedTime + config.REQUEST_TIMEOUT_MS,
      clientClosed: clientClosed(reply)
    })
    return reply.type('application/json; charset=utf-8').send(
      `{"error":null,"data":{"tables":${tables}}}`
    )
  })
}

export default fp(tables, { name: 'tables', encapsulate: true, dependencies: ['auth', 'database'] })
