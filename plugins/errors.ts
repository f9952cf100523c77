/**
 * Every answer of the main server that is not 2xx, in the one envelope: what handlers throw, what Fastify refuses by itself, and what
 * Node's HTTP parser refuses before Fastify hears of it.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, failure } from '../src/errors/catalogue.ts'
import { answerFailure } from '../src/errors/envelope.ts'

export interface ErrorsOptions {
  /** How the id of a request is read; the same as Fastify's genReqId. */
  readonly requestId: (request: IncomingMessage) => string
}

async function errors (app: FastifyInstance, { requestId }: ErrorsOptions): Promise<void> {
  app.setErrorHandler((error, request, reply) => sendFailure(toFailure(error, request), request, reply))
  app.setNotFoundHandler((request, reply) => {
    const allowed = app.supportedMethods.filter(method => app.findRoute({ method, url: request.url.split('?', 1)[0] as string }) !== null)
    if (allowed.length > 0) reply.header('allow', allowed.join(', '))
    return sendFailure(failure(allowed.length > 0 ? 'method_not_allowed' : 'not_found'), request, reply)
  })
  guardServer(app.server, requestId)
}

/** Fastify's `frameworkErrors`: a path that cannot be decoded never reaches a hook or the error handler. */
export function sendFrameworkError (_error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const refused = failure('http_malformed', 'The path cannot be decoded.')
  request.log.info({ method: request.method, status: refused.status, code: refused.code }, 'request completed')
  sendFailure(refused, request, reply)
}

/** Fastify's `clientErrorHandler`: the bytes are not HTTP, are too many or came too late. */
export function sendClientError (error: { readonly code: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const exchanges = open.get(socket) ?? []
  // A complete request is being answered: a 400 now would deny a batch that may well commit. Its answer is the last one here.
  const owed = exchanges.findLast(({ request, response }) => request.complete && !response.writableEnded)
  if (owed !== undefined) {
    owed.response.once('close', () => socket.destroy())
    return
  }
  const arriving = exchanges.findLast(({ request }) => !request.complete)
  endWith(socket, clientFailure(error.code), arriving?.id ?? randomUUID())
}

interface Exchange { readonly request: IncomingMessage, readonly response: ServerResponse, readonly id: string }

/** Requests of a connection that are arriving or not yet answered; more than one when the client pipelines. */
const open = new WeakMap<Duplex, readonly Exchange[]>()

/** What Node's server answers by itself, or not at all, is answered here. */
function guardServer (server: Server, requestId: ErrorsOptions['requestId']): void {
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const list = open.get(socket) ?? []
    const exchange = { request, response, id: requestId(request) }
    open.set(socket, [...list, exchange])
    response.once('close', () => open.set(socket, (open.get(socket) ?? []).filter(other => other !== exchange)))
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const { status, headers, body } = answerFailure(failure('expectation_unsupported'), requestId(request))
    response.writeHead(status, { ...headers, connection: 'close' }).end(body)
  })
  // Without a listener Node closes the connection of a CONNECT without a word.
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    endWith(socket, failure('method_not_allowed'), requestId(request), { allow: 'POST' })
  })
}

function endWith (socket: Duplex, refused: Failure, id: string, more: Readonly<Record<string, string>> = {}): void {
  const { status, headers, body } = answerFailure(refused, id)
  const lines = Object.entries({ ...headers, ...more, 'content-length': String(Buffer.byteLength(body)), connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${refused.code}\r\n${lines.join('')}\r\n${body}`)
}

function clientFailure (code: string): Failure {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW': return failure('headers_too_large')
    case 'ERR_HTTP_REQUEST_TIMEOUT': return failure('request_timeout')
    default: return failure('http_malformed')
  }
}

function toFailure (error: unknown, request: FastifyRequest): Failure {
  if (error instanceof Failure) return error
  switch ((error as Partial<FastifyError>).code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE': return failure('body_too_large')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE': return failure('content_type_unsupported')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'ECONNRESET': return failure('http_malformed', 'The body ended before its announced length.')
    default:
      request.log.error({ err: error }, 'a fault of the service')
      return failure('internal', undefined, undefined, error)
  }
}

function sendFailure (refused: Failure, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (request.access !== undefined && request.access !== null) request.access.failure = refused
  const { status, headers, body } = answerFailure(refused, request.id)
  return reply.code(status).headers(headers).send(body)
}

export default fp(errors, { name: 'errors', fastify: '5.x', dependencies: ['tracing'] })
