/**
 * Finds the first duplicate key of a JSON text that is known to hold one. Only errors pay for this second, slower reading.
 */

/** The key, quoted as it was first written. `text` must be valid JSON; `"?"` when there is no duplicate after all. */
export function findDuplicate (text: string): string {
  const scopes: Array<Set<string>> = []
  // Strings (a key when a colon follows) and the brackets of objects: all that matters here.
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|[{}]/g)) {
    if (token === '{') scopes.push(new Set())
    else if (token === '}') scopes.pop()
    else if (token.endsWith(':')) {
      const quoted = token.slice(0, token.lastIndexOf('"') + 1)
      const key = JSON.parse(quoted) as string
      const scope = scopes.at(-1)
      if (scope?.has(key) === true) return quoted
      scope?.add(key)
    }
  }
  return '"?"'
}
