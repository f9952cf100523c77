/**
 * Finds the known name that a misspelled one resembles. Names resemble each other by their
 * beginnings, because most errors are near the end of a name. Letter case does not matter.
 */

/** Returns the known name with the longest common prefix. `known` must not be empty. */
export function closestName (name: string, known: readonly string[]): string {
  return known.reduce((best, own) =>
    commonLength(name, own) > commonLength(name, best) ? own : best
  )
}

/**
 * Returns the closest name if it is near enough for "Did you mean", otherwise undefined. It must
 * share two characters, and either be the beginning of `name` (`eq` of `equals`) or share half of
 * `name` (`where` and `wheer`). `known` must not be empty.
 */
export function findNearName (name: string, known: readonly string[]): string | undefined {
  const best = closestName(name, known)
  const length = commonLength(name, best)
  return length >= 2 && (length === best.length || length >= name.length / 2) ? best : undefined
}

function commonLength (a: string, b: string): number {
  const [left, right] = [a.toLowerCase(), b.toLowerCase()]
  let length = 0
  while (length < left.length && left[length] === right[length]) length++
  return length
}
