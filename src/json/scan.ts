/**
 * One pass over the bytes of a JSON text that tells what JSON.parse would lose. It judges nothing: parse.ts decides. Bytes beyond ASCII need no care, for no byte of a UTF-8 sequence looks like one of JSON's own characters.
 */

/** What the text holds, counted outside of strings unless said otherwise. */
export interface ScanFacts {
  /** Number of members of all objects, duplicates counted. */
  readonly members: number
  /** Deepest nesting of arrays and objects. */
  readonly depth: number
  /** true when some number is not written as JavaScript would write it: `1.10`, `1e3`, `-0`, `9007199254740993`. */
  readonly exactNumbers: boolean
  /** true when a string holds a backslash: only an escape can smuggle in U+0000 or a lone surrogate. */
  readonly escapes: boolean
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d
/** So many digits are kept by every JavaScript number. */
const MAX_DIGITS = 15

/** Scans `bytes`, which need not be valid JSON: then the facts mean nothing and JSON.parse will say so. */
export function scanJson (bytes: Buffer): ScanFacts {
  let members = 0
  let depth = 0
  let deepest = 0
  let exactNumbers = false
  let escapes = false
  const { length } = bytes
  for (let i = 0; i < length; i++) {
    switch (bytes[i]) {
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
      case MINUS: case 0x30: case 0x31: case 0x32: case 0x33: case 0x34: case 0x35: case 0x36: case 0x37: case 0x38: case 0x39: { // - 0 … 9
        const start = i
        let digitsAlone = bytes[i] !== MINUS
        for (; i + 1 < length && isOfNumber(bytes[i + 1] as number); i++) digitsAlone &&= isDigit(bytes[i + 1] as number)
        exactNumbers ||= !(digitsAlone && i - start < MAX_DIGITS) && !isPlain(bytes.toString('latin1', start, i + 1))
      }
    }
  }
  return { members, depth: deepest, exactNumbers, escapes }
}

function isDigit (byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

/** A digit, or one of `. e E - +`. */
function isOfNumber (byte: number): boolean {
  return isDigit(byte) || byte === 0x2e || byte === 0x65 || byte === 0x45 || byte === MINUS || byte === 0x2b
}

/** Whether JavaScript writes the number as it stands there. */
function isPlain (text: string): boolean {
  return String(Number(text)) === text
}
