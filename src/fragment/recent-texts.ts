/**
 * Remembers texts of statements, for decisions about those that recur.
 */
import { LRUCache } from 'lru-cache'

/** Longer texts rarely recur: they are not remembered, and not prepared. */
export const MAX_KEPT_LENGTH = 8192

/** Bytes of an entry of the set, without its text. */
const ENTRY_BYTES = 100

/** Returns the memory that a text takes, at most. */
export function bytesOf (text: string): number {
  return 2 * text.length
}

/** Keeps at most `maxBytes` of texts. The oldest ones are dropped first. */
export class RecentTexts {
  readonly #texts: LRUCache<string, true>

  constructor (maxBytes: number) {
    this.#texts = new LRUCache<string, true>({
      maxSize: maxBytes,
      maxEntrySize: ENTRY_BYTES + 2 * MAX_KEPT_LENGTH,
      sizeCalculation: (_, text) => ENTRY_BYTES + bytesOf(text)
    })
  }

  add (text: string): void {
    this.#texts.set(text, true)
  }

  has (text: string): boolean {
    return this.#texts.has(text)
  }

  /** The memory that the texts take. */
  get bytes (): number {
    return this.#texts.calculatedSize
  }
}
