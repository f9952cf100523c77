/**
 * Client connections: timeouts, bodies that arrive after the response, and closing. A connection
 * is never closed before the client had time to read its last response, and a stopping service
 * loses no request that is already on its way.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../schemas/config.ts'

/** Maximum time, in milliseconds, for a client to read the last response on its connection. */
const LINGER_MS = 5000

/** How long, in milliseconds, a stopping server keeps idle connections open. */
const IDLE_CLOSE_MS = 1000

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

class Connection {
  /** Exchanges whose response is not complete; several when the client pipelines. */
  readonly pending: Exchange[] = []
  last: Exchange | undefined
  /** True when the bytes after the last request cannot be parsed. */
  unreadable = false
  /**
   * True when the current response carries `Connection: close`. Requests after it must not run
   * (RFC 9112 §9.6), because the client would not receive their responses.
   */
  closing = false

  /** True while a request that arrived completely has no complete response. */
  owesResponse (): boolean {
    return this.pending.some(({ request }) => request.complete)
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    connections: ReadonlyMap<Socket, Connection>
    /** Closes a connection after the client had time to read the last response. */
    lingeringClose: (socket: Socket) => void
    /** From now on each response is the last one on its connection. */
    announceStop: () => void
    isStopping: () => boolean
  }
}

interface State {
  readonly connections: Map<Socket, Connection>
  /** Requests that arrived on a closing connection. */
  readonly dropped: WeakSet<IncomingMessage>
  /** Maximum bytes of a body that are read after its request was answered. */
  readonly maxBodyBytes: number
  readonly lingerMs: number
  readonly idleCloseMs: number
  stopping: boolean
}

async function connections (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  const { server } = app
  const lingerMs = Math.min(LINGER_MS, config.REQUEST_TIMEOUT_MS)
  const state: State = {
    connections: new Map(),
    dropped: new WeakSet(),
    maxBodyBytes: config.MAX_BODY_BYTES,
    lingerMs,
    idleCloseMs: Math.min(IDLE_CLOSE_MS, lingerMs),
    stopping: false
  }
  server.on('connection', socket => {
    state.connections.set(socket, new Connection())
    socket.once('close', () => state.connections.delete(socket))
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) =>
    trackExchange(state, { request, response }))
  server.on('timeout', (socket: Socket) => destroyUnread(state, socket))
  // Node counts a connection as idle while its response is still being written, and would cut it.
  server.closeIdleConnections = ignore

  app.decorate('connections', state.connections)
  app.decorate('lingeringClose', (socket: Socket) => lingeringClose(socket, lingerMs))
  app.decorate('announceStop', () => {
    state.stopping = true
  })
  app.decorate('isStopping', () => state.stopping)
  // Asynchronous, unlike the other hooks. It is called after the headers are parsed, and so the
  // parser reads the rest of the packet before the next hook. Otherwise no request would be
  // complete, even without a body.
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (state.dropped.has(raw)) reply.hijack()
  })
  app.addHook('onSend', ({ raw, headers }, reply, _payload, done) => {
    const connection = state.connections.get(raw.socket)
    // A body without a known end is not read to its end; see drain.
    const endless = !raw.complete && !(Number(headers['content-length']) <= state.maxBodyBytes)
    // Pipelined responses keep the order of their requests: only the last may close the connection.
    const last = state.stopping && connection?.pending.length === 1
    if (connection !== undefined && (endless || last)) {
      connection.closing = true
      reply.header('connection', 'close')
    }
    done()
  })
  app.addHook('preClose', async () => stop(state, server))
}

function ignore (): void {}

function trackExchange (state: State, exchange: Exchange): void {
  const { request, response } = exchange
  const { socket } = request
  const connection = state.connections.get(socket) as Connection
  if (connection.closing || !socket.writable) {
    state.dropped.add(request)
    return
  }
  if (state.stopping) {
    connection.closing = true
    response.setHeader('connection', 'close')
  }
  connection.pending.push(exchange)
  connection.last = exchange
  // Runs before Node's own listener, which would read the rest of the body without a limit or
  // reset the connection.
  response.prependOnceListener('finish', () => {
    if (!request.complete) drain(request, state)
  })
  response.once('close', () => {
    connection.pending.splice(connection.pending.indexOf(exchange), 1)
    if (connection.unreadable && !connection.owesResponse()) lingeringClose(socket, state.lingerMs)
    if (state.stopping && connection.pending.length === 0) closeWhenIdle(state, socket, connection)
  })
}

/**
 * Destroys a connection whose client does not read its response. A batch may run longer than the
 * socket timeout without a byte on the wire: such a connection stays open.
 */
function destroyUnread ({ connections }: State, socket: Socket): void {
  const [first] = (connections.get(socket) as Connection).pending
  if (first === undefined || first.response.headersSent) socket.destroy()
}

/**
 * Closes an idle connection of a stopping service. It waits, because the next request may be on
 * its way: that request is served as the last one.
 */
function closeWhenIdle ({ idleCloseMs }: State, socket: Socket, { pending }: Connection): void {
  setTimeout(() => {
    if (pending.length === 0 && socket.writable) socket.destroySoon()
  }, idleCloseMs).unref()
}

/**
 * Ends a connection after the data that was written, and reads what the client still sends. A
 * socket closed with unread bytes is reset, and the reset can overtake the response.
 */
function lingeringClose (socket: Socket, lingerMs: number): void {
  socket.end()
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
}

/**
 * Discards the rest of the body of an answered request, so that the connection can serve the next
 * one. Stops reading after `maxBodyBytes`.
 */
function drain (request: IncomingMessage, { maxBodyBytes, lingerMs }: State): void {
  const { socket } = request
  let left = maxBodyBytes
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) request.pause()
  })
  // Node calls it to close the connection after this response. As in lingeringClose, the client
  // needs time to read.
  const end = (): void => {
    socket.end()
  }
  socket.destroySoon = end
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref()
  request.once('end', () => {
    clearTimeout(timer)
    Reflect.deleteProperty(socket, 'destroySoon')
    if (socket.writableEnded) socket.destroySoon()
  })
}

/** Closes idle connections, and requests that do not arrive completely in time. */
function stop (state: State, server: Server): void {
  state.stopping = true
  for (const [socket, connection] of state.connections) {
    if (connection.pending.length === 0) closeWhenIdle(state, socket, connection)
  }
  // A closing server of Node no longer checks its request timeouts.
  setTimeout(() => {
    for (const [socket, { last }] of state.connections) {
      if (last?.request.complete !== true) server.emit('clientError', requestTimeout, socket)
    }
  }, state.idleCloseMs + state.lingerMs).unref()
}

const requestTimeout = Object.assign(new Error('the request did not arrive in time'), {
  code: 'ERR_HTTP_REQUEST_TIMEOUT'
})

export default fp(connections, { name: 'connections' })
