/**
 * The regular expressions of schemas. The author of a file writes them, and clients choose the
 * texts. The engine of JavaScript can take exponential time for a text, so RE2 runs them, which
 * takes linear time for every expression and text.
 */
import { RE2JS, type RE2JSSyntaxException } from 're2js'

/** White space of JavaScript. That of RE2 is only a part of it. */
const SPACE = '\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}' +
  '\\x{3000}\\x{feff}'
const NO_SPACE = '\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}' +
  '\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}' +
  '\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}'
const CLASSES: ReadonlyMap<string, string> = new Map([['\\s', SPACE], ['\\S', NO_SPACE]])
const NO_LINE_END = '[^\\n\\r\\x{2028}\\x{2029}]'

/** An escape, a bracket of a class, a point, or the start of a group with modifiers. */
const TOKENS = /\\.|\[\^?|\]|\.|\(\?[a-z-]+:/gsu

/**
 * Compiles a regular expression of ECMAScript with the flag `u`, in the form that Ajv takes. Throws
 * a SyntaxError if it is not one, or if it needs what RE2 does not have.
 */
export function compilePattern (pattern: string) {
  RegExp(pattern, 'u')
  const compiled = compileLinear(RE2JS.translateRegExp(translate(pattern)))
  return { test: (text: string) => compiled.test(text), toString: () => pattern }
}

function compileLinear (pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    const { error: reason, input } = error as RE2JSSyntaxException
    throw new SyntaxError(`RE2 does not support the regular expression: ${reason}: ${input}`)
  }
}

/** Rewrites the tokens that RE2 reads in another way. */
function translate (pattern: string): string {
  let inClass = false
  return pattern.replace(TOKENS, token => {
    if (token.startsWith('(') && !inClass) {
      throw new SyntaxError(`A group with modifiers is not supported: ${token}`)
    }
    const ranges = CLASSES.get(token)
    if (ranges !== undefined) return inClass ? ranges : `[${ranges}]`
    if (token === '.' && !inClass) return NO_LINE_END
    inClass = token.startsWith('[') || (inClass && token !== ']')
    return token
  })
}
