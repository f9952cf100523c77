/**
 * Handles requests that Node's HTTP server does not pass to Fastify. Responds to bytes that are not
 * HTTP, headers that are too large, requests that arrive too late, and CONNECT. Passes on requests
 * with `Expect`.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { failure, type Failure } from '../src/errors/catalogue.ts'
import { answerFailure } from '../src/errors/envelope.ts'

export interface ClientErrorsOptions {
  /** Returns the id of a request; the same function as Fastify's genReqId. */
  readonly requestId: (request: IncomingMessage) => string
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Failures found by Node's HTTP server. The errors plugin sends them. */
    earlyFailures: WeakMap<IncomingMessage, Failure>
  }
}

type ClientError = Error & { readonly code?: string }
type Connection = NonNullable<ReturnType<FastifyInstance['connections']['get']>>

async function clientErrors (
  app: FastifyInstance,
  { requestId }: ClientErrorsOptions
): Promise<void> {
  const { server } = app
  app.decorate('earlyFailures', new WeakMap<IncomingMessage, Failure>())
  // Fastify's listener would send a response of another form.
  server.removeAllListeners('clientError')
  server.on('clientError', (error: ClientError, socket: Socket) => {
    const connection = app.connections.get(socket)
    if (connection === undefined || !socket.writable) return
    connection.unreadable = true
    // Complete requests are running. A 400 now would be read as the response to a batch that may
    // commit; instead their responses are the last ones on this connection.
    if (connection.owesResponse()) return
    const { last } = connection
    const refused = clientFailure(error.code)
    if (last === undefined || last.request.complete) {
      refuse(app, socket, { refused, id: randomUUID() })
      return
    }
    // Fastify reports that the body ended early; the errors plugin then looks up the cause here.
    app.earlyFailures.set(last.request, refused)
    if (!last.response.headersSent) writeFailure(socket, { refused, id: requestId(last.request) })
    app.lingeringClose(socket)
  })
  // Without a listener Node closes the connection of a CONNECT without a response; with one, the
  // listener has to handle the socket's errors.
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {}).resume()
    const connection = app.connections.get(socket) as Connection
    connection.unreadable = true
    if (!socket.writable || connection.owesResponse()) return
    refuse(app, socket, {
      refused: failure('method_not_allowed'),
      id: requestId(request),
      headers: { allow: 'POST' }
    })
  })
  handleExpect(app)
}

/**
 * `Expect: 100-continue`: a client is asked for the body only after its headers were accepted. Any
 * other expectation is refused (RFC 9110 §10.1.1).
 */
function handleExpect (app: FastifyInstance): void {
  const { server } = app
  const waiting = new WeakSet<IncomingMessage>()
  // Without a listener Node would ask for the body before any check of the headers.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waiting.add(request)
    server.emit('request', request, response)
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.earlyFailures.set(request, failure('expectation_unsupported'))
    server.emit('request', request, response)
  })
  // Runs after the onRequest hooks, which check the headers.
  app.addHook('preParsing', ({ raw, headers, maxBodyBytes }, reply, _payload, done) => {
    if (waiting.has(raw) && !(Number(headers['content-length']) > maxBodyBytes)) {
      reply.raw.writeContinue()
    }
    done()
  })
}

function clientFailure (code: string | undefined): Failure {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return failure('headers_too_large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return failure('request_timeout')
    default:
      return failure('http_malformed')
  }
}

interface Refusal {
  readonly refused: Failure
  /** The request id. */
  readonly id: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Logs and sends a failure of which Fastify knows no request, then closes the connection. */
function refuse (app: FastifyInstance, socket: Socket, refusal: Refusal): void {
  const { id, refused: { status, code } } = refusal
  app.log.info({ request_id: id, status, code }, 'request completed')
  writeFailure(socket, refusal)
  app.lingeringClose(socket)
}

function writeFailure (socket: Socket, { refused, id, headers: more = {} }: Refusal): void {
  const { status, headers, body } = answerFailure(refused, id)
  const lines = Object.entries({
    ...headers,
    ...more,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close'
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${status} ${refused.code}\r\n${lines.join('')}\r\n${body}`)
}

export default fp(clientErrors, { name: 'client-errors', dependencies: ['connections'] })
