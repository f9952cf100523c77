/**
 * Prepares the statements of a connection. The memory that they take in the server is bounded: the
 * least recently used ones are closed.
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

/** Longer texts rarely recur: they are not prepared. */
const MAX_LENGTH = 8192

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
  readonly #prefix = randomUUID().slice(0, 8)
  #count = 0

  /** `prepares`: whether statements may be prepared. */
  constructor (prepares = true) {
    this.#prepares = prepares
  }

  /**
   * Returns the requests that run the statements, in one group. The caller records a name when the
   * server has prepared it, and removes one of `replaced` when the server has closed it.
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
      const created = `${this.#prefix}.${this.#count++}`
      added.set(text, created)
      return { ...request, name: created }
    })
  }
}
