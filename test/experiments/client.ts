/**
 * An HTTP client with little overhead: sends prepared bytes on one connection, one request at a
 * time. It shares the processor with the service. A client library would take more time than a
 * rejection takes in the service and distort the measurement.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { request } from '../support/network/wire.ts'

export interface TimedResponse {
  readonly status: number
  /** Whether the service closes the connection. */
  readonly closes: boolean
  readonly ms: number
}

export interface Connection {
  /**
   * Sends a request and waits for the response, one at a time. Rejects if the connection closes
   * first.
   */
  send(request: Buffer): Promise<TimedResponse>
  close(): void
}

/** Encodes a request, so it can be sent any number of times. */
export function encodeBatch (authorization: string, batch: readonly object[]): Buffer {
  const fields = { authorization, 'content-type': 'application/json' }
  return Buffer.from(request('POST', '/', fields, JSON.stringify(batch)))
}

/** The beginning of a response. 100 (Continue) may come before. */
const FINAL = /^HTTP\/1\.1 [2-5]/m

export async function openConnection (url: string): Promise<Connection> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  return {
    send: request => send(socket, request),
    close: () => {
      socket.destroy()
    }
  }
}

function send (socket: Socket, request: Buffer): Promise<TimedResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<TimedResponse>()
  const start = performance.now()
  // Until the end of the head: a response can have hundreds of megabytes.
  let received = Buffer.alloc(0)
  let length = 0
  let end = Infinity
  let head = ''
  const settle = (work: () => void): void => {
    socket.off('data', take).off('close', fail).off('error', fail)
    work()
  }
  const closed = new Error('the connection closed before the response')
  const fail = (): void => settle(() => reject(closed))
  const take = (chunk: Buffer): void => {
    length += chunk.length
    if (head === '') {
      received = Buffer.concat([received, chunk])
      const start = received.toString('latin1').search(FINAL)
      const split = start < 0 ? -1 : received.indexOf('\r\n\r\n', start)
      if (split < 0) return
      head = received.toString('latin1', start, split)
      length = received.length - split - 4
      end = Number(/\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    }
    if (length < end) return
    settle(() =>
      resolve({
        status: Number(head.slice(9, 12)),
        closes: /\nconnection: close/i.test(head),
        ms: performance.now() - start
      })
    )
  }
  socket.on('data', take).once('close', fail).once('error', fail)
  if (socket.destroyed) fail()
  else socket.write(request)
  return promise
}

/** Returns the quantile `share` (0 to 1) of the numbers; 0 if there are none. */
export function quantile (numbers: readonly number[], share: number): number {
  const sorted = Float64Array.from(numbers).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
