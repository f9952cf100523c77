/**
 * Scans the bytes of a JSON text for what JSON.parse would lose; parse.ts decides what to refuse.
 * Bytes beyond ASCII need no special case: no byte of a UTF-8 sequence equals a character of JSON's
 * syntax.
 */
import { EXACT_DIGITS } from './decimal.ts'

/** Facts about a text. Counts exclude the contents of strings. */
export interface ScanFacts {
  /** Number of members of all objects, including duplicates. */
  readonly members: number
  /** Deepest nesting of arrays and objects. */
  readonly depth: number
  /**
   * The numbers that are not written as JavaScript writes them: `1.10`, `1e3`, `-0`,
   * `9007199254740993`.
   */
  readonly exactNumbers: readonly ByteSpan[]
  /** Whether a string has a backslash. Only an escape can produce U+0000 or a lone surrogate. */
  readonly escapes: boolean
}

/** The bytes from `start` to before `end`. */
export interface ByteSpan {
  readonly start: number
  readonly end: number
}

export const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
/** With up to 6 decimal places JavaScript writes no `e`; 0.0000001 becomes 1e-7. */
const MAX_PLACES = 6

/** Scans `bytes`. If they are not valid JSON, the facts are meaningless, and JSON.parse throws. */
export function scanJson (bytes: Buffer): ScanFacts {
  let members = 0
  let depth = 0
  let deepest = 0
  const exactNumbers: ByteSpan[] = []
  const escapes = bytes.includes(BACKSLASH)
  const { length } = bytes
  for (let i = 0; i < length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfString(bytes, i)
        break
      case 0x3a: // :
        members++
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > deepest) deepest = depth
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      default: {
        const first = i
        const byte = bytes[i] as number
        if (!isDigit(byte) && byte !== MINUS) break
        while (i + 1 < length && isOfNumber(bytes[i + 1] as number)) i++
        if (!isPlain(bytes, first, i + 1)) exactNumbers.push({ start: first, end: i + 1 })
      }
    }
  }
  return { members, depth: deepest, exactNumbers, escapes }
}

/**
 * Returns the position of the quote that ends the string at `start`, or the end of an unterminated
 * text.
 */
function endOfString (bytes: Buffer, start: number): number {
  const { length } = bytes
  let i = start + 1
  while (i < length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1
  return i
}

function isDigit (byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

function isOfNumber (byte: number): boolean {
  return isDigit(byte) || byte === POINT || byte === 0x65 || byte === 0x45 || byte === MINUS ||
    byte === 0x2b
}

/**
 * Whether JavaScript writes the number the same way. The bytes decide this for most numbers:
 * measured with 10 000 rows of one fraction each, 0.3 ms instead of 2 ms.
 */
function isPlain (bytes: Buffer, start: number, end: number): boolean {
  return isShortPlain(bytes, start, end) ?? roundTrips(bytes.toString('latin1', start, end))
}

/** The same for a number with few digits and decimal places; undefined for any other number. */
function isShortPlain (bytes: Buffer, start: number, end: number): boolean | undefined {
  if (end - start > EXACT_DIGITS) return undefined
  const isNegative = bytes[start] === MINUS
  const first = isNegative ? start + 1 : start
  let point = end
  for (let i = first; i < end; i++) {
    if (bytes[i] === POINT) point = i
    else if (!isDigit(bytes[i] as number)) return undefined
  }
  // JavaScript writes -0 as 0.
  if (point === end) return !isNegative || bytes[first] !== ZERO
  if (bytes[end - 1] === ZERO) return false
  return end - point <= 1 + MAX_PLACES ? true : undefined
}

function roundTrips (text: string): boolean {
  return String(Number(text)) === text
}
