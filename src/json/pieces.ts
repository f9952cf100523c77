/**
 * Work in pieces. A generator yields where others may proceed: turns.ts lets other requests do so
 * for the work of a large body, `finish` does not.
 */
export type Pieces<Result> = Generator<undefined, Result, undefined>

/** Does all pieces at once. */
export function finish<Result> (pieces: Pieces<Result>): Result {
  for (;;) {
    const { done, value } = pieces.next()
    if (done === true) return value
  }
}
