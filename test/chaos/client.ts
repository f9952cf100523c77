/**
 * A client that costs next to nothing: one request after the other on one connection, as bytes.
 *
 * In charge of: status, text and time of each answer. Where clients and service share the cores, a
 * client library takes more of them than a refusal does, and would be what is measured. Refuses to:
 * send again, or to know what a request means.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface Told {
  readonly status: number
  readonly text: string
  readonly ms: number
}

export interface Connection {
  /**
   * Sends a request and waits for its answer, one at a time. Throws when the connection ends
   * before.
   */
  ask(request: Buffer): Promise<Told>
  close(): void
}

/** A request as bytes, to be sent any number of times. */
export function encode (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body = ''
): Buffer {
  const fields = {
    host: 'localhost',
    'content-length': String(Buffer.byteLength(body)),
    ...headers
  }
  return Buffer.from(
    `${method} ${path} HTTP/1.1\r\n${
      Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join('')
    }\r\n${body}`
  )
}

/** A batch of a role as bytes. */
export function encodeBatch (
  authorization: string,
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Buffer {
  return encode(
    'POST',
    '/',
    { authorization, 'content-type': 'application/json', ...headers },
    JSON.stringify(batch)
  )
}

/** Opens a connection that is kept. */
export async function openConnection (url: string): Promise<Connection> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  return {
    ask: request => ask(socket, request),
    close: () => {
      socket.destroy()
    }
  }
}

function ask (socket: Socket, request: Buffer): Promise<Told> {
  const { promise, resolve, reject } = Promise.withResolvers<Told>()
  const sent = performance.now()
  let received: Buffer = Buffer.alloc(0)
  const settle = (work: () => void): void => {
    socket.off('data', take).off('close', fail).off('error', fail)
    work()
  }
  const fail = (): void => settle(() => reject(new Error('the connection ended before the answer')))
  const take = (chunk: Buffer): void => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const split = received.indexOf('\r\n\r\n')
    if (split < 0) return
    const head = received.toString('latin1', 0, split)
    const end = split + 4 + Number(/\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (received.length < end) return
    settle(() =>
      resolve({
        status: Number(head.slice(9, 12)),
        text: received.toString('utf8', split + 4, end),
        ms: performance.now() - sent
      })
    )
  }
  socket.on('data', take).once('close', fail).once('error', fail)
  if (socket.destroyed) fail()
  else socket.write(request)
  return promise
}

/** The value below which `share` of the numbers are; 0 for none. */
export function quantile (numbers: readonly number[], share: number): number {
  const sorted = Float64Array.from(numbers).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
