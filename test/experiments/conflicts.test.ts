/**
 * Runs the short form of the scenario: 400 batches in each load.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { conflicts } from './conflicts.ts'
import { embeddedMajor } from './own-server.ts'
import { isReached, seeded } from './scenario.ts'

const skip = embeddedMajor === undefined ? 'no embedded PostgreSQL for this platform' : false

t.test(`conflicts${skip === false ? '' : ` (skipped: ${skip})`}`, { skip }, async t => {
  const seed = Number(process.env['SEED'] ?? randomInt(2 ** 31))
  t.comment(`SEED=${seed}`)
  const figures = await conflicts.run({
    long: false,
    random: seeded(seed),
    log: text => t.comment(text)
  })
  for (const figure of figures) {
    t.ok(isReached(figure), `${figure.name}: ${figure.value} ${figure.unit}`)
  }
})
