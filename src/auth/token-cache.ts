/**
 * Caches verified tokens. A client sends the same token for minutes, and verification costs more
 * than everything else before the batch runs. Times, audience and key are checked on every request,
 * not here.
 */
import { LRUCache } from 'lru-cache'
import type { VerificationKey } from './verification-key.ts'
import type { OpenedToken } from './token.ts'

/** A decoded token and the key that verified its signature. */
export interface CachedToken extends OpenedToken {
  readonly key: VerificationKey
}

/** About a thousand tokens of the usual size. */
const MAX_BYTES = 8 * 1024 * 1024

/** Tokens of about 2 kB. Longer ones are not cached. */
const MAX_ENTRY_BYTES = 48 * 1024

/** An entry, and what a character of the claims takes as text and as objects; measured. */
const ENTRY_BYTES = 500
const BYTES_PER_CHARACTER = 26

/** Evicts the least recently used token. Keys are tokens as they were sent. */
export function createTokenCache (): LRUCache<string, CachedToken> {
  return new LRUCache({
    maxSize: MAX_BYTES,
    maxEntrySize: MAX_ENTRY_BYTES,
    sizeCalculation: ({ claims }, token) =>
      ENTRY_BYTES + 2 * token.length + BYTES_PER_CHARACTER * claims.length
  })
}
