/**
 * Syntax of the `Idempotency-Key` header and of IDEMPOTENCY_TTL.
 */

/**
 * A bare key (visible ASCII), and a quoted one (a string of RFC 9651 §3.3.3 with the escapes `\"`
 * and `\\`).
 */
export const bareKey = /^[!\x23-\x7e][\x21-\x7e]*$/
export const quotedKey = /^"((?:[ !\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

export const maxKeyLength = 255

/** A duration with a unit: `24h`. */
export const ttlPattern = '^[1-9][0-9]{0,5}(s|m|h|d)$'

const unitSeconds = { s: 1, m: 60, h: 3600, d: 86_400 }

/** Seconds of a duration that matches `ttlPattern`. */
export function readTtl (text: string): number {
  return Number(text.slice(0, -1)) * unitSeconds[text.slice(-1) as keyof typeof unitSeconds]
}
