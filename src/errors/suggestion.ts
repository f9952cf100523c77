/**
 * Finds the known name that a misspelled one resembles. Names resemble each other by their
 * beginnings, because most errors are near the end of a name. Letter case does not matter.
 */

/** Returns the known name with the longest common prefix. `known` must not be empty. */
export function closestName (name: string, known: readonly string[]): string {
  const text = name.slice(0, MAX_LENGTH).toLowerCase()
  const lengths = known.map(own => commonLength(text, own.toLowerCase()))
  return known[lengths.indexOf(Math.max(...lengths))] as string
}

/** No known name is longer. */
const MAX_LENGTH = 128

/**
 * Returns the closest name if it is near enough for "Did you mean", otherwise undefined. It must
 * share two characters, and either be the beginning of `name` (`eq` of `equals`) or share half of
 * `name` (`where` and `wheer`). `known` must not be empty.
 */
export function suggest (name: string, known: readonly string[]): string | undefined {
  const best = closestName(name, known)
  const length = commonLength(name.slice(0, MAX_LENGTH).toLowerCase(), best.toLowerCase())
  return length >= 2 && (length === best.length || length >= name.length / 2) ? best : undefined
}

function commonLength (left: string, right: string): number {
  let length = 0
  while (length < left.length && left[length] === right[length]) length++
  return length
}
