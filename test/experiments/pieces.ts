/**
 * The pieces scenario: the processor time of the longest piece of work for a body, in which no
 * other request of the process proceeds. Each part of the grammar makes a body of the largest size,
 * and if that has too many names, operators and references, also one with as many as are allowed.
 * test/unit/support/hostile.test.ts holds how the time grows.
 */
import { collectGarbage } from '../support/garbage.ts'
import { nameOf, writeBody } from '../support/hostile/bodies.ts'
import { parts } from '../support/hostile/parts.ts'
import { findShare, isTooMuch, measureBody, type Measured } from '../support/hostile/stages.ts'
import { figureFor, type Scenario } from './scenario.ts'

const figure = figureFor(9)

/** Where a piece takes longer, the least of several times counts, which others disturb least. */
const LONG_MS = 50
const TIMES = 5
/** How many of the longest pieces are listed. */
const MAX_LISTED = 10

export const pieces: Scenario = {
  name: 'pieces',
  run: async (_stage, { log }) => {
    const recipes = parts.flatMap(part =>
      [1, 100].map(operations => ({ parts: [part], operations })))
    const measured = recipes.map(recipe => {
      const name = nameOf(recipe)
      const whole = measureLeast(writeBody(recipe))
      if (!isTooMuch(whole.measured)) return { name, ms: whole.ms }
      const share = findShare(share => measureBody(writeBody(recipe, share)))
      return { name, ms: Math.max(whole.ms, measureLeast(writeBody(recipe, share)).ms) }
    })
    const longest = measured.toSorted((a, b) => b.ms - a.ms).slice(0, MAX_LISTED)
    for (const { name, ms } of longest) log(`${ms.toFixed(0)} ms: ${name}`)
    return [
      figure('bodies', measured.length),
      figure(
        'processor time of the longest piece of work for a body',
        longest[0]?.ms ?? 0,
        { unit: 'ms', atMost: 100 }
      )
    ]
  }
}

/** Measures a body several times if it takes long. */
function measureLeast (body: string): { readonly measured: Measured, readonly ms: number } {
  let ms = Infinity
  for (let i = 1; ; i++) {
    // Otherwise a body would pay for the hundreds of megabytes of those before it.
    collectGarbage()
    const measured = measureBody(body)
    ms = Math.min(ms, measured.longestMs)
    if (i === TIMES || ms <= LONG_MS) return { measured, ms }
  }
}
