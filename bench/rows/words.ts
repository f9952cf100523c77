/**
 * Every word of the batch language, as a batch of the client and as a named one, beside the
 * statements that a person writes: as they are, and with the duties of a service. Optionally also
 * beside the service of another checkout.
 */
import { contenders, type Contender } from '../contenders.ts'
import { changes } from '../words/changes.ts'
import { words, type WordName } from '../words/words.ts'
import type { Match } from './throughput.ts'

const {
  oneflight,
  'named batch': named,
  'word by hand': byHand,
  'oneflight with its log': logged,
  'word with duties': withDuties
} = contenders

/** The words that are also measured as in production: those that users send most. */
const IN_PRODUCTION: readonly WordName[] = ['read', 'insert', 'update', 'upsert', 'call', 'list']

export interface WordSelection {
  /** By default all. */
  readonly words?: readonly string[] | undefined
  /** The folder of another checkout. */
  readonly checkout?: string | undefined
}

/** Returns a match for each of these words, without added round trip. */
export function wordMatches (
  { words: chosen, checkout }: WordSelection = {}
): readonly Match[] {
  return (Object.keys(words) as WordName[]).filter(word => chosen?.includes(word) ?? true)
    .map(word => {
      const batch: Contender = { ...named, path: `/batches/${word}` }
      const others = checkout === undefined
        ? []
        : [oneflight, batch].map(form => ({ ...form, name: nameInCheckout(form.name), checkout }))
      return {
        work: word,
        roundTripMs: 0,
        // Both checkouts take their turns next to each other.
        against: [
          ...others.slice(0, 1),
          batch,
          ...others.slice(1),
          { ...byHand, path: `/${word}` },
          ...IN_PRODUCTION.includes(word) ? [logged, { ...withDuties, path: `/${word}` }] : []
        ]
      }
    })
}

/**
 * Returns a match for each of these words that changes rows or calls a function, on tables with a
 * trigger and with a volatile function: code of the database, after which the service sends the
 * settings again.
 */
export function guardedMatches (
  { words: chosen, checkout }: WordSelection = {}
): readonly Match[] {
  const names = [...Object.keys(changes), 'call'] as readonly WordName[]
  return names.filter(word => chosen?.includes(word) ?? true).map(word => ({
    work: word,
    roundTripMs: 0,
    guarded: true,
    against: [
      ...checkout === undefined
        ? []
        : [{ ...oneflight, name: nameInCheckout(oneflight.name), checkout }],
      { ...byHand, path: `/${word}` }
    ]
  }))
}

/** The name of a contender of another checkout. */
export const nameInCheckout = (name: string): string => `${name}, other checkout`
