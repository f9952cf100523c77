/**
 * Sends statements to PostgreSQL in one write and reads their answers. Statements of one group end
 * with one Sync: after an error the server skips the rest of the group.
 */
import type { DatabaseError } from '../errors/database-error.ts'
import type { ParameterText } from '../fragment/fragment.ts'
import type { DriverSocket, Receiver } from './driver-socket.ts'
import type { FunctionCall } from './facts.ts'
import { MessageWriter } from './messages.ts'
import { readError, readTag, Reply, type Message } from './wire-protocol.ts'

/** One statement, by the extended protocol. */
export interface Request {
  readonly text: string
  readonly parameters: readonly ParameterText[]
  /** The name of the prepared statement; '' for one that is used once. */
  readonly name: string
  /** Prepare it first. */
  readonly parse: boolean
  /** The names of prepared statements to close before. */
  readonly closes?: readonly string[] | undefined
  /**
   * Let the server send the answers so far at once, instead of at the end of the group. It costs
   * the server about 15 us, and the service a read.
   */
  readonly flush?: boolean
}

/**
 * Statements that end with one Sync, or a text by the simple protocol, which is one request
 * whatever the number of its statements, or the call of a function, which is one, too.
 */
export type Group = readonly Request[] | string | FunctionCall

/** Receives the answers. A request is given by its number in all groups, from 0. */
export interface AnswerHandler {
  /** Maximum bytes of one message, and of all rows together unless they are `passedOn`. */
  readonly maxBytes: number
  /** Whether the rows are passed on one by one, and not kept. */
  readonly passedOn: boolean
  /** The server sends more than `maxBytes`. */
  exceeded(): void
  /** The server has prepared the statement of a request. */
  parsed(request: number): void
  /** The server has closed a prepared statement, in the order of `closes`. */
  closed(): void
  /** The body of a DataRow. */
  row(request: number, body: Buffer): void
  /** The request succeeded, with this command tag. */
  completed(request: number, tag: string): void
  /** For a later statement of a text it is the number after that of the text. */
  failed(request: number, error: DatabaseError): void
  /** COMMIT ran, and the server waits no longer for a synchronous standby to have it. */
  unreplicated(): void
  /** All groups are answered. */
  finished(): void
  /** The server violated the protocol; nothing is called after this. */
  violated(): void
}

/** Groups as bytes, ready to be sent. */
export interface Pipeline {
  /** Sends the groups. The handler is called when answers arrive, never during this call. */
  send(socket: DriverSocket, handler: AnswerHandler): void
}

/**
 * `joined`: there is no Sync between the first group and the text after it, nor later. The server
 * sends the answers to both at once then, which saves it a write, and the service a read. After an
 * error in the group it skips the rest until a Sync, with which the rest is sent again. A pooler
 * may not understand it.
 */
export function encodePipeline (groups: readonly Group[], joined = false): Pipeline {
  const bytes = encodeGroups(groups, joined).finish()
  return {
    send (socket, handler) {
      socket.send(bytes, new AnswerReader(groups, joined, socket, handler))
    }
  }
}

function encodeGroups (
  groups: readonly Group[],
  joined: boolean,
  writer = new MessageWriter()
): MessageWriter {
  for (const [i, group] of groups.entries()) {
    if (typeof group === 'string') writer.query(group)
    else if ('oid' in group) writer.call(group.oid)
    else {
      for (const { name, text, parameters, parse, closes, flush = false } of group) {
        closes?.forEach(old => writer.close(old))
        if (parse) writer.parse(name, text)
        writer.bind(name, parameters).execute()
        if (flush) writer.flush()
      }
      if (i > 0 || !joined) writer.sync()
    }
  }
  return writer
}

/** What warns that a wait for a synchronous standby was cancelled. */
const SYNCHRONOUS_WAIT = 'SyncRepWaitForLSN'

