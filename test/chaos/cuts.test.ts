/**
 * The cuts in their short form: each fault of the wire at least once, then the same audit as in the
 * long one. In charge of failing when a count misses its goal.
 */
import t from 'tap'
import { cuts } from './cuts.ts'
import { embeddedMajor } from './own-server.ts'
import { counts, isReached, seeded } from './scenario.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

t.test('the wire is cut, silent, slow', {
  skip: embeddedMajor === undefined ? 'no embedded PostgreSQL for this platform' : false
}, async t => {
  t.comment(`SEED=${seed}`)
  const figures = await cuts.run({
    long: false,
    random: seeded(seed),
    say: text => t.comment(text)
  })
  for (const figure of counts(figures)) {
    t.ok(isReached(figure), `${figure.name}: ${figure.value}`, { figure, seed })
  }
})
