/**
 * The request id: in every answer, in every log line. In charge of the one access line of a
 * request; bodies, tokens, query strings and messages of the database never go into a log.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Failure } from '../src/errors/catalogue.ts'

const accepted = /^[A-Za-z0-9._:/+=@-]{1,128}$/
const ids = new WeakMap<IncomingMessage, string>()

/**
 * The client's `X-Request-Id` when it sent exactly one that is safe to print, else a fresh UUID;
 * the same for every call.
 */
export function requestId (request: IncomingMessage): string {
  const known = ids.get(request)
  if (known !== undefined) return known
  // Several headers are joined by ", ", which the pattern refuses.
  const sent = request.headers['x-request-id']
  const id = typeof sent === 'string' && accepted.test(sent) ? sent : randomUUID()
  ids.set(request, id)
  return id
}

/** Facts that the access line is completed with; set by whoever knows them. */
export interface AccessFacts {
  failure?: Failure
  role?: string
  operations?: number
}

declare module 'fastify' {
  interface FastifyRequest {
    access: AccessFacts
  }
}

async function tracing (app: FastifyInstance): Promise<void> {
  app.decorateRequest('access')
  app.addHook('onRequest', async (request, reply) => {
    request.access = {}
    reply.header('x-request-id', request.id)
    // Not onResponse, which never comes when the client has gone away: its batch may be committed
    // all the same.
    reply.raw.once('close', () => {
      // Not reply.sent: that is said of a large answer only when its last piece was handed over.
      if (reply.raw.headersSent) writeLine(request, reply)
    })
  })
  app.addHook('onSend', async (request, reply) => {
    if (reply.raw.destroyed) writeLine(request, reply)
  })
}

function writeLine (request: FastifyRequest, reply: FastifyReply): void {
  const { failure, role, operations } = request.access
  const line = {
    method: request.method,
    path: request.url.split('?', 1)[0],
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 1000) / 1000,
    ...(role === undefined ? {} : { role }),
    ...(operations === undefined ? {} : { operations }),
    ...(failure === undefined ? {} : { code: failure.code, ...place(failure) })
  }
  request.log[reply.statusCode >= 500 ? 'error' : 'info'](line, 'request completed')
}

/** The number of an operation and not its id, which is the client's text. */
function place ({ details: { index, sqlstate } }: Failure): object {
  return { ...(index == null ? {} : { index }), ...(sqlstate === undefined ? {} : { sqlstate }) }
}

export default fp(tracing, { name: 'tracing', fastify: '5.x' })
