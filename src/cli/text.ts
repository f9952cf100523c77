/**
 * Text on a terminal: how wide it is, and what of it must not get there as it is. Knows no table
 * and no answer.
 */

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** Of an ideograph or an emoji; those of half width are none. */
const wide =
  /^(?![\uff61-\uffdc])(?:\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\p{sc=Han}|\p{sc=Hangul}|\p{sc=Hiragana}|\p{sc=Katakana}|\p{sc=Bopomofo}|\p{sc=Yi}|[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6])/u
/** Marks and joiners that stand alone. */
const invisible = /^[\p{Mn}\p{Me}\u200b-\u200d\u2060\ufeff]+$/u

/** Columns that a line of text takes on a terminal. */
export function widthOf (line: string): number {
  if (/^[ -~]*$/.test(line)) return line.length
  let width = 0
  for (const { segment } of graphemes.segment(line)) {
    width += invisible.test(segment)
      ? 0
      : wide.test(segment)
        ? 2
        : 1
  }
  return width
}

/** What a terminal would obey, and what turns the direction of writing. */
const obeyed = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/**
 * The text with escapes in the place of what a terminal would obey. Lines stay lines where `lines`
 * says so.
 */
export function visible (
  text: string,
  { lines = false }: { readonly lines?: boolean } = {}
): string {
  return text.replace(obeyed, character => {
    if (lines && character === '\n') return character
    return short[character] ??
      `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`
  })
}

/** `1 row`, `2 rows`. */
export function count (number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`
}
