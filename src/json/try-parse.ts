/**
 * Parses JSON for callers with their own error messages. It is as lossy as JSON.parse; request
 * bodies use parse.ts.
 */

/** Returns the value of a JSON text, or undefined if it is not JSON. */
export function tryParse (text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
