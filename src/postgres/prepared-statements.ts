/**
 * Chooses which statements to prepare: those whose text recurs. Their number is bounded per
 * connection (5000 of them take 89 MiB in a backend), and a connection that reaches the bound is
 * replaced.
 */
import { randomUUID } from 'node:crypto'
import { MAX_KEPT_LENGTH, RecentTexts } from '../fragment/recent-texts.ts'
import type { Request } from './pipeline.ts'

const MAX_PREPARED = 250
/** Maximum memory for recent texts, enough for some thousands of them. */
const MAX_RECENT_BYTES = 4 * 1024 * 1024

/** The statements that are prepared on a connection. */
export interface PreparedStatements {
  /** Their names by text. */
  readonly names: Map<string, string>
  /** The texts that were seen, also on the other connections of a pool. */
  readonly recentTexts: RecentTexts
  /** Returns a new name. */
  readonly createName: () => string
}

/** The part of a Connection that this file reads and changes. */
interface PreparingConnection {
  readonly prepared: PreparedStatements
  readonly prepares: boolean
  readonly state: { retired: boolean }
}

/** Returns an empty memory for the texts of the connections of a pool. */
export function noRecentTexts (): RecentTexts {
  return new RecentTexts(MAX_RECENT_BYTES)
}

export function noPreparedStatements (recentTexts = noRecentTexts()): PreparedStatements {
  const prefix = randomUUID().slice(0, 8)
  let count = 0
  return { names: new Map(), recentTexts, createName: () => `${prefix}.${count++}` }
}

/** A statement to be sent. `prepare`: whether its text may recur. */
type Sendable = Pick<Request, 'text' | 'parameters'> & { readonly prepare: boolean }

/**
 * Returns the requests that run the statements, in one group. A text is prepared when it is seen
 * for the second time. The caller records a name when the server has answered.
 */
export function toRequests (
  connection: PreparingConnection,
  statements: readonly Sendable[]
): readonly Request[] {
  const { names, recentTexts, createName } = connection.prepared
  /** Names of statements that this group prepares. */
  const added = new Map<string, string>()
  const free = MAX_PREPARED - names.size
  const requests = statements.map(({ text, parameters, prepare }): Request => {
    const request = { text, parameters, name: '', parse: true }
    if (!connection.prepares || !prepare || text.length > MAX_KEPT_LENGTH) return request
    const recurs = recentTexts.has(text)
    recentTexts.add(text)
    const name = names.get(text) ?? added.get(text)
    if (name !== undefined) return { ...request, name, parse: false }
    if (!recurs || added.size >= free) return request
    const created = createName()
    added.set(text, created)
    return { ...request, name: created }
  })
  if (added.size >= free) connection.state.retired = true
  return requests
}
