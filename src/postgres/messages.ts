/**
 * Writes the messages of a batch in PostgreSQL's wire protocol, any number of them in one buffer,
 * so that they are sent in one write, and divides what the server sends into messages. Parameters
 * are in their text form, results in their binary form: that of json and text is the text itself,
 * and times are numbers.
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import type { ParameterText } from '../fragment/fragment.ts'
import { HEADER_BYTES, messageSize, typeOf } from './wire-protocol.ts'

/** Where messages are written first. It grows with the largest batch, up to MAX_KEPT_BYTES. */
let scratch = Buffer.allocUnsafeSlow(64 * 1024)
const MAX_KEPT_BYTES = 1024 * 1024

/** The longest UTF-8 form of a UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3

/** Types of the messages that the service sends while a batch runs. */
const Send = {
  parse: typeOf('P'),
  bind: typeOf('B'),
  execute: typeOf('E'),
  close: typeOf('C'),
  flush: typeOf('H'),
  sync: typeOf('S'),
  query: typeOf('Q'),
  call: typeOf('F')
} as const
/** In a message of type `close`: what it closes. */
const STATEMENT = 'S'
/** The binary form of values. */
const BINARY = 1

/** Collects messages. `finish` must be called before another writer is created. */
export class MessageWriter {
  #bytes = scratch
  #end = 0
  #start = 0

  /** Prepares a statement. PostgreSQL infers the types of its parameters. */
  parse (name: string, text: string): this {
    return this.#open(Send.parse).#text(name).#text(text).#int16(0).#close()
  }

  /** Gives a prepared statement its parameters. */
  bind (name: string, parameters: readonly ParameterText[]): this {
    this.#open(Send.bind).#text('').#text(name).#int16(0).#int16(parameters.length)
    for (const parameter of parameters) this.#value(parameter)
    // One form for all columns of the result.
    return this.#int16(1).#int16(BINARY).#close()
  }

  /** Runs the statement that was bound last. */
  execute (): this {
    return this.#open(Send.execute).#text('').#int32(0).#close()
  }

  /** Closes a prepared statement. Does nothing if there is none with this name. */
  close (name: string): this {
    return this.#open(Send.close).#text(`${STATEMENT}${name}`).#close()
  }

  /** Makes the server send the answers so far. */
  flush (): this {
    return this.#open(Send.flush).#close()
  }

  /** Ends a group of messages; after an error the server skips everything up to here. */
  sync (): this {
    return this.#open(Send.sync).#close()
  }

  /** Runs a text without parameters by the simple protocol. */
  query (text: string): this {
    return this.#open(Send.query).#text(text).#close()
  }

  /** Calls a function without arguments, by its OID. */
  call (oid: number): this {
    return this.#open(Send.call).#int32(oid).#int16(0).#int16(0).#int16(BINARY).#close()
  }

  finish (): Buffer {
    const written = this.#bytes.subarray(0, this.#end)
    // What is not kept need not be copied either.
    if (this.#bytes.length > MAX_KEPT_BYTES) return written
    scratch = this.#bytes
    return Buffer.from(written)
  }

  #open (type: number): this {
    this.#reserve(5)
    this.#bytes[this.#end] = type
    this.#start = this.#end + 1
    this.#end += 5
    return this
  }

  #close (): this {
    this.#bytes.writeUInt32BE(this.#end - this.#start, this.#start)
    return this
  }

  #int16 (value: number): this {
    this.#reserve(2)
    this.#end = this.#bytes.writeUInt16BE(value, this.#end)
    return this
  }

  #int32 (value: number): this {
    this.#reserve(4)
    this.#end = this.#bytes.writeInt32BE(value, this.#end)
    return this
  }

  /** A text that ends with a zero byte. */
  #text (text: string): this {
    this.#reserve(text.length * MAX_BYTES_PER_UNIT + 1)
    this.#end += this.#bytes.write(text, this.#end)
    this.#bytes[this.#end++] = 0
    return this
  }

  /** A parameter: its length and its text; NULL has the length -1. */
  #value (text: ParameterText): void {
    if (text === null) this.#int32(-1)
    else if (typeof text === 'string') this.#string(text)
    else this.#bytesOf(text)
  }

  #bytesOf (pieces: readonly Buffer[]): void {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    this.#reserve(length + 4)
    this.#int32(length)
    for (const piece of pieces) this.#end += piece.copy(this.#bytes, this.#end)
  }

  #string (text: string): void {
    this.#reserve(text.length * MAX_BYTES_PER_UNIT + 4)
    const length = this.#bytes.write(text, this.#end + 4)
    this.#bytes.writeInt32BE(length, this.#end)
    this.#end += 4 + length
  }

  #reserve (size: number): void {
    if (this.#end + size <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#end + size))
    this.#bytes.copy(larger, 0, 0, this.#end)
    this.#bytes = larger
  }
}

const READ_BYTES = 65_536

/**
 * Connects a socket that emits what it receives as `data`, copied from one read buffer. Node would
 * allocate 64 KiB for every read: a result of 1 MB left 2 MB of garbage outside of V8's heap.
 */
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
  const header = Buffer.alloc(HEADER_BYTES)
  /** A message that has arrived in part, with room for all of it, once its size is known. */
  let partial: Buffer | undefined
  let filled = 0
  const measure = (bytes: Buffer, offset: number): number => {
    const size = messageSize(bytes, offset)
    announce(bytes[offset] as number, size)
    return size
  }
  return chunk => {
    for (let offset = 0; offset < chunk.length;) {
      if (filled === 0 && chunk.length - offset >= HEADER_BYTES) {
        const size = measure(chunk, offset)
        if (chunk.length - offset >= size) {
          deliver(chunk.subarray(offset, offset += size))
          continue
        }
        partial = Buffer.allocUnsafeSlow(size)
      }
      const copied = chunk.copy(partial ?? header, filled, offset)
      filled += copied
      offset += copied
      if (partial === undefined && filled === HEADER_BYTES) {
        partial = Buffer.allocUnsafeSlow(measure(header, 0))
        header.copy(partial)
      }
      if (filled !== partial?.length) continue
      const message = partial
      partial = undefined
      filled = 0
      deliver(message)
    }
  }
}
