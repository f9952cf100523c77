/**
 * Whether requests are welcome: whether the database answers, until the service stops. `GET
 * /health` of the main server says it to load balancers, without authentication and in its own
 * shape; the admin server asks the same by the decorator.
 */
import type { Static } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Unhealthy } from '../../schemas/http.ts'
import type { Database } from '../../src/transaction/database.ts'

async function health (app: FastifyInstance): Promise<void> {
  const { probe } = app.getDecorator<Database>('database')
  const isStopping = app.getDecorator<() => boolean>('isStopping')
  const findHindrance = async (): Promise<Static<typeof Unhealthy>['error'] | undefined> => {
    if (isStopping()) return 'stopping'
    return await probe.reachable() ? undefined : 'database'
  }
  app.decorate('findHindrance', findHindrance)
  app.get('/health', async (_request, reply) => {
    const error = await findHindrance()
    if (error === undefined) return { ok: true }
    return reply.code(503).header('retry-after', '1').send({ ok: false, error })
  })
}

export default fp(health, { name: 'health', fastify: '5.x', dependencies: ['http', 'db'] })
