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

/** Together about 4 MB at most. Longer tokens are not cached. */
const MAX_TOKENS = 1000
const MAX_TOKEN_LENGTH = 2048

/** Evicts the least recently used token. Keys are tokens as they were sent. */
export function createTokenCache (): LRUCache<string, CachedToken> {
  return new LRUCache({
    max: MAX_TOKENS,
    maxEntrySize: MAX_TOKEN_LENGTH,
    sizeCalculation: (_value, token) => token.length
  })
}
