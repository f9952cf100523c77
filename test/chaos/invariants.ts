/**
 * What must hold after a storm, whatever died in it: the books balance, and every answer was true.
 *
 * In charge of: holding what clients were told against what the database holds.
 * Refuses to: repair anything, or to know what the faults were.
 */
import type { Asker } from './asker.ts'
import { ACCOUNTS, BALANCE } from './bank.ts'
import type { Told } from './crowd.ts'
import type { Poster } from './poster.ts'
import type { Figure } from './scenario.ts'

/** Counts of what must not be, each a figure that must be 0. */
export async function audit (
  asker: Pick<Asker, 'ask'>,
  { known, denied, foreign }: Pick<Told, 'known' | 'denied' | 'foreign'>
): Promise<readonly Figure[]> {
  const [books] = await asker.ask(`
    with written as (select batch, count(*) as legs from entries group by batch),
      closed as (select batch, sum(legs) as legs from closings group by batch),
      moved as (
        select id, coalesce(sum(amount), 0) as amount from accounts left join (
          select credit as id, amount from entries union all select debit, -amount from entries
        ) as halves using (id) group by id
      )
    select
      (select sum(balance) - ${ACCOUNTS * BALANCE} from accounts)::float8 as gained,
      (select count(*) from accounts join moved using (id) where balance <> ${BALANCE}
        + amount)::int as unexplained,
      (select count(*) from written full join closed using (batch) where written.legs is distinct
        from closed.legs)::int as partial,
      (select count(*) from (select batch from closings group by batch having count(*) > 1)
        as twice)::int as twice,
      (select coalesce(json_agg(distinct batch), '[]')::text from closings) as batches`)
  const there = new Set(JSON.parse(books?.['batches'] as string) as number[])
  const count = (...knowledge: readonly string[]): number[] =>
    [...known.keys()].filter(id => knowledge.includes(known[id] as string))
  const none = (name: string, value: number, promises: readonly number[]): Figure => ({
    name,
    value: Number(value),
    unit: '',
    goal: { exactly: 0 },
    promises
  })
  return [
    none('batches applied in part', books?.['partial'] as number, [1]),
    none('batches applied twice', books?.['twice'] as number, [1, 4]),
    none('money gained or lost', books?.['gained'] as number, [1]),
    none('accounts that differ from the ledger', books?.['unexplained'] as number, [1, 5]),
    none(
      'batches answered 200 that are not there',
      count('committed').filter(id => !there.has(id)).length,
      [2]
    ),
    none(
      'batches said not to be committed that are there',
      count('not committed', 'refused').filter(id => there.has(id)).length + denied,
      [3]
    ),
    none('batches with a key without a final answer', count('unanswered').length, [4]),
    none('batches with a key that were refused', count('refused').length, [4]),
    none('answers with rows of another batch', foreign, [5])
  ]
}

/**
 * Sends batches that are through once more: 200, `Idempotent-Replayed: true` and the same bytes, or
 * it counts as wrong.
 */
export async function replay (
  poster: Pick<Poster, 'post'>,
  { kept }: Pick<Told, 'kept'>
): Promise<readonly Figure[]> {
  const left = [...kept]
  let wrong = 0
  const work = async (): Promise<void> => {
    for (let batch = left.pop(); batch !== undefined; batch = left.pop()) {
      const answer = await poster.post(batch.body, batch.key)
      if (answer?.status !== 200 || !answer.replayed || answer.text !== batch.text) wrong++
    }
  }
  await Promise.all(Array.from({ length: 8 }, work))
  return [
    { name: 'finished batches that were sent again', value: kept.length, unit: '', promises: [4] },
    {
      name: 'of them not answered with the same bytes',
      value: wrong,
      unit: '',
      goal: { exactly: 0 },
      promises: [4]
    }
  ]
}
