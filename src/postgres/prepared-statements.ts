/**
 * Which statements are worth preparing: those whose text recurs. postgres.js never forgets a
 * prepared statement (5000 of them are 89 MiB in a backend), so their number is bounded on each
 * connection, and a connection that is full is replaced.
 */
import type { Statement } from '../sql/compile.ts'
import type { Connection } from './connection.ts'
import { rememberTexts } from './recent-texts.ts'

const MAX_PER_LANE = 250
const MAX_REMEMBERED = 2000
/**
 * Longer texts (a filter of hundreds of conditions) hardly recur, and 2000 of them would be
 * hundreds of megabytes here.
 */
const MAX_LENGTH = 8192

const seen = rememberTexts(MAX_REMEMBERED)

/**
 * For each statement of a flight, whether to send it as a prepared one; the second time a text is
 * seen, it recurs.
 */
export function choosePrepared (
  connection: Connection,
  statements: readonly Statement[]
): readonly boolean[] {
  // postgres.js knows that it prepared a text when it was answered: before, every use of it would
  // be prepared once more. What turns out not to be held after all is taken out of
  // `connection.prepared` by flight.ts.
  const fresh = new Set<string>()
  const chosen = statements.map(({ text, prepare }) => {
    if (!connection.prepares || !prepare || text.length > MAX_LENGTH) return false
    const recurs = seen.note(text)
    if (connection.prepared.has(text)) return !fresh.has(text)
    if (!recurs || connection.prepared.size >= MAX_PER_LANE) return false
    fresh.add(text)
    connection.prepared.add(text)
    return true
  })
  if (connection.prepared.size >= MAX_PER_LANE) connection.state.retired = true
  return chosen
}
