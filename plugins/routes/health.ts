/**
 * `GET /health` of the main server: tells load balancers whether to send requests here, without
 * authentication. The admin server uses the same check through the decorator `notReadyReason`.
 */
import type { Static } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Unhealthy } from '../../schemas/http.ts'
import { findProblem, type Database } from '../../src/transaction/decorators.ts'

async function health (app: FastifyInstance): Promise<void> {
  const database = app.getDecorator<Database>('database')
  const notReadyReason = async (): Promise<Static<typeof Unhealthy>['error'] | undefined> => {
    if (app.isStopping()) return 'stopping'
    return await findProblem(database)
  }
  app.decorate('notReadyReason', notReadyReason)
  app.get('/health', async (request, reply) => {
    request.access.probe = true
    const error = await notReadyReason()
    if (error !== undefined) reply.code(503).header('retry-after', '1')
    // As text, which no serializer of a host changes.
    return reply.type('application/json; charset=utf-8')
      .send(JSON.stringify(error === undefined ? { ok: true } : { ok: false, error }))
  })
}

export default fp(health, {
  name: 'health',
  dependencies: ['request-log', 'database'],
  decorators: { fastify: ['isStopping'] }
})
