/**
 * A server that behaves like PostgreSQL, or violates the protocol, before the startup message.
 * Afterwards it only answers "ping" with "pong".
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { until } from '../until.ts'
import { resetSocket } from './reset.ts'

/** How the server responds to an SSLRequest, or, for `direct…`, to a handshake without one. */
export type Behaviour =
  | 'tls'
  | 'no-tls'
  | 'extra-bytes'
  | 'silent'
  | 'close'
  | 'broken-handshake'
  | 'direct'
  | 'direct-without-alpn'

export interface TestServer {
  readonly port: number
  /** The common name of the last client certificate. */
  clientName(): string | undefined
  /** Resolves when no connection is open. */
  unused(): Promise<unknown>
  stop(): Promise<void>
}

export const certs = `${import.meta.dirname}/certs`
const pem = (name: string): Buffer => readFileSync(`${certs}/${name}`)
const credentials = {
  key: pem('server.key'),
  cert: pem('server.crt'),
  ca: pem('ca.crt'),
  requestCert: true,
  rejectUnauthorized: false
}

/** Starts it on a free port of 127.0.0.1, or on the Unix socket `path`. */
export async function startServer (behaviour: Behaviour, path?: string): Promise<TestServer> {
  const sockets = new Set<Socket>()
  let clientName: string | undefined

  const talk = (socket: Socket): void => {
    if (socket instanceof TLSSocket) clientName = commonName(socket)
    socket.on('data', text => {
      if (String(text) === 'ping') socket.write('pong')
    })
  }

  const secure = (plain: Socket): void => {
    const socket = new TLSSocket(plain, { isServer: true, ...credentials })
    socket.on('error', () => {}).once('secure', () => talk(socket))
  }

  const answers: Readonly<Record<string, (socket: Socket) => void>> = {
    tls: socket => {
      socket.write('S')
      secure(socket)
    },
    'no-tls': socket => {
      socket.write('N')
      talk(socket)
    },
    'extra-bytes': socket => socket.write('Spong'),
    silent: () => {},
    close: socket => socket.end(),
    'broken-handshake': socket => {
      socket.write('S')
      socket.once('data', () => resetSocket(socket))
    }
  }

  const greet = (socket: Socket): void => {
    socket.once(
      'data',
      text => String(text) === 'ping' ? socket.write('pong') : answers[behaviour]?.(socket)
    )
  }

  const server = behaviour.startsWith('direct')
    ? createTlsServer({
      ...credentials,
      ...(behaviour === 'direct' && { ALPNProtocols: ['postgresql'] })
    }, talk)
    : createServer(greet)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
  })
  server.listen(path === undefined ? { port: 0, host: '127.0.0.1' } : { path })
  await once(server, 'listening')

  return {
    port: path === undefined ? (server.address() as AddressInfo).port : 0,
    clientName: () => clientName,
    unused: () => until(() => sockets.size === 0),
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    }
  }
}

function commonName (socket: TLSSocket): string | undefined {
  const name: unknown = socket.getPeerCertificate().subject?.CN
  return typeof name === 'string' ? name : undefined
}
