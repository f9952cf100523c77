/**
 * One pass over the bytes of a JSON text that tells what JSON.parse would lose. It judges nothing:
 * parse.ts decides. Bytes beyond ASCII need no care, for no byte of a UTF-8 sequence looks like one
 * of JSON's own characters.
 */

/** What the text holds, counted outside of strings unless said otherwise. */
export interface ScanFacts {
  /** Number of members of all objects, duplicates counted. */
  readonly members: number
  /** Deepest nesting of arrays and objects. */
  readonly depth: number
  /**
   * true when some number is not written as JavaScript would write it: `1.10`, `1e3`, `-0`,
   * `9007199254740993`.
   */
  readonly exactNumbers: boolean
  /**
   * true when a string holds a backslash: only an escape can smuggle in U+0000 or a lone surrogate.
   */
  readonly escapes: boolean
  /** Whether white space stands between tokens. */
  readonly spaces: boolean
  /**
   * The arrays `"values":[…]` of the elements of an outermost array, as far as they are large:
   * those that cost something to write again.
   */
  readonly values: readonly ValuesSpan[]
}

/**
 * The array `values` of element number `element`: its bytes from `start`, those from `end` on not
 * among them.
 */
export interface ValuesSpan {
  readonly element: number
  readonly start: number
  readonly end: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
/** So many digits are kept by every JavaScript number. */
const MAX_DIGITS = 15
/** With so many places behind the point JavaScript writes no `e`: the next one would be 1e-7. */
const MAX_PLACES = 6
/** Bytes of an array that is large. */
const LARGE = 16 * 1024
const valuesMembers = ['{"values":', ',"values":']

/**
 * Scans `bytes`, which need not be valid JSON: then the facts mean nothing and JSON.parse will say
 * so.
 */
export function scanJson (bytes: Buffer): ScanFacts {
  let members = 0
  let depth = 0
  let deepest = 0
  let exactNumbers = false
  let spaces = false
  let element = 0
  let start = 0
  const values: ValuesSpan[] = []
  const escapes = bytes.includes(BACKSLASH)
  const { length } = bytes
  for (let i = 0; i < length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = escapes ? endOfString(bytes, i) : endOfPlainString(bytes, i)
        break
      case 0x3a:
        members++
        break // :
      case 0x2c:
        if (depth === 1) element++
        break // ,
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        spaces = true
        break
      case 0x5b:
      case 0x7b: // [ {
        if (++depth > deepest) deepest = depth
        if (depth === 3) start = i
        break
      case 0x5d:
      case 0x7d: // ] }
        if (depth-- === 3 && i - start >= LARGE && isValues(bytes, start)) {
          values.push({ element, start, end: i + 1 })
        }
        break
      // - 0 … 9
      case MINUS:
      case 0x30:
      case 0x31:
      case 0x32:
      case 0x33:
      case 0x34:
      case 0x35:
      case 0x36:
      case 0x37:
      case 0x38:
      case 0x39: {
        const first = i
        while (i + 1 < length && isOfNumber(bytes[i + 1] as number)) i++
        exactNumbers ||= !isPlain(bytes, first, i + 1)
      }
    }
  }
  return { members, depth: deepest, exactNumbers, escapes, spaces, values }
}

/**
 * The place of the quote that ends the string whose first one is at `start`; the end of the text
 * when there is none.
 */
function endOfString (bytes: Buffer, start: number): number {
  const { length } = bytes
  let i = start + 1
  while (i < length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1
  return i
}

/** The same in a text without escapes, as most are. Strings are most of a text. */
function endOfPlainString (bytes: Buffer, start: number): number {
  const { length } = bytes
  let i = start + 1
  while (i < length && bytes[i] !== QUOTE) i++
  return i
}

/**
 * Whether what opens at `start` is an array behind the name `values`. A quote behind `{` or `,` is
 * no escaped one, so nothing else looks like that.
 */
function isValues (bytes: Buffer, start: number): boolean {
  return bytes[start] === 0x5b &&
    valuesMembers.includes(bytes.toString('latin1', start - 10, start))
}

function isDigit (byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

/** A digit, or one of `. e E - +`. */
function isOfNumber (byte: number): boolean {
  return isDigit(byte) || byte === POINT || byte === 0x65 || byte === 0x45 || byte === MINUS ||
    byte === 0x2b
}

/**
 * Whether JavaScript writes the number as it stands there. Of most that is told by a look at their
 * bytes: in 10 000 rows with one fraction each 0.3 ms in the place of 2.
 */
function isPlain (bytes: Buffer, start: number, end: number): boolean {
  return isShort(bytes, start, end) || isWrittenSo(bytes.toString('latin1', start, end))
}

/** A number of few digits and places, the last of which is no 0. */
function isShort (bytes: Buffer, start: number, end: number): boolean {
  if (end - start > MAX_DIGITS || bytes[start] === MINUS) return false
  let point = end
  for (let i = start; i < end; i++) {
    if (bytes[i] === POINT) point = i
    else if (!isDigit(bytes[i] as number)) return false
  }
  return point === end || (end - point <= 1 + MAX_PLACES && bytes[end - 1] !== ZERO)
}

function isWrittenSo (text: string): boolean {
  return String(Number(text)) === text
}
