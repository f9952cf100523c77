/**
 * The format of PostgreSQL's protocol messages: a type byte, the length of the rest, the body.
 * Source: https://www.postgresql.org/docs/18/protocol-message-formats.html
 */
import type { DatabaseError } from '../errors/database-error.ts'

/** The type and the length, which counts itself but not the type. */
export const HEADER_BYTES = 5

/** The largest message that PostgreSQL sends. */
const MAX_MESSAGE_BYTES = 1024 * 1024 * 1024

/**
 * Returns the size in bytes of the whole message whose header starts at `offset`. Throws an Error
 * when PostgreSQL cannot have sent it.
 */
export function messageSize (bytes: Buffer, offset: number): number {
  const size = 1 + bytes.readUInt32BE(offset + 1)
  if (size < HEADER_BYTES || size > MAX_MESSAGE_BYTES) {
    throw new Error('the server does not speak the protocol of PostgreSQL')
  }
  return size
}

/** The type byte of a message. */
export const typeOf = (letter: string): number => letter.charCodeAt(0)

/** Types of the messages that the server sends while a batch runs. */
export const Reply = {
  parseComplete: typeOf('1'),
  bindComplete: typeOf('2'),
  closeComplete: typeOf('3'),
  rowDescription: typeOf('T'),
  dataRow: typeOf('D'),
  commandComplete: typeOf('C'),
  functionResult: typeOf('V'),
  error: typeOf('E'),
  notice: typeOf('N'),
  notification: typeOf('A'),
  parameterStatus: typeOf('S'),
  ready: typeOf('Z')
} as const

/** A server message that is complete: its type and its body. */
export interface Message {
  readonly type: number
  readonly body: Buffer
}

/** Divides a complete message. */
export function readMessage (bytes: Buffer): Message {
  return { type: bytes[0] as number, body: bytes.subarray(HEADER_BYTES) }
}

/**
 * The fields of ErrorResponse that the service reads, by their type byte, with the names that
 * postgres.js gives them.
 */
const ERROR_FIELDS: Readonly<Record<string, string>> = {
  S: 'severity_local',
  V: 'severity',
  C: 'code',
  M: 'message',
  D: 'detail',
  H: 'hint',
  P: 'position',
  p: 'internal_position',
  W: 'where',
  n: 'constraint_name',
  R: 'routine'
}

/** Reads the body of an ErrorResponse: each field is a type, a text and a zero byte. */
export function readError (body: Buffer): DatabaseError {
  const fields: Record<string, string> = { severity: '', code: '', message: '' }
  for (const field of body.toString().split('\0')) {
    const name = ERROR_FIELDS[field.charAt(0)]
    if (name !== undefined) fields[name] = field.slice(1)
  }
  return fields as unknown as DatabaseError
}

/** Returns the first columns of a DataRow as the bytes received, `count` at most. */
export function readRow (body: Buffer, count: number): ReadonlyArray<Buffer | null> {
  const columns: Array<Buffer | null> = []
  const size = Math.min(count, body.readUInt16BE(0))
  for (let offset = 2; columns.length < size;) {
    const length = body.readInt32BE(offset)
    const end = offset + 4 + Math.max(0, length)
    columns.push(length < 0 ? null : body.subarray(offset + 4, end))
    offset = end
  }
  return columns
}

/** When a statement began and when its rows were ready, in milliseconds of the server's clock. */
export interface StatementTimes {
  readonly began: number
  readonly ended: number
}

/**
 * Returns columns 1 and 2 of a row, of type timestamptz in binary form; undefined: they are
 * something else.
 */
export function readStatementTimes (
  [, began, ended]: ReadonlyArray<Buffer | null>
): StatementTimes | undefined {
  if (began?.length !== TIME_BYTES || ended?.length !== TIME_BYTES) return undefined
  return { began: readTime(began), ended: readTime(ended) }
}

const TIME_BYTES = 8

/** PostgreSQL counts microseconds. */
function readTime (time: Buffer): number {
  return (time.readInt32BE(0) * 2 ** 32 + time.readUInt32BE(4)) / 1000
}

/** Returns the command tag of a CommandComplete: `COMMIT`, `INSERT 0 1`. */
export function readTag (body: Buffer): string {
  return body.toString('latin1', 0, body.length - 1)
}
