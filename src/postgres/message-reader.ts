/**
 * Divides what a PostgreSQL server sends into messages, with few buffers. Node allocates 64 KiB for
 * every read, and a result of 1 MB left 2 MB of garbage outside of V8's heap. Here a connection
 * reuses one read buffer, copies what arrives to its exact size, and collects a message that is
 * longer than a read in one buffer.
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { HEADER_BYTES, messageSize } from './wire-protocol.ts'

const READ_BYTES = 65_536

/** Connects a socket that emits what it receives as `data`, copied from one read buffer. */
export function connectWithReadBuffer (options: NetConnectOpts): Socket {
  const onread = {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback (size: number, buffer: Uint8Array) {
      socket.emit('data', Buffer.from((buffer as Buffer).subarray(0, size)))
      return true
    }
  }
  const socket: Socket = connect({ ...options, onread })
  return socket
}

/**
 * Returns a function that takes chunks and delivers complete messages. It throws an Error when the
 * bytes are not of PostgreSQL's protocol. Messages share the memory of their chunk. `announce` is
 * called with the type and the size of each message as soon as they are known.
 */
export function createMessageReader (
  deliver: (message: Buffer) => void,
  announce: (type: number, size: number) => void
): (chunk: Buffer) => void {
  /** A message that has arrived in part, with room for all of it once its size is known. */
  let partial = Buffer.alloc(0)
  let filled = 0
  return chunk => {
    let offset = 0
    if (filled > 0) {
      if (filled < HEADER_BYTES) {
        const missing = HEADER_BYTES - filled
        filled += chunk.copy(partial, filled, 0, missing)
        offset = Math.min(missing, chunk.length)
        if (filled < HEADER_BYTES) return
        const header = partial
        const size = messageSize(header, 0)
        announce(header[0] as number, size)
        partial = Buffer.allocUnsafeSlow(size)
        header.copy(partial, 0, 0, HEADER_BYTES)
      }
      const copied = chunk.copy(partial, filled, offset)
      filled += copied
      offset += copied
      if (filled < partial.length) return
      filled = 0
      deliver(partial)
    }
    while (chunk.length - offset >= HEADER_BYTES) {
      const size = messageSize(chunk, offset)
      announce(chunk[offset] as number, size)
      if (chunk.length - offset < size) {
        partial = Buffer.allocUnsafeSlow(size)
        filled = chunk.copy(partial, 0, offset)
        return
      }
      deliver(chunk.subarray(offset, offset += size))
    }
    if (offset === chunk.length) return
    partial = Buffer.alloc(HEADER_BYTES)
    filled = chunk.copy(partial, 0, offset)
  }
}
