/**
 * The storm in its short form: every kind of kill at least once, then the same audit as in the long
 * one. In charge of failing when a count misses its goal, and of the audit itself: that it sees
 * what is wrong when something is.
 */
import t from 'tap'
import { ensureRoles, useDatabase } from '../support/database/database.ts'
import { makeTransfer, schema } from './bank.ts'
import type { Knowledge } from './crowd.ts'
import { audit, replay } from './invariants.ts'
import { embeddedMajor, ROLE } from './own-server.ts'
import { counts, isReached, seeded, type Figure } from './scenario.ts'
import { storm } from './storm.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

// Some fifteen seconds on a machine that does nothing else; five servers are started, and on a busy
// one each takes its time.
t.setTimeout(300_000)

t.test('the storm', {
  skip: embeddedMajor === undefined ? 'no embedded PostgreSQL for this platform' : false
}, async t => {
  t.comment(`SEED=${seed}`)
  const figures = await storm.run({
    long: false,
    random: seeded(seed),
    say: text => t.comment(text)
  })
  for (const figure of counts(figures).filter(({ goal }) => goal !== undefined)) {
    t.ok(isReached(figure), `${figure.name}: ${figure.value}`, { figure, seed })
  }
})

const wrong = (figures: readonly Figure[]): object =>
  Object.fromEntries(
    figures.filter(figure => !isReached(figure)).map(({ name, value }) => [name, value])
  )

t.test('the audit sees what is wrong', async t => {
  await ensureRoles([ROLE])
  const { sql } = await useDatabase(t, { schema })
  const asker = { ask: (text: string) => sql.unsafe(text) }
  const judge = async (
    known: readonly Knowledge[],
    told = { denied: 0, foreign: 0 }
  ): Promise<object> => wrong(await audit(asker, { known: [...known], ...told }))
  const move = (batch: number) =>
    sql`
    with entry as (insert into entries (batch, debit, credit, amount) values (${batch}, 1, 2, 5)),
      closing as (insert into closings values (${batch}, 1, 1))
    update accounts set balance = balance + case id when 1 then -5 else 5 end where id in (1, 2)`

  t.same(await judge([]), {})
  await move(0)
  t.same(await judge(['committed', 'not committed', 'unknown']), {})
  t.same(await judge(['not committed', 'committed']), {
    'batches answered 200 that are not there': 1,
    'batches said not to be committed that are there': 1
  })
  t.same(await judge(['refused', 'refused', 'unanswered']), {
    'batches said not to be committed that are there': 1,
    'batches with a key that were refused': 2,
    'batches with a key without a final answer': 1
  })
  t.same(await judge(['committed'], { denied: 1, foreign: 2 }), {
    'batches said not to be committed that are there': 1,
    'answers with rows of another batch': 2
  })
  await move(0)
  t.same(await judge(['committed']), { 'batches applied twice': 1 })
  await sql`delete from closings where ctid = (select min(ctid) from closings)`
  t.same(await judge(['committed']), { 'batches applied in part': 1 })
  await sql`delete from entries where n = 1`
  t.same(await judge(['committed']), { 'accounts that differ from the ledger': 2 })
  await sql`update accounts set balance = balance - 5 where id = 2`
  t.same(await judge(['committed']), {
    'money gained or lost': -5,
    'accounts that differ from the ledger': 1
  })
})

t.test('a replay that differs is wrong', async t => {
  const text = 'the first answer'
  const judge = async (
    answer: Awaited<ReturnType<Parameters<typeof replay>[0]['post']>>
  ): Promise<object> =>
    wrong(await replay({ post: async () => answer }, { kept: [{ key: 'k', body: '[]', text }] }))
  const found = { 'of them not answered with the same bytes': 1 }
  t.same(await judge({ status: 200, replayed: true, text }), {})
  t.same(await judge({ status: 200, replayed: false, text }), found)
  t.same(await judge({ status: 200, replayed: true, text: `${text} ` }), found)
  t.same(await judge({ status: 409, replayed: true, text }), found)
  t.same(await judge(undefined), found)
})

t.test('a seed makes the same batches', async t => {
  const make = (seed: number): string =>
    JSON.stringify(Array.from({ length: 50 }, (_, i) => makeTransfer(i, seeded(seed + i))))
  t.equal(make(1), make(1))
  t.not(make(1), make(2))
})
