/**
 * Finds the first duplicate key of a JSON text. This is a second, slower reading: bodies pay for it
 * only when they are known to hold one, tokens, which are short, always.
 */

/**
 * A key that stands in its object for the second time: quoted as it was written then, and where in
 * the text.
 */
export interface Duplicate {
  readonly quoted: string
  readonly position: number
}

/** The first one; undefined when there is none. `text` must be valid JSON. */
export function findDuplicate (text: string): Duplicate | undefined {
  const scopes: Array<Set<string>> = []
  // Strings (a key when a colon follows) and the brackets of objects: all that matters here.
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
