/**
 * The pieces scenario: the processor time of the longest piece of work for a body, in which no
 * other request of the process proceeds. Each part of the grammar and of parameters makes a body of
 * the largest size, and if that has too many names, operators and references, also one with as many
 * as are allowed. test/unit/support/hostile.test.ts holds how the time grows.
 */
import { collectGarbage } from '../support/garbage.ts'
import { MAX_BODY_BYTES, nameOf, writeBody } from '../support/hostile/bodies.ts'
import { namedParts, writeParameters } from '../support/hostile/named.ts'
import { parts } from '../support/hostile/parts.ts'
import {
  findShare,
  isTooMuch,
  measureBody,
  measureParameters,
  type Measured
} from '../support/hostile/stages.ts'
import { figureFor, type Scenario } from './scenario.ts'

const figure = figureFor(9)

interface Body {
  readonly name: string
  /**
   * Writes the body with a share of its parts, from 0 to 1. All bodies together have hundreds of
   * megabytes.
   */
  readonly write: (share: number) => string
  readonly measure: (body: string) => Measured
}

/** Where a piece takes longer, the least of several times counts, which others disturb least. */
const LONG_MS = 50
const TIMES = 5
/** How many of the longest pieces are listed. */
const MAX_LISTED = 10

export const pieces: Scenario = {
  name: 'pieces',
  run: async (_stage, { log }) => {
    const measured = createBodies().map(body => {
      const { write, measure, name } = body
      const whole = measureLeast(body, write(1))
      if (!isTooMuch(whole.measured)) return { name, ms: whole.ms }
      const share = findShare(share => measure(write(share)))
      return { name, ms: Math.max(whole.ms, measureLeast(body, write(share)).ms) }
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
function measureLeast (
  { measure }: Body,
  body: string
): { readonly measured: Measured, readonly ms: number } {
  let ms = Infinity
  for (let i = 1; ; i++) {
    // Otherwise a body would pay for the hundreds of megabytes of those before it.
    collectGarbage()
    const measured = measure(body)
    ms = Math.min(ms, measured.longestMs)
    if (i === TIMES || ms <= LONG_MS) return { measured, ms }
  }
}

function createBodies (): readonly Body[] {
  return [
    ...parts.map((part, i): Body => {
      // Both for each part would take half an hour.
      const recipe = { parts: [part], operations: i % 2 === 0 ? 1 : 100 }
      return {
        name: nameOf(recipe), write: share => writeBody(recipe, share), measure: measureBody
      }
    }),
    ...namedParts.map((part): Body => ({
      name: `${part.batch}: ${part.name}`,
      write: share => writeParameters(part, MAX_BODY_BYTES * share),
      measure: body => measureParameters(part.batch, body)
    }))
  ]
}
