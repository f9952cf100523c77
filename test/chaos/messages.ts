/**
 * Messages of PostgreSQL's protocol 3.0: those of a server as bytes, and where in a stream of bytes
 * messages end.
 *
 * In charge of: framing, and the few messages that tests send (protocol docs, "Message Formats").
 * Refuses to: know when which of them is due.
 */

/**
 * Where a message lies in the bytes that were fed last. `start` is negative where it began in
 * earlier ones.
 */
export interface Frame {
  /** One character; empty for the start-up message, which has none. */
  readonly type: string
  readonly start: number
  readonly end: number
  /** What follows the length; of long messages only the beginning. */
  readonly body: Buffer
}

/** Finds the ends of messages in a stream that comes in pieces of any size. */
export interface Framer {
  feed(bytes: Buffer): readonly Frame[]
}

/** Of a body, as much is kept; nothing that tests look at is behind it. */
const KEPT_BYTES = 64 * 1024

/** `untyped`: how many messages without a type come first; a client has one, for start-up. */
export function createFramer (untyped = 0): Framer {
  let bare = untyped
  /** Of the message that is not whole yet: what is kept, and how many bytes came. */
  let kept: Buffer = Buffer.alloc(0)
  let came = 0
  return {
    feed (bytes) {
      const frames: Frame[] = []
      let at = 0
      while (at < bytes.length) {
        const header = bare > 0 ? 4 : 5
        // The length alone decides how far the message goes, and it may be in pieces as well.
        const size = came + bytes.length - at < header
          ? Infinity
          : sizeOf(Buffer.concat([kept, bytes.subarray(at, at + header)]), header)
        const take = Math.min(bytes.length - at, size - came)
        if (kept.length < KEPT_BYTES) {
          kept = Buffer.concat([kept, bytes.subarray(at, at + Math.min(take, KEPT_BYTES))])
        }
        came += take
        at += take
        if (came < size) break
        frames.push({
          type: kept.toString('latin1', 0, header - 4),
          start: at - came,
          end: at,
          body: kept.subarray(header)
        })
        bare = Math.max(0, bare - 1)
        kept = Buffer.alloc(0)
        came = 0
      }
      return frames
    }
  }
}

function sizeOf (head: Buffer, header: number): number {
  return header - 4 + Math.max(4, head.readUInt32BE(header - 4))
}

/** A message of any type. `length` is what it says of itself, where that is to be a lie. */
export function message (type: string, body: Buffer | string = '', length?: number): Buffer {
  const bytes = Buffer.from(body)
  const head = Buffer.from(`${type}    `, 'latin1')
  head.writeUInt32BE(length ?? bytes.length + 4, 1)
  return Buffer.concat([head, bytes])
}

export const authenticationOk = message('R', int32(0))
export const parseComplete = message('1')
export const bindComplete = message('2')
export const noData = message('n')

/** ReadyForQuery: idle, in a transaction, in one that failed. */
export function ready (state: 'I' | 'T' | 'E'): Buffer {
  return message('Z', state)
}

export function complete (tag: string): Buffer {
  return message('C', `${tag}\0`)
}

export function parameterStatus (name: string, value: string): Buffer {
  return message('S', `${name}\0${value}\0`)
}

export function backendKeyData (pid: number): Buffer {
  return message('K', Buffer.concat([int32(pid), int32(4711)]))
}

/** ErrorResponse, or with `type` 'N' a NoticeResponse. */
export function errorResponse (
  code: string,
  { severity = 'ERROR', text = 'as the script says', type = 'E', routine = 'script' } = {}
): Buffer {
  return message(type, `S${severity}\0V${severity}\0C${code}\0M${text}\0R${routine}\0\0`)
}

export const notice: Buffer = errorResponse('00000', { severity: 'NOTICE', type: 'N' })

export function notification (channel: string, payload: string): Buffer {
  return message('A', Buffer.concat([int32(1), Buffer.from(`${channel}\0${payload}\0`)]))
}

/** Columns of type text. */
export function rowDescription (names: readonly string[]): Buffer {
  const fields = names.map(name =>
    Buffer.concat([
      Buffer.from(`${name}\0`),
      int32(0),
      int16(0),
      int32(25),
      int16(-1),
      int32(-1),
      int16(0)
    ])
  )
  return message('T', Buffer.concat([int16(names.length), ...fields]))
}

export function dataRow (cells: ReadonlyArray<Buffer | string | null>): Buffer {
  const fields = cells.flatMap(cell =>
    cell === null ? [int32(-1)] : [int32(Buffer.byteLength(cell)), Buffer.from(cell)]
  )
  return message('D', Buffer.concat([int16(cells.length), ...fields]))
}

/** ParameterDescription: all of them text. */
export function parameterDescription (count: number): Buffer {
  return message(
    't',
    Buffer.concat([int16(count), ...Array.from({ length: count }, () => int32(25))])
  )
}

function int16 (value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32 (value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
