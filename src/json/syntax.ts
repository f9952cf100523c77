/**
 * Where a text stops being JSON. JSON.parse decides whether one is; its errors name a place now and
 * then, and in words of V8 alone. For people who write JSON by hand.
 */

const plain = String.raw`[^"\\\x00-\x1f]*`
/** Behind white space: a string, another scalar, or punctuation. */
const lexeme = new RegExp(
  String.raw`[ \t\r\n]*(?:("${plain}(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})${plain})*")|` +
    String.raw`(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])|` +
    String.raw`([{}[\],:]))`,
  'y'
)

/** What may come next. `next` is what follows a whole value. */
type State = 'value' | 'element' | 'member' | 'name' | 'colon' | 'next'

/**
 * The position of the first lexeme that must not stand where it does, or of the end; undefined when
 * the text is JSON.
 */
export function findSyntaxFault (text: string): number | undefined {
  const open: string[] = []
  let [state, position]: [State, number] = ['value', 0]
  lexeme.lastIndex = 0
  for (let match = lexeme.exec(text); match !== null; match = lexeme.exec(text)) {
    const [, string, scalar, mark] = match
    const after = follow(state, {
      kind: mark ?? (string === undefined ? 'scalar' : 'string'),
      open
    })
    position = lexeme.lastIndex
    if (after === undefined) return position - (string ?? scalar ?? mark as string).length
    state = after
  }
  const end = position + text.slice(position).search(/[^ \t\r\n]|$/)
  return end === text.length && state === 'next' && open.length === 0 ? undefined : end
}

/** The state behind a lexeme, where it may stand; `open` are the brackets to be closed. */
function follow (
  state: State,
  { kind, open }: { readonly kind: string, readonly open: string[] }
): State | undefined {
  const begins = state === 'value' || state === 'element'
  switch (kind) {
    case 'string':
      return begins ? 'next' : state === 'member' || state === 'name' ? 'colon' : undefined
    case 'scalar':
      return begins ? 'next' : undefined
    case ':':
      return state === 'colon' ? 'value' : undefined
    case ',':
      return state !== 'next' || open.length === 0
        ? undefined
        : open.at(-1) === '}'
          ? 'name'
          : 'value'
    case '{':
    case '[':
      if (!begins) return undefined
      open.push(kind === '{' ? '}' : ']')
      return kind === '{' ? 'member' : 'element'
    default:
      // An empty object or array, or the end of one.
      if (state !== 'next' && state !== (kind === '}' ? 'member' : 'element')) return undefined
      return open.pop() === kind ? 'next' : undefined
  }
}
