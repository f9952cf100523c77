/**
 * Chooses which statements to prepare: those whose text recurs. postgres.js keeps every prepared
 * statement (5000 of them take 89 MiB in a backend). Their number is therefore bounded per
 * connection, and a connection that reaches the bound is replaced.
 */
import { LRUCache } from 'lru-cache'
import type { Statement } from '../sql/compile.ts'
import type { Connection } from './connection.ts'

const MAX_PREPARED = 250
const MAX_RECENT_TEXTS = 2000

/**
 * Longer texts, such as a filter of hundreds of conditions, hardly recur. Remembering 2000 of them
 * would take hundreds of megabytes.
 */
const MAX_TEXT_LENGTH = 8192

const recentTexts = new LRUCache<string, true>({ max: MAX_RECENT_TEXTS })

/**
 * Returns for each statement whether to send it as a prepared one. A text is prepared when it is
 * seen for the second time.
 */
export function choosePrepared (
  connection: Connection,
  statements: readonly Statement[]
): readonly boolean[] {
  // postgres.js records a statement as prepared when the server answers. Until then every use of
  // the text would prepare it again. The attempt removes a text from `connection.prepared` when the
  // server turns out not to hold it.
  const requested = new Set<string>()
  const chosen = statements.map(({ text, prepare }) => {
    if (!connection.prepares || !prepare || text.length > MAX_TEXT_LENGTH) return false
    const recurs = recentTexts.has(text)
    recentTexts.set(text, true)
    if (connection.prepared.has(text)) return !requested.has(text)
    if (!recurs || connection.prepared.size >= MAX_PREPARED) return false
    requested.add(text)
    connection.prepared.add(text)
    return true
  })
  if (connection.prepared.size >= MAX_PREPARED) connection.state.retired = true
  return chosen
}
