/**
 * The edge of HTTP itself: what Node's server would answer in its own words, or not at all. In
 * charge of bytes that are no HTTP, too many or too late, of requests that Node keeps from Fastify
 * (CONNECT, Expect), and of connections whose request was answered before its body had arrived.
 * What a request means is not known here.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { failure, type Failure } from '../src/errors/catalogue.ts'
import { answerFailure } from '../src/errors/envelope.ts'

export interface HttpOptions {
  /** How the id of a request is read; the same as Fastify's genReqId. */
  readonly requestId: (request: IncomingMessage) => string
  /** Most bytes that are read of a body after its request was answered. */
  readonly maxBodyBytes: number
  /**
   * How long, in milliseconds, a connection is kept for nothing but the client reading the last
   * answer.
   */
  readonly patienceMs: number
}

/**
 * How long, in milliseconds, a closing server waits for a request on a connection that is kept
 * alive.
 */
const GRACE_MS = 1000

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

interface Connection {
  /** Requests that are not answered yet; several when the client pipelines. */
  readonly open: Set<Exchange>
  last?: Exchange
  /** Nothing that comes after the last request is understood. */
  broken: boolean
  /**
   * The last answer is announced as such: what comes after it must not run (RFC 9112 §9.6), for
   * nobody would hear of it.
   */
  closing: boolean
}

/**
 * The request-target in origin form (RFC 9112 §3.2.2): what a client sends to a proxy may begin
 * with scheme and host.
 */
export function originForm ({ url = '' }: { readonly url?: string | undefined }): string {
  const path = url.replace(/^https?:\/\/[^/?#]+/i, '')
  // `*` too: the router would take its one character for that of `/`.
  return path.startsWith('/') ? path : `/${path}`
}

async function http (
  app: FastifyInstance,
  { requestId, maxBodyBytes, patienceMs }: HttpOptions
): Promise<void> {
  const { server } = app
  const connections = new Map<Socket, Connection>()
  const refusals = new WeakMap<IncomingMessage, Failure>()
  const awaiting = new WeakSet<IncomingMessage>()
  const dropped = new WeakSet<IncomingMessage>()
  const graceMs = Math.min(GRACE_MS, patienceMs)
  let stopping = false

  /**
   * Ends a connection that has nothing to answer, while the service stops. Not at once: the next
   * request may be on its way already, and would be lost. It is served, as the last one.
   */
  const retire = (socket: Socket, { open }: Connection): void => {
    setTimeout(() => {
      if (open.size === 0 && socket.writable) socket.destroySoon()
    }, graceMs).unref()
  }

  /** Refuses what Fastify never hears of. */
  const refuse = (
    socket: Socket,
    refused: Failure,
    id: string,
    headers: Readonly<Record<string, string>> = {}
  ): void => {
    app.log.info(
      { request_id: id, status: refused.status, code: refused.code },
      'request completed'
    )
    writeFailure(socket, refused, id, headers)
    hangUp(socket, patienceMs)
  }

  server.on('connection', socket => {
    connections.set(socket, { open: new Set(), broken: false, closing: false })
    socket.once('close', () => connections.delete(socket))
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const connection = connections.get(socket) as Connection
    if (connection.closing || !socket.writable) {
      dropped.add(request)
      return
    }
    if (stopping) {
      connection.closing = true
      response.setHeader('connection', 'close')
    }
    const exchange = { request, response }
    connection.open.add(exchange)
    connection.last = exchange
    // Before Node's own listener, which would read the rest of the body without bound or reset the
    // connection.
    response.prependOnceListener('finish', () => {
      if (!request.complete) drain(request, maxBodyBytes, patienceMs)
    })
    response.once('close', () => {
      connection.open.delete(exchange)
      if (connection.broken && !isOwed(connection)) hangUp(socket, patienceMs)
      if (stopping && connection.open.size === 0) retire(socket, connection)
    })
  })
  // With a listener Node leaves it to us. A batch may run longer than that: then nothing is
  // written, and nothing is wrong.
  server.on('timeout', (socket: Socket) => {
    const [first] = (connections.get(socket) as Connection).open
    if (first === undefined || first.response.headersSent) socket.destroy()
  })
  // Node takes a connection for idle whose answer is still being written, and would cut it when the
  // server closes.
  server.closeIdleConnections = () => {}
  // Fastify's listener would answer in its own words.
  server.removeAllListeners('clientError')
  server.on('clientError', (error: Error & { readonly code?: string }, socket: Socket) => {
    const connection = connections.get(socket)
    if (connection === undefined || !socket.writable) return
    connection.broken = true
    // Complete requests are being answered: a 400 now would deny a batch that may well commit.
    // Their answers are the last ones here.
    if (isOwed(connection)) return
    const { last } = connection
    const refused = clientFailure(error.code)
    if (last === undefined || last.request.complete) {
      refuse(socket, refused, randomUUID())
    } else {
      // Fastify hears that the body ended early; then the errors plugin asks what was answered.
      refusals.set(last.request, refused)
      if (!last.response.headersSent) writeFailure(socket, refused, requestId(last.request))
      hangUp(socket, patienceMs)
    }
  })
  // Without a listener Node closes the connection of a CONNECT without a word, and with one it
  // leaves the socket's errors to us.
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {}).resume()
    const connection = connections.get(socket) as Connection
    connection.broken = true
    if (socket.writable && !isOwed(connection)) {
      refuse(socket, failure('method_not_allowed'), requestId(request), { allow: 'POST' })
    }
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    refusals.set(request, failure('expectation_unsupported'))
    server.emit('request', request, response)
  })
  // Node would call for the body before anybody looked at the headers.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    awaiting.add(request)
    server.emit('request', request, response)
  })

  // From then on an answer is the last one of its connection. Connections are taken as before,
  // until the server closes.
  app.decorate('announceStop', () => {
    stopping = true
  })
  app.decorate('isStopping', () => stopping)
  app.decorate('refusalOf', (request: IncomingMessage) => refusals.get(request))
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (dropped.has(raw)) reply.hijack()
  })
  app.addHook('preParsing', async ({ raw, headers }, reply) => {
    if (awaiting.has(raw) && !(Number(headers['content-length']) > maxBodyBytes)) {
      reply.raw.writeContinue()
    }
  })
  app.addHook('onSend', async ({ raw, headers }, reply) => {
    const connection = connections.get(raw.socket)
    // A body whose end is not in sight will not be read to it; see drain.
    const endless = !raw.complete && !(Number(headers['content-length']) <= maxBodyBytes)
    // Answers go out in the order of their requests: only the last one may close the connection.
    if (connection === undefined || !(endless || (stopping && connection.open.size === 1))) return
    connection.closing = true
    reply.header('connection', 'close')
  })
  app.addHook('preClose', async () => {
    stopping = true
    for (const [socket, connection] of connections) {
      if (connection.open.size === 0) retire(socket, connection)
    }
    // Node looks after its timeouts no longer when it closes.
    setTimeout(() => {
      for (const [socket, { last }] of connections) {
        if (last?.request.complete !== true) server.emit('clientError', late, socket)
      }
    }, graceMs + patienceMs).unref()
  })
}

