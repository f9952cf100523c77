/**
 * Runs the short form of the scenario: every kind of kill at least once, then the full audit. Also
 * tests that the audit detects violations.
 */
import t from 'tap'
import { useDatabase } from '../support/database/database.ts'
import { schema } from './bank.ts'
import type { KnownOutcome } from './crowd.ts'
import { audit, replay } from './invariants.ts'
import { isReached, type Figure } from './scenario.ts'
import { testShortForm } from './short-form.ts'
import { storm } from './storm.ts'

// About 15 s on an idle machine. The scenario starts five servers, which takes longer on a busy
// machine.
t.setTimeout(300_000)

testShortForm(storm)

const missedGoals = (figures: readonly Figure[]): object =>
  Object.fromEntries(
    figures.filter(figure => !isReached(figure)).map(({ name, value }) => [name, value])
  )

t.test('the audit detects violations', async t => {
  const { sql } = await useDatabase(t, { schema })
  const client = { query: (text: string) => sql.unsafe(text) }
  const violations = async (
    known: readonly KnownOutcome[],
    counted = { denied: 0, foreign: 0 }
  ): Promise<object> => missedGoals(await audit(client, { known: [...known], ...counted }))
  const transfer = (batch: number) =>
    sql`
    with entry as (insert into entries (batch, debit, credit, amount) values (${batch}, 1, 2, 5)),
      closing as (insert into closings values (${batch}, 1, 1))
    update accounts set balance = balance + case id when 1 then -5 else 5 end where id in (1, 2)`

  t.same(await violations([]), {})
  await transfer(0)
  t.same(await violations(['committed', 'not committed', 'unknown']), {})
  t.same(await violations(['not committed', 'committed']), {
    'batches answered 200 but not in the database': 1,
    'batches reported as not committed but in the database': 1
  })
  t.same(await violations(['refused', 'refused', 'unanswered']), {
    'batches reported as not committed but in the database': 1,
    'batches with a key that were rejected': 2,
    'batches with a key and no final response': 1
  })
  t.same(await violations(['committed'], { denied: 1, foreign: 2 }), {
    'batches reported as not committed but in the database': 1,
    'responses with rows of another batch': 2
  })
  await transfer(0)
  t.same(await violations(['committed']), { 'batches applied twice': 1 })
  await sql`delete from closings where ctid = (select min(ctid) from closings)`
  t.same(await violations(['committed']), { 'partially applied batches': 1 })
  await sql`delete from entries where n = 1`
  t.same(await violations(['committed']), { 'accounts that differ from the ledger': 2 })
  await sql`update accounts set balance = balance - 5 where id = 2`
  t.same(await violations(['committed']), {
    'money gained or lost': -5,
    'accounts that differ from the ledger': 1
  })
})

t.test('a replay that differs from the first response is a violation', async t => {
  const text = 'the first response'
  const violations = async (
    response: Awaited<ReturnType<Parameters<typeof replay>[0]['post']>>
  ): Promise<object> => {
    const kept = [{ key: 'k', body: '[]', text }]
    return missedGoals(await replay({ post: async () => response }, { kept }))
  }
  const violation = { 'of these, not answered with the same bytes': 1 }
  t.same(await violations({ status: 200, replayed: true, text }), {})
  t.same(await violations({ status: 200, replayed: false, text }), violation)
  t.same(await violations({ status: 200, replayed: true, text: `${text} ` }), violation)
  t.same(await violations({ status: 409, replayed: true, text }), violation)
  t.same(await violations(undefined), violation)
})
