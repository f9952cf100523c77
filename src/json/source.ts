/**
 * Parts of a JSON text as they stand in it, byte for byte: for those who show a text or name a
 * place in it. It checks nothing: the text must be valid JSON.
 */

/**
 * A member of an object or an element of an array. Positions are those of UTF-16 units in the whole
 * text.
 */
export interface Part {
  readonly key: string | number
  /** Where it begins: with its name, where it has one. */
  readonly start: number
  /** Its value, from `from` to before `to`. */
  readonly from: number
  readonly to: number
}

/** Strings, empty brackets, punctuation, and the words and numbers between. */
const token = /"[^"\\]*(?:\\.[^"\\]*)*"|\{\s*\}|\[\s*\]|[{}[\],:]|[^\s"{}[\],:]+/g

/**
 * The parts of the object or array that begins at `from`, in their order; of anything else there
 * are none.
 */
export function readParts (text: string, from: number): readonly Part[] {
  const named = text[from] === '{'
  if (!named && text[from] !== '[') return []
  const parts: Part[] = []
  const tokens = new RegExp(token)
  tokens.lastIndex = from + 1
  const next = (): RegExpExecArray => tokens.exec(text) as RegExpExecArray
  for (let first = next(); !/^[}\]]/.test(first[0]); first = next()) {
    if (first[0] === ',') continue
    if (named) next()
    const value = named ? next() : first
    for (let depth = depthBehind(value[0], 0); depth > 0;) depth = depthBehind(next()[0], depth)
    parts.push({
      key: named ? JSON.parse(first[0]) as string : parts.length,
      start: first.index,
      from: value.index,
      to: tokens.lastIndex
    })
  }
  return parts
}

function depthBehind (text: string, depth: number): number {
  if (text === '{' || text === '[') return depth + 1
  return text === '}' || text === ']' ? depth - 1 : depth
}

/** Line and column, both from 1; columns count characters. */
export interface Place {
  readonly line: number
  readonly column: number
}

export interface Locator {
  /**
   * Where a part begins that a path leads to; when something on the way is not there, where what
   * should hold it begins.
   */
  locate(path: ReadonlyArray<string | number>): Place
  /** Where the character at `position` stands. */
  placeOf(position: number): Place
}

/** Finds places in `text`; what it has looked at once it keeps. */
export function createLocator (text: string): Locator {
  const known = new Map<number, readonly Part[]>()
  const lines = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  const placeOf = (position: number): Place => {
    const line = lines.findLastIndex(start => start <= position)
    return { line: line + 1, column: [...text.slice(lines[line], position)].length + 1 }
  }
  const parts = (from: number): readonly Part[] => {
    const found = known.get(from) ?? readParts(text, from)
    known.set(from, found)
    return found
  }
  return {
    placeOf,
    locate (path) {
      let start = text.search(/\S/)
      let from = start
      for (const step of path) {
        const part = parts(from).find(({ key }) => key === step)
        if (part === undefined) break
        start = part.start
        from = part.from
      }
      return placeOf(start)
    }
  }
}

/** The same JSON over several lines; numbers and strings stay as they are written. */
export function indentJson (text: string): string {
  let depth = 0
  const newLine = (): string => `\n${'  '.repeat(depth)}`
  return Array.from(text.matchAll(token), ([part]) => {
    const before = depth
    depth = depthBehind(part, depth)
    if (depth > before || part === ',') return part + newLine()
    if (depth < before) return newLine() + part
    return part === ':' ? ': ' : part.replace(/^([{[])\s*([}\]])$/, '$1$2')
  }).join('')
}
