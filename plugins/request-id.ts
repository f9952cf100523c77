/**
 * The request id: taken from `X-Request-Id` or generated, and sent with every response.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const VALID_ID = /^[A-Za-z0-9._:/+=@-]{1,128}$/

const ids = new WeakMap<IncomingMessage, string>()

/**
 * Returns the id of a request, the same at every call: the client's `X-Request-Id` if there is
 * exactly one and it is safe to print, otherwise a new UUID.
 */
export function requestId (request: IncomingMessage): string {
  const existing = ids.get(request)
  if (existing !== undefined) return existing
  // Node joins repeated headers with ", ", which the pattern does not match.
  const sent = request.headers['x-request-id']
  const id = typeof sent === 'string' && VALID_ID.test(sent) ? sent : randomUUID()
  ids.set(request, id)
  return id
}

async function requestIdPlugin (app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
}

export default fp(requestIdPlugin, { name: 'request-id', fastify: '5.x' })
