/**
 * Every word of the batch language, as a batch of the client and as a named one, beside the
 * statements that a person writes.
 */
import { contenders } from '../contenders.ts'
import { words, type WordName } from '../words/words.ts'
import type { Match } from './throughput.ts'

const { 'named batch': named, 'word by hand': byHand } = contenders

/** Returns a match for each word, without added round trip. */
export function wordMatches (): readonly Match[] {
  return (Object.keys(words) as WordName[]).map(word => ({
    work: word,
    roundTripMs: 0,
    against: [{ ...named, path: `/batches/${word}` }, { ...byHand, path: `/${word}` }]
  }))
}
