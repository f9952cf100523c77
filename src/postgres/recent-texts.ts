/**
 * Texts that were seen lately, a bounded number of them: the least recently used one is forgotten
 * first.
 */

export interface RecentTexts {
  /** Notes a text; whether it was known before. */
  note(text: string): boolean
  has(text: string): boolean
}

/** A Map keeps the order of insertion, which is all that such a list needs. */
export function rememberTexts (most: number): RecentTexts {
  const seen = new Map<string, true>()
  return {
    note (text) {
      const known = seen.delete(text)
      seen.set(text, true)
      if (seen.size > most) seen.delete(seen.keys().next().value as string)
      return known
    },
    has: text => seen.has(text)
  }
}
