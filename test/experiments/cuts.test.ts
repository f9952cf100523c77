/**
 * Runs the short form of the scenario: every network fault at least once, then the full audit.
 */
import t from 'tap'
import { cuts } from './cuts.ts'
import { embeddedMajor } from './own-server.ts'
import { counts, isReached, seeded } from './scenario.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

t.test('responses are true when the database connection is cut, silent or slow', {
  skip: embeddedMajor === undefined ? 'no embedded PostgreSQL for this platform' : false
}, async t => {
  t.comment(`SEED=${seed}`)
  const figures = await cuts.run({
    long: false,
    random: seeded(seed),
    log: text => t.comment(text)
  })
  for (const figure of counts(figures)) {
    t.ok(isReached(figure), `${figure.name}: ${figure.value}`, { figure, seed })
  }
})
