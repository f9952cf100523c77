/**
 * The text of a statement by its shape: the steps by which it was put together. The same shape has
 * the same string, not only an equal one: a text of two kilobytes that is made anew for each
 * request is also copied and hashed wherever it is looked up, which is several times a statement.
 * In charge of: finding a text again, and the bound of what is remembered. Knows no SQL.
 */

/**
 * A step of a shape, which is written depth first: the texts of a template, between which as many
 * parts follow as there are gaps · a text · a positive number n, the parameter `$n` · a number -n
 * or 0, a list of n parts, with one more part, the separator, between every two of them.
 */
export type Step = readonly string[] | string | number

/** A place in the tree of all shapes: what may follow, and the text, when one ended here. */
interface Place {
  readonly next: Map<Step, Place>
  text: string | undefined
}

/** Longer ones (a filter of hundreds of conditions) hardly recur. */
const MAX_STEPS = 500
/** About 10 MB; then everything is forgotten, and what recurs is soon known again. */
const MAX_PLACES = 50_000

let root: Place = makePlace()
let places = 0

/** The text of a shape. */
export function textOf (shape: readonly Step[]): string {
  if (shape.length > MAX_STEPS) return write(shape)
  if (places > MAX_PLACES) {
    root = makePlace()
    places = 0
  }
  let place = root
  for (const step of shape) place = place.next.get(step) ?? grow(place, step)
  place.text ??= write(shape)
  return place.text
}

function grow ({ next }: Place, step: Step): Place {
  const place = makePlace()
  next.set(step, place)
  places++
  return place
}

function makePlace (): Place {
  return { next: new Map(), text: undefined }
}

function write (shape: readonly Step[]): string {
  let at = 0
  const part = (): string => {
    const step = shape[at++] as Step
    if (typeof step === 'string') return step
    if (typeof step !== 'number') {
      return step.map((text, i) => i === 0 ? text : part() + text).join('')
    }
    if (step > 0) return `$${step}`
    return Array.from({ length: Math.max(0, -2 * step - 1) }, part).join('')
  }
  return part()
}
