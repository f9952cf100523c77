/**
 * Finds the known name that a misspelled one resembles. Names resemble each other by their
 * beginnings, because most errors are near the end of a name. Letter case does not matter.
 */

/**
 * Returns the known name with the longest common prefix, and of several the one with the longest
 * common end. `known` must not be empty.
 */
export function closestName (name: string, known: readonly string[]): string {
  const text = shorten(name)
  const [best] = known.map(own => ({ own, ...compare(text, own.toLowerCase()) }))
    .sort((a, b) => b.start - a.start || b.end - a.end)
  return (best as { readonly own: string }).own
}

/** No known name is longer. */
const MAX_LENGTH = 128

function shorten (name: string): string {
  return name.slice(0, MAX_LENGTH).toLowerCase()
}

/**
 * Returns the closest name if it is near enough for "Did you mean", otherwise undefined. It must
 * share two characters, and either be the beginning of `name` (`eq` of `equals`) or share half of
 * `name` (`where` and `wheer`), the end included (`rollback` and `rolback`). If it does not, a name
 * is near in which one character is missing, additional or wrong (`table` and `tble`).
 */
export function suggest (name: string, known: readonly string[]): string | undefined {
  if (known.length === 0) return undefined
  const text = shorten(name)
  const best = closestName(name, known)
  const { start, end } = compare(text, best.toLowerCase())
  if (start >= 2 && (start === best.length || start + end >= name.length / 2)) return best
  return known.find(own => {
    const { start, end } = compare(text, own.toLowerCase())
    return start + end >= Math.max(2, text.length - 1, own.length - 1)
  })
}

/** Returns ` Did you mean "…"?`, or nothing if no name is near enough. */
export function didYouMean (name: string, known: readonly string[]): string {
  const near = suggest(name, known)
  return near === undefined ? '' : ` Did you mean "${near}"?`
}

/** The lengths of the common prefix of two names, and of the common end of what follows it. */
function compare (left: string, right: string): { readonly start: number, readonly end: number } {
  const most = Math.min(left.length, right.length)
  let [start, end] = [0, 0]
  while (start < most && left[start] === right[start]) start++
  while (end < most - start && left.at(-1 - end) === right.at(-1 - end)) end++
  return { start, end }
}
