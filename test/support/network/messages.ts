/**
 * Messages of PostgreSQL's protocol 3.0: encodes server messages, and finds the message boundaries
 * in a byte stream (protocol docs, "Message Formats").
 */

/**
 * The position of a message in the bytes that were passed last. `start` is negative if the message
 * began in earlier bytes.
 */
export interface Frame {
  /** One character; empty for the startup message, which has no type. */
  readonly type: string
  readonly start: number
  readonly end: number
  /** The bytes after the length, at most KEPT_BYTES. */
  readonly body: Buffer
}

/** Splits a stream into messages. The chunks may have any size. */
export interface Framer {
  feed(bytes: Buffer): readonly Frame[]
}

/** How much of a message is kept. No test needs more. */
const KEPT_BYTES = 64 * 1024

/**
 * Creates a framer. `untyped` is the number of initial messages without a type: a client sends one,
 * the startup message.
 */
export function createFramer (untyped = 0): Framer {
  let untypedLeft = untyped
  /** The kept bytes of the incomplete message, and the number of its bytes so far. */
  let kept: Buffer = Buffer.alloc(0)
  let received = 0
  return {
    feed (bytes) {
      const frames: Frame[] = []
      let at = 0
      while (at < bytes.length) {
        const header = untypedLeft > 0 ? 4 : 5
        // The length determines the end of the message; it may itself be split.
        const size = received + bytes.length - at < header
          ? Infinity
          : sizeOf(Buffer.concat([kept, bytes.subarray(at, at + header)]), header)
        const take = Math.min(bytes.length - at, size - received)
        if (kept.length < KEPT_BYTES) {
          kept = Buffer.concat([kept, bytes.subarray(at, at + Math.min(take, KEPT_BYTES))])
        }
        received += take
        at += take
        if (received < size) break
        frames.push({
          type: kept.toString('latin1', 0, header - 4),
          start: at - received,
          end: at,
          body: kept.subarray(header)
        })
        untypedLeft = Math.max(0, untypedLeft - 1)
        kept = Buffer.alloc(0)
        received = 0
      }
      return frames
    }
  }
}

function sizeOf (head: Buffer, header: number): number {
  return header - 4 + Math.max(4, head.readUInt32BE(header - 4))
}

/** Encodes a message of any type. `length` overrides the length field. */
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
export const functionResult = message('V', int32(0))

/** ReadyForQuery with status idle (I), in a transaction (T) or in a failed transaction (E). */
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

/** ErrorResponse, or NoticeResponse with `type` 'N'. */
export function errorResponse (
  code: string,
  { severity = 'ERROR', text = 'scripted error', type = 'E', routine = 'script' } = {}
): Buffer {
  return message(type, `S${severity}\0V${severity}\0C${code}\0M${text}\0R${routine}\0\0`)
}

export const notice: Buffer = errorResponse('00000', { severity: 'NOTICE', type: 'N' })

export function notification (channel: string, payload: string): Buffer {
  return message('A', Buffer.concat([int32(1), Buffer.from(`${channel}\0${payload}\0`)]))
}

/** RowDescription with columns of type text. */
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

/** ParameterDescription with `count` parameters of type text. */
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