const late = Object.assign(new Error('the request did not arrive in time'), {
  code: 'ERR_HTTP_REQUEST_TIMEOUT'
})

/** Whether a request that arrived completely is still to be answered. */
function isOwed ({ open }: Connection): boolean {
  return [...open].some(({ request }) => request.complete)
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

function writeFailure (
  socket: Socket,
  refused: Failure,
  id: string,
  more: Readonly<Record<string, string>> = {}
): void {
  const { status, headers, body } = answerFailure(refused, id)
  const lines = Object.entries({
    ...headers,
    ...more,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close'
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${status} ${refused.code}\r\n${lines.join('')}\r\n${body}`)
}

/**
 * Ends a connection after what was written. What the client still sends is read for a while: a
 * connection that is closed with unread bytes is reset, and the reset can overtake the answer.
 */
function hangUp (socket: Socket, patienceMs: number): void {
  socket.end()
  const timer = setTimeout(() => socket.destroy(), patienceMs)
  socket.once('close', () => clearTimeout(timer))
}

/**
 * Throws away what is left of the body of an answered request: then the connection goes on with the
 * next one. Endless ones are cut off.
 */
function drain (request: IncomingMessage, maxBytes: number, patienceMs: number): void {
  const { socket } = request
  let left = maxBytes
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) request.pause()
  })
  // Node's way to close the connection after this answer; here it has to wait for the client, as in
  // hangUp.
  socket.destroySoon = () => socket.end()
  const timer = setTimeout(() => socket.destroy(), patienceMs).unref()
  request.once('end', () => {
    clearTimeout(timer)
    Reflect.deleteProperty(socket, 'destroySoon')
    if (socket.writableEnded) socket.destroySoon()
  })
}

export default fp(http, { name: 'http', fastify: '5.x' })
