/**
 * JSON that may be none, for those who have their own word for that. Loses what JSON.parse loses:
 * bodies go through parse.ts.
 */

/** The value of a JSON text; undefined when it is none. */
export function tryParse (text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
