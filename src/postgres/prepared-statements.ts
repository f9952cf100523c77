/**
 * Chooses which statements to prepare: those whose text recurs. The memory that they take in the
 * server is bounded per connection, where the least recently used ones are closed.
 */
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Request } from './pipeline.ts'

/**
 * Maximum memory that the prepared statements of a connection take in its server process: with
 * their plans, 44 bytes for each character of their text (measured; PostgreSQL 18).
 */
const MAX_PREPARED_BYTES = 16 * 1024 * 1024
const BYTES_PER_CHARACTER = 44

/** Longer texts rarely recur: they are not remembered, and not prepared. */
const MAX_LENGTH = 8192

/** Maximum memory for recent texts, enough for some thousands of them, and that of an entry. */
const MAX_RECENT_BYTES = 4 * 1024 * 1024
const ENTRY_BYTES = 100

/** Texts of statements that were seen. */
export type RecentTexts = LRUCache<string, true>

/** Returns an empty memory for the texts of the connections of a pool. */
export function noRecentTexts (): RecentTexts {
  return new LRUCache({
    maxSize: MAX_RECENT_BYTES,
    sizeCalculation: (_, text) => ENTRY_BYTES + 2 * text.length
  })
}

/** A statement to be sent. `prepare`: whether its text may recur. */
type Sendable = Pick<Request, 'text' | 'parameters'> & { readonly prepare: boolean }

/** The statements that are prepared on a connection. */
export class PreparedStatements {
  /** The names of those that the next group closes, from the oldest. */
  readonly replaced: string[] = []
  /** Their names by text. */
  readonly names = new LRUCache<string, string>({
    maxSize: MAX_PREPARED_BYTES,
    sizeCalculation: (_, text) => BYTES_PER_CHARACTER * text.length,
    dispose: name => this.replaced.push(name)
  })

  readonly #prepares: boolean
  readonly #recentTexts: RecentTexts
  readonly #prefix = randomUUID().slice(0, 8)
  #count = 0

  /**
   * `prepares`: whether statements may be prepared. `recentTexts`: those that were seen, also on
   * other connections of a pool.
   */
  constructor (prepares = true, recentTexts = noRecentTexts()) {
    this.#prepares = prepares
    this.#recentTexts = recentTexts
  }

  /**
   * Returns the requests that run the statements, in one group. A text is prepared when it is seen
   * for the second time. The caller records a name when the server has prepared it, and removes one
   * of `replaced` when the server has closed it.
   */
  toRequests (statements: readonly Sendable[]): readonly Request[] {
    /** Names of statements that this group prepares. */
    const added = new Map<string, string>()
    return statements.map(({ text, parameters, prepare }, i): Request => {
      const closes = i === 0 && this.replaced.length > 0 ? [...this.replaced] : undefined
      const request = { text, parameters, name: '', parse: true, closes }
      if (!this.#prepares || !prepare || text.length > MAX_LENGTH) return request
      const name = this.names.get(text) ?? added.get(text)
      if (name !== undefined) return { ...request, name, parse: false }
      const recurs = this.#recentTexts.has(text)
      this.#recentTexts.set(text, true)
      if (!recurs) return request
      const created = `${this.#prefix}.${this.#count++}`
      added.set(text, created)
      return { ...request, name: created }
    })
  }
}
