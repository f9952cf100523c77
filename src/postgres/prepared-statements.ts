/**
 * Chooses which statements to prepare: those whose text recurs. Their number is bounded per
 * connection (5000 of them take 89 MiB in a backend), and a connection that reaches the bound is
 * replaced.
 */
import { randomUUID } from 'node:crypto'
import { MAX_KEPT_LENGTH, RecentTexts } from '../fragment/text-cache.ts'
import type { Request } from './pipeline.ts'

const MAX_PREPARED = 250
/** Some thousands of texts. */
const MAX_RECENT_BYTES = 4 * 1024 * 1024

const recentTexts = new RecentTexts(MAX_RECENT_BYTES)

/** The statements that are prepared on a connection. */
export interface PreparedStatements {
  /** Their names by text. */
  readonly names: Map<string, string>
  /** Returns a new name. */
  readonly createName: () => string
}

/** The part of a connection that this file reads and changes. */
interface PreparingConnection {
  readonly prepared: PreparedStatements
  /** Whether statements may be prepared. */
  readonly prepares: boolean
  /** `retired`: the connection is to be replaced. */
  readonly state: { retired: boolean }
}

export function noPreparedStatements (): PreparedStatements {
  const prefix = randomUUID().slice(0, 8)
  let count = 0
  return { names: new Map(), createName: () => `${prefix}.${count++}` }
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
  const { names, createName } = connection.prepared
  /** Names of statements that this group prepares. */
  const added = new Map<string, string>()
  const free = MAX_PREPARED - names.size
  const requests = statements.map(({ text, parameters, prepare }): Request => {
    const request = { text, parameters, name: '', parse: true }
    if (!connection.prepares || !prepare || text.length > MAX_KEPT_LENGTH) return request
    const recurs = doesRecur(text)
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

/** Whether a text is seen for the second time. */
function doesRecur (text: string): boolean {
  const recurs = recentTexts.has(text)
  recentTexts.add(text)
  return recurs
}
