/**
 * The words of the header `Idempotency-Key`: what a key is, and how long it is kept.
 */

/**
 * A key as it stands in the header (visible ASCII), and one in quotes (a string of RFC 9651,
 * §3.3.3), whose escapes are `\"` and `\\`.
 */
export const bareKey = /^[!\x23-\x7e][\x21-\x7e]*$/
export const quotedKey = /^"((?:[ !\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

export const maxKeyLength = 255

/** A length of time with its unit, as IDEMPOTENCY_TTL is written. */
export const ttlPattern = '^[1-9][0-9]{0,5}(s|m|h|d)$'

const unitSeconds = { s: 1, m: 60, h: 3600, d: 86_400 }

/** Seconds of a text that matches `ttlPattern`. */
export function readTtl (text: string): number {
  return Number(text.slice(0, -1)) * unitSeconds[text.slice(-1) as keyof typeof unitSeconds]
}
