/**
 * `GET /health` of the main server: whether the database answers, for load balancers. Without authentication, in its own shape.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../src/run/database.ts'

async function health (app: FastifyInstance): Promise<void> {
  const { probe } = app.getDecorator<Database>('database')
  app.get('/health', async (_request, reply) => {
    if (await probe.reachable()) return { ok: true }
    return reply.code(503).header('retry-after', '1').send({ ok: false, error: 'database' })
  })
}

export default fp(health, { name: 'health', fastify: '5.x', encapsulate: true, dependencies: ['db'] })
