/**
 * The goals for overload. `npm run test:chaos overload` measures their figures, so that they are
 * taken from its record and not measured twice.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figuresFile, readFigures, type FaultRecord } from '../test/promises.ts'
import type { Goal } from './goals.ts'
import { spreadOf, type Spread } from './record.ts'

/** Returns the goals for overload, which the chaos harness measures. */
export function overloadGoals (record = readFaults()): readonly Goal[] {
  const figures = record.figures.filter(({ scenario }) => scenario === 'overload')
  const worst = (name: RegExp, choose: (...values: number[]) => number): Spread | undefined => {
    const values = figures.filter(figure => name.test(figure.name)).map(({ value }) => value)
    return values.length === 0 ? undefined : spreadOf([choose(...values)])
  }
  const run = `\`test:chaos overload\`, ${record.date.slice(0, 10)} at ${
    record.commit.slice(0, 7)
  }`
  const goodput = worst(/^goodput .*limited by CPU/, Math.min)
  return [
    {
      work: 'overload on scarce CPU, goodput',
      against: `capacity, ${run}`,
      figure: goodput && spreadOf([goodput.median * 100]),
      unit: ' %',
      atLeast: 90
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

function readFaults (): FaultRecord {
  return readFigures(readFileSync(join(import.meta.dirname, '..', figuresFile), 'utf8'))
}
