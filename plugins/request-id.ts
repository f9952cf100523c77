/**
 * The request id: taken from `X-Request-Id` or generated, and sent with every response.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const VALID_ID = /^[A-Za-z0-9._:/+=@-]{1,128}$/

/**
 * Returns the id of a request: the client's `X-Request-Id` if there is exactly one and it is safe
 * to print, otherwise a new UUID. The id replaces the header, so every call returns the same.
 */
export function requestId ({ headers }: IncomingMessage): string {
  // Node joins repeated headers with ", ", which the pattern does not match.
  const sent = headers['x-request-id']
  if (typeof sent === 'string' && VALID_ID.test(sent)) return sent
  const id = randomUUID()
  headers['x-request-id'] = id
  return id
}

async function requestIdPlugin (app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
}

export default fp(requestIdPlugin, { name: 'request-id' })
