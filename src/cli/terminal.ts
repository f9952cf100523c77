/**
 * What a command uses of its process and its terminal. Only src/cli.ts accesses the process itself.
 */
import type { Readable, Writable } from 'node:stream'

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Readable
  /** `isTTY` and `columns` (the width) are set on a terminal. */
  readonly stdout: Writable & { readonly isTTY?: boolean, readonly columns?: number }
  readonly stderr: Writable & { readonly isTTY?: boolean }
}

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

/** Moves to the start of the line; erases to its end. */
const [START, ERASE] = ['\r', '\u001b[K']

/** Prints `text` with the seconds so far, every second. Returns a function that erases it. */
export function showProgress (stderr: CliContext['stderr'], text: string): () => void {
  if (stderr.isTTY !== true) return () => {}
  let seconds = 0
  const timer = setInterval(() => {
    stderr.write(`${START}oneflight: ${text} (${++seconds} s)${ERASE}`)
  }, 1000)
  return () => {
    clearInterval(timer)
    if (seconds > 0) stderr.write(START + ERASE)
  }
}
