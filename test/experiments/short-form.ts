/**
 * Runs the short form of a scenario as a test.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { skip } from '../support/database/restartable-server.ts'
import { isReached, seeded, type Figure, type Scenario } from './scenario.ts'

export const seed = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/**
 * Figures of these units must reach their goals. By default only counts: times and most ratios
 * depend on the load of the machine.
 */
export function testShortForm (
  { name, run }: Scenario,
  units: ReadonlyArray<Figure['unit']> = ['']
): void {
  t.test(skip === false ? name : `${name} (skipped: ${skip})`, { skip }, async t => {
    t.comment(`SEED=${seed}`)
    const figures = await run(t, {
      long: false,
      random: seeded(seed),
      log: text => t.comment(text)
    })
    for (const figure of figures.filter(({ unit }) => units.includes(unit))) {
      t.ok(isReached(figure), `${figure.name}: ${figure.value}`, { figure, seed })
    }
  })
}
