/**
 * The access log: one line per request. It never contains bodies, tokens, query strings or error
 * messages of the database. Every response has the request id, by which its line is found: taken
 * from `X-Request-Id`, or generated.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Failure } from '../src/errors/catalogue.ts'

/** Members of the access log line that other plugins and routes set. */
interface AccessLogFields {
  failure?: Failure
  role?: string
  operations?: number
  batch?: string
  /** The batch is committed. Not logged; see the errors plugin. */
  committed?: boolean
  /** A health probe: its line has the level debug. A change of health is logged elsewhere. */
  probe?: true
}

declare module 'fastify' {
  interface FastifyRequest {
    readonly access: AccessLogFields
  }
}

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

const fields = Symbol('fields')

async function requestLog (app: FastifyInstance): Promise<void> {
  // A hook of a host can fail, or reply, before those of this context begin.
  app.decorateRequest('access', {
    getter (this: FastifyRequest & { [fields]?: AccessLogFields }) {
      return (this[fields] ??= {})
    }
  })
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    // Fastify does not call onResponse when the client has disconnected, and its batch may still
    // commit.
    reply.raw.once('close', () => {
      // Not reply.sent, which is set only with the last chunk of a large response.
      if (reply.raw.headersSent) writeLine(request, reply)
    })
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (reply.raw.destroyed) writeLine(request, reply)
    done()
  })
}

function writeLine (request: FastifyRequest, reply: FastifyReply): void {
  const { failure, role, batch, operations, probe } = request.access
  const line = {
    method: request.method,
    path: request.url.split('?', 1)[0],
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 1000) / 1000,
    role,
    batch,
    operations,
    ...failure === undefined ? {} : describe(failure)
  }
  const level = probe ? 'debug' : reply.statusCode >= 500 ? 'error' : 'info'
  request.log[level](line, 'request completed')
}

/** Logs the index of the failed operation. Its id is the client's text and is not logged. */
function describe ({ code, reason, details: { index, sqlstate } }: Failure): object {
  return { code, reason, index: index ?? undefined, sqlstate }
}

export default fp(requestLog, { name: 'request-log' })
