/**
 * How a message of PostgreSQL begins (protocol docs, "Message Formats"). Knows no kind of message.
 */

/** Its type and its length, which counts itself but not the type. */
export const HEADER_BYTES = 5

/** Bytes of the whole message whose header lies at `at`. */
export function messageSize (bytes: Buffer, at: number): number {
  return 1 + Math.max(HEADER_BYTES - 1, bytes.readUInt32BE(at + 1))
}
