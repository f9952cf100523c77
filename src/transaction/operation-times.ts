/**
 * When the session was set and when the operations ended. The answers of all operations arrive
 * together, so the time from one to the next is taken from the clock of the server.
 */
import type { StatementTimes } from '../postgres/wire-protocol.ts'
import type { AttemptTimes } from './outcome.ts'

export interface ArrivedTimes extends AttemptTimes {
  /** The times of each operation that was answered; undefined: it returned none. */
  readonly server: ReadonlyArray<StatementTimes | undefined>
}

/**
 * Computes the times from when the answers arrived. An operation ends when the next one begins, so
 * its triggers count. The last one ends when its answer arrives, unless the next one failed.
 */
export function settleTimes (arrived: ArrivedTimes, count: number): AttemptTimes {
  const { begun, sessionSet, operations, server } = arrived
  const [first, arrival] = [server[0], operations.at(-1)]
  if (
    begun === undefined || sessionSet === undefined || arrival === undefined || first === undefined
  ) return arrived
  const span = (server.at(-1) ?? first).ended - first.began
  // The answer of the session arrives with all others, unless it was sent at once.
  const started = Math.min(sessionSet, arrival - span)
  // The clock of the server may be set meanwhile.
  let end = Math.max(begun, started)
  const settled = { begun, sessionSet: end }
  const ends = operations.map((_, i) => {
    const next = server[i + 1]?.began ?? (i === count - 1 ? undefined : server[i]?.ended)
    const ended = next === undefined ? arrival : started + (next - first.began)
    end = Math.min(arrival, Math.max(end, ended))
    return end
  })
  return { ...settled, operations: ends }
}
