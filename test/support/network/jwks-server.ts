/**
 * A JWKS endpoint on 127.0.0.1 whose behaviour tests switch: it can rotate keys, stall, send
 * invalid responses and be unavailable. It records all requests.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { jwks } from '../keys.ts'
import { listen } from './listen.ts'
import { certs } from './tls-server.ts'

/** How the server responds to a request. */
export type Behaviour = (response: ServerResponse, request: IncomingMessage) => void

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

export interface JwksServer {
  readonly url: string
  readonly asked: readonly RecordedRequest[]
  /** The response to the next requests; initially an empty set. */
  behave: Behaviour
  readonly connections: ReadonlySet<Socket>
  /** Stops listening and closes all connections. */
  leave(): Promise<void>
  /** Listens again on the same port. */
  comeBack(): Promise<void>
}

/** Starts the server. The end of `t` stops it. */
export async function useJwksServer (
  t: Pick<Test, 'teardown'>,
  behave: Behaviour = set(),
  { tls = false } = {}
): Promise<JwksServer> {
  const asked: RecordedRequest[] = []
  const connections = new Set<Socket>()
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    asked.push({
      method: String(request.method),
      path: String(request.url),
      headers: request.headers
    })
    response.on('error', () => {})
    server.behave(response, request)
  }
  const listener = tls
    ? createTlsServer({
      key: readFileSync(`${certs}/server.key`),
      cert: readFileSync(`${certs}/server.crt`)
    }, answer)
    : createServer(answer)
  listener.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.on('error', () => {}).once('close', () => connections.delete(socket))
  })
  const leave = async (): Promise<void> => {
    if (!listener.listening) return
    const closed = once(listener, 'close')
    listener.close()
    for (const socket of connections) socket.destroy()
    await closed
  }
  const port = await listen(listener)
  const server: JwksServer = {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/keys`,
    asked,
    behave,
    connections,
    leave,
    async comeBack () {
      await listen(listener, port)
    }
  }
  t.teardown(leave)
  return server
}

export const set = (...keys: readonly unknown[]): Behaviour => body(jwks(...keys))

/** Sends these bytes. */
export function body (
  bytes: string | Buffer,
  { status = 200, headers = {} }: {
    readonly status?: number,
    readonly headers?: Readonly<Record<string, string>>
  } = {}
): Behaviour {
  return response => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(bytes)
  }
}

export const zipped = (text: string): Behaviour =>
  body(gzipSync(text), { headers: { 'content-encoding': 'gzip' } })

/** Sends a redirect with a valid set as its body. */
export const redirect = (location: string, status: number, text: string): Behaviour =>
  body(text, { status, headers: { location } })

export const silence: Behaviour = () => {}

/** Sends one space every few milliseconds, without an end. */
export const trickle: Behaviour = response => {
  response.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => {
    response.write(' ')
  }, 5)
  response.once('close', () => clearInterval(timer))
}

/** Writes these bytes to the socket and closes it. */
export const bytes = (text: string): Behaviour => response => {
  response.socket?.end(text)
}

/** Holds requests until `release`. They and all later requests are then handled by `then`. */
export function hold (then: Behaviour): { readonly behave: Behaviour, release(): void } {
  const held: Array<() => void> = []
  let open = false
  return {
    behave: (response, request) => {
      open ? then(response, request) : held.push(() => then(response, request))
    },
    release () {
      open = true
      for (const answer of held.splice(0)) answer()
    }
  }
}
