/**
 * Reads the fenced blocks of a documentation page, for the tests that run them.
 */

export interface CodeBlock {
  /** The word after the fence: `json`, `sql`, … */
  readonly language: string
  readonly text: string
  /** The last heading above the block. */
  readonly heading: string
  /** The last line of text between the previous block and this one, or ''. */
  readonly lead: string
}

/** Returns all fenced blocks in order. */
export function codeBlocks (markdown: string): readonly CodeBlock[] {
  let heading = ''
  return markdown.split(/^```$/m).flatMap(part => {
    const [before = '', language, text = ''] = part.split(/^```(\w+)\n/m)
    heading = before.match(/^#+ .*$/gm)?.at(-1)?.replace(/^#+ /, '') ?? heading
    return language === undefined
      ? []
      : [{ language, text: text.trimEnd(), heading, lead: before.trim().split('\n').at(-1) ?? '' }]
  })
}

/** Removes the white space of JSON. Digits and the order of keys stay. */
export function compact (json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
}
