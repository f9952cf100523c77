/**
 * Reads from a PostgreSQL socket with few buffers. Node allocates 64 KiB for every read, and
 * postgres.js concatenates the reads of a large message: a result of 1 MB left 2 MB of garbage
 * outside of V8's heap, and garbage collection took more than half of the processor time. Here a
 * connection reuses one read buffer, copies what arrives to its exact size, and collects a large
 * message in one buffer. Only message headers are interpreted; bytes and order are unchanged.
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { HEADER_BYTES, messageSize } from './wire-protocol.ts'

const READ_BYTES = 65_536
/** The largest message that PostgreSQL sends; a header with a greater length is not its own. */
const MAX_MESSAGE_BYTES = 1024 * 1024 * 1024

/**
 * Connects a socket that emits what it receives as `data`, a large message as one chunk. TLS cannot
 * be layered on it.
 */
export function connectMessageReader (options: NetConnectOpts): Socket {
  const read = createMessageReader(bytes => {
    socket.emit('data', bytes)
  })
  const onread = {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback (size: number, buffer: Uint8Array) {
      read((buffer as Buffer).subarray(0, size))
      return true
    }
  }
  const socket: Socket = connect({ ...options, onread })
  return socket
}

/**
 * Returns a function that takes chunks and delivers copies of them. A message that is longer than a
 * read is delivered as one buffer, if its header arrived in one chunk.
 */
export function createMessageReader (deliver: (bytes: Buffer) => void): (chunk: Buffer) => void {
  /** A large message that is being collected, and its bytes so far. */
  let large: Buffer | undefined
  let filled = 0
  /** Bytes until the next header. */
  let skip = 0
  /** A header that is split across chunks, and its bytes so far. */
  const header = Buffer.alloc(HEADER_BYTES)
  let headerBytes = 0
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
    let offset = start
    while (offset < length) {
      if (skip > 0) {
        const skipped = Math.min(skip, length - offset)
        skip -= skipped
        offset += skipped
      } else if (headerBytes > 0 || length - offset < HEADER_BYTES) {
        header[headerBytes++] = chunk[offset++] as number
        if (headerBytes < HEADER_BYTES) continue
        headerBytes = 0
        skip = messageSize(header, 0) - HEADER_BYTES
      } else {
        skip = messageSize(chunk, offset)
        if (skip <= Math.max(length - offset, READ_BYTES) || skip > MAX_MESSAGE_BYTES) continue
        large = Buffer.allocUnsafeSlow(skip)
        filled = chunk.copy(large, 0, offset)
        skip = 0
        break
      }
    }
    if (offset > start) deliver(Buffer.from(chunk.subarray(start, offset)))
  }
}
