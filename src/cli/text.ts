/**
 * Text for terminals: escapes, line ends and lists of words.
 */

/** Control characters, and characters that change the direction of text. */
const unsafe = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Escapes what a terminal would interpret. With `lines`, line ends are kept. */
export function visible (
  text: string,
  { lines = false }: { readonly lines?: boolean } = {}
): string {
  return text.replace(unsafe, character => {
    if (lines && character === '\n') return character
    return shortEscapes[character] ??
      `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`
  })
}

/** Adds a newline if there is none at the end. */
export function endLine (text: Buffer): Buffer {
  return text.at(-1) === 10 ? text : Buffer.concat([text, Buffer.from('\n')])
}

/** `1 row`, `2 rows`. */
export function count (number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`
}

/** `a, b or c`. */
export function listOf (words: readonly string[]): string {
  return new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(words)
}
