/**
 * The pieces scenario: the processor time of the longest piece of work for a body, in which no
 * other request of the process proceeds. Each part of the grammar and of parameters makes a body of
 * the largest size. test/unit/support/hostile.test.ts holds how the time grows.
 */
import { collectGarbage } from '../support/garbage.ts'
import { MAX_BODY_BYTES, nameOf, writeBody } from '../support/hostile/bodies.ts'
import { namedParts } from '../support/hostile/named.ts'
import { parts } from '../support/hostile/parts.ts'
import { writeParameters } from '../support/hostile/requests.ts'
import {
  longestPiece,
  measureBody,
  measureParameters,
  type Measured
} from '../support/hostile/stages.ts'
import { figureFor, type Scenario } from './scenario.ts'

const figure = figureFor(9)

interface Body {
  readonly name: string
  /** Writes the body. All of them together have hundreds of megabytes. */
  readonly write: () => string
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
    const measured = createBodies().map(({ name, write, measure }) => {
      const body = write()
      let ms = Infinity
      for (let i = 0; i < TIMES && ms > LONG_MS; i++) {
        // Otherwise a body would pay for the hundreds of megabytes of those before it.
        collectGarbage()
        ms = Math.min(ms, longestPiece(measure(body)))
      }
      return { name, ms }
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

function createBodies (): readonly Body[] {
  return [
    ...parts.map((part, i): Body => {
      // Both for each part would take half an hour.
      const recipe = { parts: [part], operations: i % 2 === 0 ? 1 : 100 }
      return { name: nameOf(recipe), write: () => writeBody(recipe), measure: measureBody }
    }),
    ...namedParts.map((part): Body => ({
      name: `${part.batch}: ${part.name}`,
      write: () => writeParameters(part, MAX_BODY_BYTES),
      measure: body => measureParameters(part.batch, body)
    }))
  ]
}
