/** The header of a PostgreSQL protocol message: a type byte, then the length of the rest. */

/** The type and the length, which counts itself but not the type. */
export const HEADER_BYTES = 5

/** Returns the size in bytes of the whole message whose header starts at `offset`. */
export function messageSize (bytes: Buffer, offset: number): number {
  return 1 + Math.max(HEADER_BYTES - 1, bytes.readUInt32BE(offset + 1))
}
