/**
 * One pass over the bytes of a JSON text that tells what JSON.parse would lose. It judges nothing and allocates nothing:
 * parse.ts decides. Bytes beyond ASCII need no care, for no byte of a UTF-8 sequence looks like one of JSON's own characters.
 */

/** What the text holds, counted outside of strings unless said otherwise. */
export interface ScanFacts {
  /** Number of members of all objects, duplicates counted. */
  readonly members: number
  /** Deepest nesting of arrays and objects. */
  readonly depth: number
  /** true when some number may not survive a JavaScript number: a fraction, an exponent, `-0` or more than 15 digits. */
  readonly exactNumbers: boolean
  /** true when a string holds a backslash: only an escape can smuggle in U+0000 or a lone surrogate. */
  readonly escapes: boolean
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Scans `bytes`, which need not be valid JSON: then the facts mean nothing and JSON.parse will say so. */
export function scanJson (bytes: Uint8Array): ScanFacts {
  let members = 0
  let depth = 0
  let deepest = 0
  let exactNumbers = false
  let escapes = false
  let digits = 0
  let minus = false
  const { length } = bytes
  for (let i = 0; i < length; i++) {
    const byte = bytes[i] as number
    if (byte >= 0x30 && byte <= 0x39) {
      if ((minus && digits === 0 && byte === 0x30) || ++digits > 15) exactNumbers = true
      continue
    }
    digits = 0
    minus = false
    switch (byte) {
      case QUOTE:
        for (i++; i < length && bytes[i] !== QUOTE; i++) {
          if (bytes[i] === BACKSLASH) {
            escapes = true
            i++
          }
        }
        break
      case 0x3a: members++; break // :
      case 0x5b: case 0x7b: if (++depth > deepest) deepest = depth; break // [ {
      case 0x5d: case 0x7d: depth--; break // ] }
      case 0x2d: minus = true; break // -
      case 0x2e: case 0x45: exactNumbers = true; break // . E
      // `e` also stands in true and false: an exponent has a digit before it, a literal has a letter.
      case 0x65: if (isDigit(bytes[i - 1])) exactNumbers = true; break
    }
  }
  return { members, depth: deepest, exactNumbers, escapes }
}

function isDigit (byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}
