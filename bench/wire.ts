/**
 * Reads the statements of a PostgreSQL client from the bytes that the proxy recorded (protocol
 * docs, "Message Formats"), prepared statements by their name. Counts round trips, and those under
 * a lock.
 */

/** The statements that a client ran in one burst, in order. Empty if it only prepared some. */
export type Burst = readonly string[]

export interface RoundTrips {
  /** Round trips from BEGIN until the connection is free again. */
  readonly roundTrips: number
  /** Round trips from the first statement that locks rows to the COMMIT. Others may wait then. */
  readonly underLock: number
}

/** Reads all bursts of a connection. */
export function readBursts (bursts: readonly Buffer[]): readonly Burst[] {
  const prepared = new Map<string, string>()
  return bursts.map(bytes =>
    frames(bytes).flatMap(({ type, body }) => {
      const [first = '', second = ''] = body.toString('latin1').split('\0')
      if (type === 'P') prepared.set(first, second)
      if (type === 'Q') return [first]
      // The portal is first, then the statement.
      return type === 'B' ? [prepared.get(second) ?? ''] : []
    })
  )
}

/** Counts the round trips of one batch. `locks` matches a statement that locks rows. */
export function countRoundTrips (bursts: readonly Burst[], locks: RegExp): RoundTrips {
  const locking = bursts.findIndex(statements => statements.some(text => locks.test(text)))
  const committing = bursts.findIndex(statements =>
    statements.some(text => /^\s*commit/i.test(text))
  )
  // Without a COMMIT, each statement is its own transaction.
  return {
    roundTrips: bursts.length,
    underLock: locking < 0 || committing < 0 ? 0 : committing - locking
  }
}

function frames (bytes: Buffer): ReadonlyArray<{ readonly type: string, readonly body: Buffer }> {
  const found: Array<{ readonly type: string, readonly body: Buffer }> = []
  // The first message of a connection has no type; it starts with its length.
  let at = bytes[0] === 0 ? bytes.readInt32BE(0) : 0
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readInt32BE(at + 1)
    found.push({
      type: String.fromCharCode(bytes[at] as number),
      body: bytes.subarray(at + 5, end)
    })
    at = end
  }
  return found
}
