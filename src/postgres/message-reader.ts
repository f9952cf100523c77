/**
 * Receives what PostgreSQL sends with as few buffers as can be. Node gives every read 64 KiB of its
 * own, and the client library puts a message of many reads together from all of them: an answer of
 * 1 MB left 2 MB of garbage outside of V8's heap, and more than half of the processor time went
 * into collecting it. In charge of: one buffer for the reads of a connection, a copy of its own
 * size for everything that arrives, and one whole buffer for a large message. Changes no byte and
 * no order; reads message headers and nothing else.
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { HEADER_BYTES, messageSize } from './wire-protocol.ts'

const READ_BYTES = 65_536
/** The most that PostgreSQL sends as one message; what says more is none. */
const MAX_BYTES = 1024 * 1024 * 1024

/**
 * A socket that connects, and emits what it receives as `data` with a large message in one piece.
 * It is not for encryption on top of it.
 */
export function connectMessageReader (options: NetConnectOpts): Socket {
  const take = createMessageReader(bytes => {
    socket.emit('data', bytes)
  })
  const onread = {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback (size: number, buffer: Uint8Array) {
      take((buffer as Buffer).subarray(0, size))
      return true
    }
  }
  const socket: Socket = connect({ ...options, onread })
  return socket
}

/**
 * Takes chunks, which it does not keep, and delivers copies of them as they come; but a message
 * that is longer than a read, and whose header lies in one chunk, as one.
 */
export function createMessageReader (deliver: (bytes: Buffer) => void): (chunk: Buffer) => void {
  let large: Buffer | undefined
  let filled = 0
  /** Bytes until the next header. */
  let skip = 0
  /** A header that lies in several chunks, as far as it is there. */
  const header = Buffer.alloc(HEADER_BYTES)
  let known = 0
  return chunk => {
    const { length } = chunk
    let start = 0
    if (large !== undefined) {
      start = chunk.copy(large, filled)
      filled += start
      if (filled < large.length) return
      deliver(large)
      large = undefined
    }
    let at = start
    while (at < length) {
      if (skip > 0) {
        const passed = Math.min(skip, length - at)
        skip -= passed
        at += passed
      } else if (known > 0 || length - at < HEADER_BYTES) {
        header[known++] = chunk[at++] as number
        if (known < HEADER_BYTES) continue
        known = 0
        skip = messageSize(header, 0) - HEADER_BYTES
      } else {
        skip = messageSize(chunk, at)
        if (skip <= Math.max(length - at, READ_BYTES) || skip > MAX_BYTES) continue
        large = Buffer.allocUnsafeSlow(skip)
        filled = chunk.copy(large, 0, at)
        skip = 0
        break
      }
    }
    if (at > start) deliver(Buffer.from(chunk.subarray(start, at)))
  }
}
