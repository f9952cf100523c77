/**
 * Parses the JSON of tokens, keys and responses, and finds duplicate keys. It imports nothing, so
 * that a migration does not have to load the schemas of batches, which parse.ts needs and which
 * take 0.2 s.
 */

/**
 * Returns the value of a JSON text, or undefined if it is not JSON. It is as lossy as JSON.parse,
 * for callers with their own error messages; request bodies use parseJson.
 */
export function tryParse (text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** A key that repeats in its object: quoted as written the second time, and its position. */
interface Duplicate {
  readonly quoted: string
  readonly position: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Returns the first duplicate key or undefined. `text` must be valid JSON. Bodies get it only if
 * they are known to have a duplicate, tokens always. A regular expression for every string took
 * three times as long.
 */
export function findDuplicate (text: string): Duplicate | undefined {
  const scopes: Array<Set<string>> = []
  let string = { start: 0, end: 0 }
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x7b) scopes.push(new Set()) // {
    else if (code === 0x7d) scopes.pop() // }
    else if (code === QUOTE) {
      string = { start: i, end: endOfString(text, i) }
      i = string.end
    } else if (code === 0x3a) { // Outside of strings, a colon follows a key.
      const quoted = text.slice(string.start, string.end + 1)
      const key = quoted.includes('\\') ? JSON.parse(quoted) as string : quoted.slice(1, -1)
      const scope = scopes.at(-1) as Set<string>
      if (scope.has(key)) return { quoted, position: string.start }
      scope.add(key)
    }
  }
  return undefined
}

function endOfString (text: string, start: number): number {
  let i = start + 1
  while (i < text.length && text.charCodeAt(i) !== QUOTE) {
    i += text.charCodeAt(i) === BACKSLASH ? 2 : 1
  }
  return i
}
