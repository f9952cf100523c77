/**
 * The socket that postgres.js gets. It passes everything through, except for a batch: then the
 * service writes and reads itself, and answers the BEGIN and the COMMIT of `sql.begin`, which are
 * part of its own write. postgres.js sees a connection that works as usual.
 */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { createMessageReader } from './messages.ts'
import { readError, readMessage, Reply, type Message } from './wire-protocol.ts'

const message = (type: string, body: string): Buffer => {
  const bytes = Buffer.from(`${type}\0\0\0\0${body}`, 'latin1')
  bytes.writeUInt32BE(bytes.length - 1, 1)
  return bytes
}

/** What the server answers to BEGIN by the simple protocol. */
const BEGUN = Buffer.concat([message('C', 'BEGIN\0'), message('Z', 'T')])

/** What the server answers to COMMIT by the extended protocol: no parameters, no columns. */
const COMMITTED = Buffer.concat([
  message('1', ''),
  message('t', '\0\0'),
  message('n', ''),
  message('2', ''),
  message('C', 'COMMIT\0'),
  message('Z', 'I')
])

/** Receives the messages of the server while a batch runs. */
export interface Receiver {
  /** Called when a message of this type and size in bytes begins. */
  announce(type: number, size: number): void
  read(message: Message): void
}

export class DriverSocket extends EventEmitter {
  /**
   * Whether the server has sent a FATAL error, after which it closes the connection. The statement
   * that ran at that moment, and those after it, had no effect. postgres.js does not report such an
   * error if the connection closes right after it.
   */
  fatal = false
  /** When the server last sent something, as a time of performance.now(). */
  heardAt = performance.now()
  readonly #socket: Socket
  /** The settings that the server reports, by name; `#kept`: when they were kept. */
  readonly #settings = new Map<string, string>()
  #kept: ReadonlyMap<string, string> = new Map()
  /** The names of those that are other ones now. */
  readonly #changed = new Set<string>()
  /** Answers to what postgres.js writes next, instead of the server's. */
  readonly #answers: Buffer[] = []
  #receiver: Receiver | undefined

  /** `socket` is connected (and encrypted, where configured) and was not read yet. */
  constructor (socket: Socket) {
    super()
    this.#socket = socket
    const read = createMessageReader(
      message => this.#deliver(message),
      (type, size) => this.#receiver?.announce(type, size)
    )
    socket.on('data', (chunk: Buffer) => {
      this.heardAt = performance.now()
      try {
        read(chunk)
      } catch (error) {
        socket.destroy(error as Error)
      }
    })
    // postgres.js removes its listeners when the connection closes.
    socket.on('error', error => this.listenerCount('error') > 0 && this.emit('error', error))
    socket.on('close', hadError => this.emit('close', hadError))
  }

  get readyState (): Socket['readyState'] {
    return this.#socket.readyState
  }

  /** Called by postgres.js. */
  write (bytes: Buffer): boolean {
    const answer = this.#answers.shift()
    if (answer === undefined) this.#socket.write(bytes)
    // Not at once: postgres.js is still in the function that writes.
    else queueMicrotask(() => this.emit('data', answer))
    return true
  }

  /** Called by postgres.js. */
  end (bytes: Buffer): void {
    this.#socket.end(bytes)
  }

  /** Nothing is delivered after this, not even the rest of what was just read. */
  destroy (): void {
    this.#socket.destroy()
  }

  /** Stops reading, so that the server stops sending when its buffers are full. */
  pause (): void {
    this.#socket.pause()
  }

  resume (): void {
    this.#socket.resume()
  }

  /** Answers the BEGIN that postgres.js writes next. */
  answerBegin (): void {
    this.#answers.push(BEGUN)
  }

  /** Answers the COMMIT that postgres.js writes next. */
  answerCommit (): void {
    this.#answers.push(COMMITTED)
  }

  /** Sends a batch. All messages of the server go to `receiver` until `returnToDriver`. */
  send (bytes: Buffer, receiver: Receiver): void {
    this.#receiver = receiver
    this.#socket.write(bytes)
  }

  returnToDriver (): void {
    this.#receiver = undefined
  }

  /** Whether a setting that the server reports differs from what it was when it was kept. */
  get hasChangedSettings (): boolean {
    return this.#changed.size > 0
  }

  /** Keeps the settings that the server has reported, with which `hasChangedSettings` compares. */
  keepSettings (): void {
    this.#kept = new Map(this.#settings)
    this.#changed.clear()
  }

  #readSetting (body: Buffer): void {
    const [name = '', value = ''] = body.toString().split('\0')
    this.#settings.set(name, value)
    if ((this.#kept.get(name) ?? value) === value) this.#changed.delete(name)
    else this.#changed.add(name)
  }

  #deliver (bytes: Buffer): void {
    if (this.#socket.destroyed) return
    const message = readMessage(bytes)
    if (message.type === Reply.error) this.fatal ||= isFatal(message.body)
    if (message.type === Reply.parameterStatus) this.#readSetting(message.body)
    if (this.#receiver === undefined) this.emit('data', bytes)
    else this.#receiver.read(message)
  }
}

/**
 * Whether an ErrorResponse is a FATAL error of class 57P (operator intervention) or 25P (timeouts
 * of idle sessions and transactions). A pooler reports FATAL for other reasons.
 */
function isFatal (body: Buffer): boolean {
  const { severity, code } = readError(body)
  return severity === 'FATAL' && /^(?:57|25)P/.test(code)
}
