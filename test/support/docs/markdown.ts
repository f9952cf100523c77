/**
 * The fenced blocks of a page of the documentation, for the tests that run them.
 */

export interface CodeBlock {
  /** The word behind the fence: `json`, `sql`, … */
  readonly language: string
  readonly text: string
  /** The last heading above the block. */
  readonly heading: string
  /** The last line of text between the block before and this one, or '' when there is none. */
  readonly lead: string
}

/** All fenced blocks of `markdown`, in their order. */
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

/**
 * JSON text without its white space: equal texts are equal to the last digit and in the order of
 * their keys.
 */
export function compact (json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
}
