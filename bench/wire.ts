/**
 * What a client of PostgreSQL said, read from the bytes that a proxy kept.
 *
 * In charge of: the statements in each burst (protocol docs, "Message Formats"), prepared ones by
 * their name, and what of a transaction waited under a lock. Refuses to: know who was speaking.
 */

/** Statements that the client had run in one burst, in order; empty when it only prepared one. */
export type Burst = readonly string[]

export interface Flights {
  /**
   * Round trips from BEGIN to the end of the transaction, and of what follows it before the
   * connection is free again.
   */
  readonly roundTrips: number
  /**
   * Round trips of the client between its first statement that locks rows and the COMMIT: each is
   * time in which others wait.
   */
  readonly underLock: number
}

/** Reads the bursts of one connection, from its start on. */
export function readBursts (bursts: readonly Buffer[]): readonly Burst[] {
  const prepared = new Map<string, string>()
  return bursts.map(bytes =>
    frames(bytes).flatMap(({ type, body }) => {
      const [first = '', second = ''] = body.toString('latin1').split('\0')
      if (type === 'P') prepared.set(first, second)
      if (type === 'Q') return [first]
      // The portal comes first, then the statement.
      return type === 'B' ? [prepared.get(second) ?? ''] : []
    })
  )
}

/**
 * Counts one batch: `bursts` are all of it and nothing else. `locks` tells a statement that locks
 * rows.
 */
export function countFlights (bursts: readonly Burst[], locks: RegExp): Flights {
  const locking = bursts.findIndex(statements => statements.some(text => locks.test(text)))
  const committing = bursts.findIndex(statements =>
    statements.some(text => /^\s*commit/i.test(text))
  )
  // Without a COMMIT of its own, what locks is a transaction in itself.
  return {
    roundTrips: bursts.length,
    underLock: locking < 0 || committing < 0 ? 0 : committing - locking
  }
}

function frames (bytes: Buffer): ReadonlyArray<{ readonly type: string, readonly body: Buffer }> {
  const found: Array<{ readonly type: string, readonly body: Buffer }> = []
  // The first message of a connection has no type: its first byte is that of its length.
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
