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
export interface Duplicate {
  readonly quoted: string
  readonly position: number
}

/**
 * Returns the first duplicate key or undefined. `text` must be valid JSON. This is slower than
 * parsing, so bodies get it only if they are known to have a duplicate. Tokens are short and always
 * get it.
 */
export function findDuplicate (text: string): Duplicate | undefined {
  const scopes: Array<Set<string>> = []
  // Matches strings (a key if a colon follows) and the brackets of objects.
  for (const { 0: token, index } of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|[{}]/g)) {
    if (token === '{') scopes.push(new Set())
    else if (token === '}') scopes.pop()
    else if (token.endsWith(':')) {
      const quoted = token.slice(0, token.lastIndexOf('"') + 1)
      const key = JSON.parse(quoted) as string
      const scope = scopes.at(-1)
      if (scope?.has(key) === true) return { quoted, position: index }
      scope?.add(key)
    }
  }
  return undefined
}
