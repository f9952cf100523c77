/**
 * Detects that the server ended a connection with an error of severity FATAL. postgres.js does not
 * report such an error when the connection closes right after it. The watcher reads along with the
 * data of the socket: message headers, and errors as a whole. It changes nothing.
 */
import type { Socket } from 'node:net'
import { HEADER_BYTES, messageSize } from './wire-protocol.ts'

export interface FatalErrorWatcher {
  /**
   * Whether the server reported FATAL: the statement that ran at that moment, and those after it,
   * had no effect.
   */
  fatal: boolean
}

const ERROR_RESPONSE = 'E'.charCodeAt(0)

/** No FATAL error is longer; an error with a greater length is skipped. */
const MAX_ERROR_BYTES = 65_536

/** Watches a socket that is connected (and encrypted, where configured) and was not read yet. */
export function watchFatalErrors (socket: Socket): FatalErrorWatcher {
  const watcher: FatalErrorWatcher = { fatal: false }
  /** The start of a message that is not complete. */
  let rest: Buffer = Buffer.alloc(0)
  /** Bytes of a skipped message that are still to come. */
  let skip = 0
  socket.on('data', (chunk: Buffer) => {
    if (skip >= chunk.length) {
      skip -= chunk.length
      return
    }
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let offset = skip
    while (bytes.length - offset >= HEADER_BYTES) {
      const size = messageSize(bytes, offset)
      if (bytes[offset] === ERROR_RESPONSE && size <= MAX_ERROR_BYTES) {
        if (bytes.length - offset < size) break
        watcher.fatal ||= isFatal(bytes.subarray(offset + HEADER_BYTES, offset + size))
      }
      offset += size
    }
    skip = Math.max(0, offset - bytes.length)
    rest = bytes.subarray(Math.min(offset, bytes.length))
  })
  return watcher
}

/**
 * Whether an ErrorResponse is a FATAL error of class 57P (operator intervention) or 25P (timeouts
 * of idle sessions and transactions). A pooler reports FATAL for other reasons. Each field is a
 * type, a text and a zero byte.
 */
function isFatal (fields: Buffer): boolean {
  const texts = fields.toString('latin1').split('\0')
  return texts.includes('VFATAL') && texts.some(text => /^C(?:57|25)P/.test(text))
}
