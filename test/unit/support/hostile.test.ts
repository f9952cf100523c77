/**
 * Tests that hostile bodies contain every word of the language, and that the time for a body grows
 * no faster than n log n with each of its parts.
 */
import t, { type Test } from 'tap'
import { casts } from '../../../schemas/cast.ts'
import { modifiers } from '../../../schemas/modifier.ts'
import {
  operations,
  InsertSource,
  JoinedSource,
  NestedRead,
  OnConflict
} from '../../../schemas/operation.ts'
import { operators } from '../../../schemas/operator.ts'
import { Failure } from '../../../src/errors/catalogue.ts'
import { seeded } from '../../experiments/scenario.ts'
import { nameOf, writeBody, type Recipe } from '../../support/hostile/bodies.ts'
import { writeOperation } from '../../support/hostile/draft.ts'
import { partGroups, parts } from '../../support/hostile/parts.ts'
import { measureBody, type Measured } from '../../support/hostile/stages.ts'
import { propertyRuns } from '../../support/runs.ts'

t.test('hostile bodies contain every word of the language', async t => {
  const bodies = parts.flatMap(({ frames, make }) =>
    frames.map(frame => writeOperation('o', frame, [make(16)]))).join('\n')
  const members = [...Object.values(operations), OnConflict, InsertSource, JoinedSource, NestedRead]
    .flatMap(({ properties }) => Object.keys(properties))
  const words = [
    ...members,
    ...Object.keys(operators),
    ...Object.keys(modifiers),
    'and', 'or', 'not', 'exists', 'not_exists', 'any', 'all', 'query', 'config', 'min', 'max'
  ]
  for (const word of new Set(words)) t.ok(bodies.includes(`"${word}":`), word)
  for (const word of Object.keys(casts)) t.ok(bodies.includes(`"cast":"${word}"`), word)
})

/** Bytes of the bodies that are compared. */
const SIZES = [10_000, 40_000] as const
/** Shorter pieces are not compared: compiling code takes about as long. */
const MIN_MS = 20
/** Linear time takes 4 times as long, quadratic time 16 times. */
const MAX_GROWTH = 9

/**
 * Checks how many times longer the larger body takes: the least of several measurements, because
 * other processes share the processor and its caches.
 */
function checkGrowth (t: Test, name: string, measure: (bytes: number) => Measured): void {
  let least = Infinity
  for (let i = 0; i < 4 && least > MAX_GROWTH; i++) {
    const [small, large] = SIZES.map(measure) as [Measured, Measured]
    if (i === 0) checkFailure(t, large, name)
    const ms = large.longestMs
    least = Math.min(least, ms < MIN_MS ? 0 : ms / Math.max(small.longestMs, 1))
  }
  t.ok(least <= MAX_GROWTH, `${name}: ${least.toFixed(1)}`)
}

/** A hostile body may be refused, but it is no fault of the service. */
function checkFailure (t: Test, { failure }: Measured, name: string): void {
  if (failure === undefined) return
  t.type(failure, Failure, name)
  t.ok((failure as Failure).status < 500, name)
}

t.test('the time for a body grows no faster than n log n', { timeout: 120_000 }, async t => {
  const seed = Number(process.env['SEED'] ?? 1)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const choose = <Item>(list: readonly Item[]): Item =>
    list[Math.floor(random() * list.length)] as Item
  // Each group of parts alone, in one operation and in many, and beside any other.
  const recipes = partGroups.flatMap((group): readonly Recipe[] => [
    ...Array.from({ length: propertyRuns(2, 4) }, () =>
      ({ parts: [choose(group)], operations: choose([1, 100]) })),
    { parts: [choose(group), choose(choose(partGroups))], operations: 1 }
  ])
  for (const recipe of recipes) {
    checkGrowth(t, nameOf(recipe), bytes => measureBody(writeBody(recipe, 1, bytes)))
  }
})
