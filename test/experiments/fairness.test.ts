/**
 * Runs the short form of the scenario: a few requests, briefly.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { fairness } from './fairness.ts'
import { embeddedMajor } from './own-server.ts'
import { counts, isReached, seeded } from './scenario.ts'

const skip = embeddedMajor === undefined ? 'no embedded PostgreSQL for this platform' : false

t.test(`fairness${skip === false ? '' : ` (skipped: ${skip})`}`, { skip }, async t => {
  const seed = Number(process.env['SEED'] ?? randomInt(2 ** 31))
  t.comment(`SEED=${seed}`)
  const figures = await fairness.run({
    long: false,
    random: seeded(seed),
    log: text => t.comment(text)
  })
  for (const figure of counts(figures)) {
    t.ok(isReached(figure), `${figure.name}: ${figure.value} ${figure.unit}`)
  }
})
