/**
 * Runs the short form of a scenario as a test.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { skip } from '../support/database/restartable-server.ts'
import { isReached, seeded, type Scenario } from './scenario.ts'

export const seed = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/** Only counts must reach their goals: times and ratios depend on the load of the machine. */
export function testShortForm ({ name, run }: Scenario): void {
  t.test(skip === false ? name : `${name} (skipped: ${skip})`, { skip }, async t => {
    t.comment(`SEED=${seed}`)
    const figures = await run(t, {
      long: false,
      random: seeded(seed),
      log: text => t.comment(text)
    })
    for (const figure of figures.filter(({ unit }) => unit === '')) {
      t.ok(isReached(figure), `${figure.name}: ${figure.value}`, { figure, seed })
    }
  })
}
