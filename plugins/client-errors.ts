/**
 * Handles requests that Node's HTTP server does not pass to Fastify, or should not. Responds to
 * bytes that are not HTTP, headers that are too large, requests that arrive too late, and CONNECT.
 * Passes on requests with `Expect`. Refuses a faulty Host, and chunks in HTTP/1.0.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { headerValues } from '../schemas/http.ts'
import { failure, type Failure, type FailureCode } from '../src/errors/catalogue.ts'
import { answerFailure } from '../src/errors/envelope.ts'

interface ClientErrorsOptions {
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
    const refused = failure(failures.get(error.code) ?? 'http_malformed')
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
  refuseFaultyHeaders(app)
}

/** RFC 9112 §3.2, RFC 3986 §3.2.2; an empty host is valid. */
const HOST = /^(?:\[[\w.:~-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i

/**
 * Refuses what Node's parser accepts and RFC 9112 does not. Another server on the way may see other
 * requests in the bytes that follow, so the connection is closed.
 */
function refuseFaultyHeaders (app: FastifyInstance): void {
  // Not a hook: the parser may read the next request first.
  app.server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const fault = findFault(request)
    if (fault === undefined) return
    app.earlyFailures.set(request, failure('http_malformed', fault))
    ;(app.connections.get(request.socket) as Connection).closing = true
    // The response to a path that cannot be decoded is sent already.
    if (!response.headersSent) response.setHeader('connection', 'close')
  })
}

function findFault ({ rawHeaders, headers, httpVersion }: IncomingMessage): string | undefined {
  const hosts = headerValues(rawHeaders, 'host')
  if (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined) {
    return 'HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or use HTTP/1.1.'
  }
  if (hosts.length > 1) return 'Several Host headers. Send one.'
  if (hosts.length === 0 && httpVersion !== '1.0') return 'The Host header is missing.'
  return hosts.every(host => HOST.test(host)) ? undefined : 'The Host header is not a valid host.'
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

/** Failures by codes of Node's HTTP server. */
const failures: ReadonlyMap<string | undefined, FailureCode> = new Map([
  ['HPE_HEADER_OVERFLOW', 'headers_too_large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', 'request_timeout']
])

interface Refusal {
  readonly refused: Failure
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
