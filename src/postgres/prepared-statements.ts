/**
 * Which statements are worth preparing: those whose text recurs. postgres.js never forgets a
 * prepared statement (5000 of them are 89 MiB in a backend), so their number is bounded on each
 * lane, and a lane that is full is replaced.
 */
import type { Statement } from '../sql/compile.ts'
import type { Lane } from './connection.ts'
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
export function choosePrepared (lane: Lane, statements: readonly Statement[]): readonly boolean[] {
  // postgres.js knows that it prepared a text when it was answered: before, every use of it would
  // be prepared once more. What turns out not to be held after all is taken out of `lane.prepared`
  // by flight.ts.
  const fresh = new Set<string>()
  const chosen = statements.map(({ text, prepare }) => {
    if (!lane.prepares || !prepare || text.length > MAX_LENGTH) return false
    const recurs = seen.note(text)
    if (lane.prepared.has(text)) return !fresh.has(text)
    if (!recurs || lane.prepared.size >= MAX_PER_LANE) return false
    fresh.add(text)
    lane.prepared.add(text)
    return true
  })
  if (lane.prepared.size >= MAX_PER_LANE) lane.state.retired = true
  return chosen
}
