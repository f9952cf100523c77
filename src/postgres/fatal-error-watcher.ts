/**
 * Hears the last word of a server. PostgreSQL says why it ends a connection by an error of severity
 * FATAL, and postgres.js keeps that to itself when the connection is closed behind it. Reads along
 * what arrives on the socket: message headers, and errors whole; changes nothing.
 */
import type { Socket } from 'node:net'
import { HEADER_BYTES, messageSize } from './wire-protocol.ts'

export interface FatalErrorWatcher {
  /**
   * Whether the server said FATAL: the statement that it carried out then, and those behind it,
   * came to nothing.
   */
  fatal: boolean
}

const ERROR = 'E'.charCodeAt(0)

/** No FATAL is this long; what says so is not read to its end. */
const MAX_ERROR_BYTES = 65_536

/**
 * Listens on a socket that is connected, encrypted where it is to be, and of which nothing has been
 * read.
 */
export function watchFatalErrors (socket: Socket): FatalErrorWatcher {
  const farewell: FatalErrorWatcher = { fatal: false }
  let rest: Buffer = Buffer.alloc(0)
  /** Bytes of a message that is of no interest, still to come. */
  let skip = 0
  socket.on('data', (chunk: Buffer) => {
    if (skip >= chunk.length) {
      skip -= chunk.length
      return
    }
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = skip
    while (bytes.length - at >= HEADER_BYTES) {
      const size = messageSize(bytes, at)
      if (bytes[at] === ERROR && size <= MAX_ERROR_BYTES) {
        if (bytes.length - at < size) break
        farewell.fatal ||= isFatal(bytes.subarray(at + HEADER_BYTES, at + size))
      }
      at += size
    }
    skip = Math.max(0, at - bytes.length)
    rest = bytes.subarray(Math.min(at, bytes.length))
  })
  return farewell
}

/**
 * The fields of an ErrorResponse: each a type, a text and a zero byte. FATAL of class 57P or 25P:
 * told to end, or too late. A pooler has other reasons.
 */
function isFatal (fields: Buffer): boolean {
  const texts = fields.toString('latin1').split('\0')
  return texts.includes('VFATAL') && texts.some(text => /^C(?:57|25)P/.test(text))
}
