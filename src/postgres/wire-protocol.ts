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
  s: 'schema_name',
  t: 'table_name',
  c: 'column_name',
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

/** Returns the first column of a DataRow, or null if it is NULL or there is no column. */
export function readCell (body: Buffer): Buffer | null {
  const length = body.readUInt16BE(0) === 0 ? -1 : body.readInt32BE(2)
  return length < 0 ? null : body.subarray(6, 6 + length)
}

/** When a statement began and when its rows were ready, in milliseconds of the server's clock. */
export interface StatementTimes {
  readonly began: number
  readonly ended: number
}

/**
 * Returns columns 1 and 2 of a DataRow, of type timestamptz in binary form; undefined: they are
 * something else.
 */
export function readStatementTimes (body: Buffer): StatementTimes | undefined {
  if (body.readUInt16BE(0) < 3) return undefined
  const first = 6 + Math.max(0, body.readInt32BE(2))
  const second = first + 4 + TIME_BYTES
  const isTime = (offset: number): boolean =>
    body.length >= offset + 4 + TIME_BYTES && body.readInt32BE(offset) === TIME_BYTES
  if (!isTime(first) || !isTime(second)) return undefined
  return { began: readTime(body, first + 4), ended: readTime(body, second + 4) }
}

const TIME_BYTES = 8

/** PostgreSQL counts microseconds. */
function readTime (body: Buffer, offset: number): number {
  return (body.readInt32BE(offset) * 2 ** 32 + body.readUInt32BE(offset + 4)) / 1000
}

/** Returns the first columns of a DataRow as text, `count` at most. */
export function readRow (body: Buffer, count: number): ReadonlyArray<string | null> {
  let offset = 2
  return Array.from({ length: Math.min(count, body.readUInt16BE(0)) }, () => {
    const length = body.readInt32BE(offset)
    offset += 4
    if (length < 0) return null
    offset += length
    return body.toString('utf8', offset - length, offset)
  })
}

/** Returns the command tag of a CommandComplete: `COMMIT`, `INSERT 0 1`. */
export function readTag (body: Buffer): string {
  return body.toString('latin1', 0, body.length - 1)
}
