/**
 * Keeps what was read from the catalogue about tables or functions, with its age.
 */
import { LRUCache } from 'lru-cache'
import { tableKey } from '../../plan/name.ts'
import type { TableName } from '../../plan/nodes.ts'

/** A batch uses nothing that was read this long ago: it is read again before. */
const MAX_AGE_MS = 60_000

/** From this age on it is read again, while batches go on with what is known. */
const AGING_MS = MAX_AGE_MS / 2

/** Maximum memory, enough for more than a thousand tables of 20 columns. */
const MAX_BYTES = 8 * 1024 * 1024

interface Entry<Value> {
  readonly value: Value
  /** What the catalogue says, as JSON. */
  readonly source: string
  /** A time of performance.now(). */
  readonly readAt: number
  /** Whether it is being read again. */
  isRenewed: boolean
}

/** What was just read about a name. */
interface Read<Value> {
  /** What the catalogue says, as JSON. */
  readonly source: string
  readonly create: () => Value
}

export class CatalogueCache<Value extends object> {
  readonly #entries: LRUCache<string, Entry<Value>>

  /** `bytesOf`: the memory of a value without its source. */
  constructor (bytesOf: (value: Value) => number) {
    this.#entries = new LRUCache({
      maxSize: MAX_BYTES,
      sizeCalculation: ({ value, source }) => bytesOf(value) + 2 * source.length
    })
  }

  /** Keeps and returns what was just read: the same object as long as its source is the same. */
  keep (name: TableName, { source, create }: Read<Value>): Value {
    const known = this.#entries.get(tableKey(name))
    const value = known?.source === source ? known.value : create()
    this.#entries.set(tableKey(name), {
      value, source, readAt: performance.now(), isRenewed: false
    })
    return value
  }

  delete (name: TableName): void {
    this.#entries.delete(tableKey(name))
  }

  /** What is known about a name; undefined: nothing. */
  lookup (name: TableName): Value | undefined {
    return this.#entries.get(tableKey(name))?.value
  }

  /** Whether a name must be read before it is used: it is not known, or was read too long ago. */
  isUnknown (name: TableName): boolean {
    const entry = this.#entries.get(tableKey(name))
    return entry === undefined || performance.now() - entry.readAt >= MAX_AGE_MS
  }

  /** Whether a name should be read again now. True once for each time that it was read. */
  startsToAge (name: TableName): boolean {
    const entry = this.#entries.get(tableKey(name))
    if (entry === undefined || entry.isRenewed) return false
    entry.isRenewed = performance.now() - entry.readAt >= AGING_MS
    return entry.isRenewed
  }
}
