/**
 * Tokens that were verified lately. A client sends the same one for minutes, and to verify it costs
 * more than all else that is done with a request before it is run. In charge of the bound; that
 * times, audience and the key still count is looked at for every request.
 */
import type { VerificationKey } from './verification-key.ts'
import type { OpenedToken } from './token.ts'

/** A token taken apart, and the key by which its signature was found good. */
export interface CachedToken extends OpenedToken {
  readonly key: VerificationKey
}

export interface TokenCache {
  get(token: string): CachedToken | undefined
  add(token: string, known: CachedToken): void
}

/** About 4 MB at most. */
const MAX_TOKENS = 1000
const MAX_LENGTH = 2048

/** Forgets the oldest. */
export function createTokenCache (): TokenCache {
  const known = new Map<string, CachedToken>()
  return {
    get: token => known.get(token),
    add (token, opened) {
      if (token.length > MAX_LENGTH) return
      known.delete(token)
      known.set(token, opened)
      if (known.size > MAX_TOKENS) known.delete(known.keys().next().value as string)
    }
  }
}
