/**
 * A JWKS endpoint on 127.0.0.1 that rotates, stalls and lies.
 *
 * In charge of: what comes over the wire, counting who asked, and being away.
 * Refuses to: judge keys, and to decide when: tests switch what it does.
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
import type { AddressInfo, Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { jwks } from '../keys.ts'
import { certs } from './tls-server.ts'

/** What the server does with a request. */
export type Behaviour = (response: ServerResponse, request: IncomingMessage) => void

/** One request that came. */
export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

export interface JwksServer {
  readonly url: string
  /** Every request so far. */
  readonly asked: readonly Asked[]
  /** What is done with the next requests; at first an empty set. */
  behave: Behaviour
  /** Connections that are open now. */
  readonly connections: ReadonlySet<Socket>
  /** Refuses connections from now on and ends those that are open. */
  leave(): Promise<void>
  /** Listens again, on the same port. */
  comeBack(): Promise<void>
}

/** Starts the server; it ends with `t`. */
export async function useJwksServer (
  t: Pick<Test, 'teardown'>,
  { tls = false } = {}
): Promise<JwksServer> {
  const asked: Asked[] = []
  const connections = new Set<Socket>()
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    asked.push({
      method: String(request.method),
      path: String(request.url),
      headers: request.headers
    })
    response.on('error', () => {})
    self.behave(response, request)
  }
  const server = tls
    ? createTlsServer({
      key: readFileSync(`${certs}/server.key`),
      cert: readFileSync(`${certs}/server.crt`)
    }, answer)
    : createServer(answer)
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.on('error', () => {}).once('close', () => connections.delete(socket))
  })
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  const leave = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of connections) socket.destroy()
    await closed
  }
  await listen(0)
  const { port } = server.address() as AddressInfo
  const self: JwksServer = {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/keys`,
    asked,
    behave: set(),
    connections,
    leave,
    comeBack: async () => listen(port)
  }
  t.teardown(leave)
  return self
}

/** Answers a set of these keys. */
export const set = (...keys: readonly unknown[]): Behaviour => body(jwks(...keys))

/** Answers these bytes. */
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

/** Answers these bytes compressed. */
export const zipped = (text: string): Behaviour =>
  body(gzipSync(text), { headers: { 'content-encoding': 'gzip' } })

/** Sends the client elsewhere, with a body that would do. */
export const redirect = (location: string, status: number, text: string): Behaviour =>
  body(text, { status, headers: { location } })

/** Never answers. */
export const silence: Behaviour = () => {}

/** Answers the head and half of the body, then nothing more. */
export const stall = (text: string): Behaviour => response => {
  begin(response, text)
}

/** Answers the head and half of the body, then ends the connection. */
export const cut = (text: string): Behaviour => response => {
  begin(response, text, () => {
    response.destroy()
  })
}

/** Answers a byte every few milliseconds that changes nothing, and comes to no end. */
export const trickle: Behaviour = response => {
  response.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => {
    response.write(' ')
  }, 5)
  response.once('close', () => clearInterval(timer))
}

/** Writes these bytes to the socket as they are, and ends it. */
export const bytes = (text: string): Behaviour => response => {
  response.socket?.end(text)
}

/** Resets the connection instead of an answer. */
export const reset: Behaviour = response => {
  response.socket?.resetAndDestroy()
}

/** Keeps requests until `release`, which answers them, and all that come later, with `then`. */
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

function begin (response: ServerResponse, text: string, done = (): void => {}): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text)
  })
  response.write(text.slice(0, text.length / 2), done)
}