class AnswerReader implements Receiver {
  readonly #groups: readonly Group[]
  readonly #socket: DriverSocket
  readonly #handler: AnswerHandler
  #group = 0
  /** Whether no ReadyForQuery ends the current group. */
  #joined: boolean
  /** The error of the current text. It counts if nothing but ReadyForQuery follows. */
  #textError: DatabaseError | undefined
  /** The number of the request that is answered next, in all groups. */
  #request = 0
  /** The number of the first request of the next group. */
  #nextGroup: number
  /** Bytes of the rows so far. */
  #rowBytes = 0

  constructor (
    groups: readonly Group[],
    joined: boolean,
    socket: DriverSocket,
    handler: AnswerHandler
  ) {
    this.#groups = groups
    this.#joined = joined
    this.#socket = socket
    this.#handler = handler
    this.#nextGroup = sizeOf(groups[0])
  }

  announce (type: number, size: number): void {
    if (type === Reply.dataRow && !this.#handler.passedOn) this.#rowBytes += size
    if (Math.max(size, this.#rowBytes) > this.#handler.maxBytes) this.#handler.exceeded()
  }

  read ({ type, body }: Message): void {
    switch (type) {
      case Reply.dataRow:
        return this.#isText()
          ? undefined
          : this.#expectRequest(() => this.#handler.row(this.#request, body))
      case Reply.parseComplete:
        return this.#expectRequest(() => this.#handler.parsed(this.#request))
      case Reply.closeComplete:
        return this.#handler.closed()
      case Reply.commandComplete:
        return this.#complete(readTag(body))
      case Reply.functionResult:
        return this.#complete('')
      case Reply.error:
        return this.#readError(body)
      case Reply.ready:
        return this.#endGroup()
      case Reply.notice:
        if (readError(body).routine === SYNCHRONOUS_WAIT) this.#handler.unreplicated()
        return
      case Reply.bindComplete:
      case Reply.rowDescription: // of a text by the simple protocol
      case Reply.notification:
      case Reply.parameterStatus:
        return
      default:
        this.#handler.violated()
    }
  }

  #expectRequest (answer: () => void): void {
    if (this.#request < this.#nextGroup) answer()
    else this.#handler.violated()
  }

  #complete (tag: string): void {
    if (this.#textError !== undefined) return this.#handler.violated()
    // A later statement of a text by the simple protocol.
    if (this.#request === this.#nextGroup && this.#isText()) return
    this.#expectRequest(() => this.#handler.completed(this.#request++, tag))
    if (this.#joined && this.#request === this.#nextGroup) this.#beginNextGroup()
  }

  #isText (): boolean {
    return typeof this.#groups[this.#group] === 'string'
  }

  #readError (body: Buffer): void {
    const error = readError(body)
    // The server closes the connection after a FATAL error, which belongs to no statement.
    if ((error.severity || error.severity_local) !== 'ERROR') return
    if (this.#isText()) {
      this.#textError ??= error
      return
    }
    this.#expectRequest(() => this.#handler.failed(this.#request, error))
    this.#request = this.#nextGroup
    if (!this.#joined) return
    this.#joined = false
    const rest = encodeGroups(this.#groups.slice(1), false, new MessageWriter().sync())
    this.#socket.send(rest.finish(), this)
  }

  #beginNextGroup (): void {
    this.#joined = false
    this.#group++
    this.#nextGroup += sizeOf(this.#groups[this.#group])
  }

  #endGroup (): void {
    if (this.#textError !== undefined) {
      this.#handler.failed(this.#request, this.#textError)
      this.#textError = undefined
      this.#request = this.#nextGroup
    }
    if (this.#joined || this.#request < this.#nextGroup) return this.#handler.violated()
    this.#beginNextGroup()
    if (this.#group < this.#groups.length) return
    this.#socket.returnToDriver()
    this.#handler.finished()
  }
}

function sizeOf (group: Group | undefined): number {
  if (group === undefined) return 0
  return typeof group === 'string' || 'oid' in group ? 1 : group.length
}
