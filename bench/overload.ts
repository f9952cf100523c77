/**
 * The goals for overload. `npm run test:chaos overload` measures their figures, so that they are
 * taken from its record and not measured twice.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figuresFile, readFigures, type ScenarioRun } from '../test/promises.ts'
import type { Goal } from './goals.ts'
import { spreadOf, type Spread } from './record.ts'

/** Returns the goals for overload, which the chaos harness measures. */
export function overloadGoals (overload = readOverload()): readonly Goal[] {
  const worst = (name: RegExp, choose: (...values: number[]) => number): Spread | undefined => {
    const figures = overload?.figures.filter(figure => name.test(figure.name)) ?? []
    return figures.length === 0
      ? undefined
      : spreadOf([choose(...figures.map(({ value }) => value))])
  }
  const origin = overload && `, ${overload.date.slice(0, 10)} at ${overload.commit.slice(0, 7)}`
  const run = `\`test:chaos overload\`${origin ?? ''}`
  const goodput = worst(/^goodput .*limited by CPU/, Math.min)
  return [
    {
      work: 'overload on scarce CPU, goodput',
      against: `capacity, ${run}`,
      figure: goodput && spreadOf([goodput.median * 100]),
      unit: ' %',
      atLeast: 85
    },
    {
      work: 'overload, 99th percentile of refusals',
      against: run,
      figure: worst(/^response time of rejections/, Math.max),
      unit: ' ms',
      atMost: 50
    }
  ]
}

function readOverload (): ScenarioRun | undefined {
  return readFigures(readFileSync(join(import.meta.dirname, '..', figuresFile), 'utf8')).find(
    ({ scenario }) => scenario === 'overload'
  )
}
