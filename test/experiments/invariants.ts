/**
 * The audit of the storm scenario: compares the responses that clients received with the contents
 * of the database.
 */
import type { QueryClient } from './query-client.ts'
import { ACCOUNTS, BALANCE } from './bank.ts'
import type { Observations } from './crowd.ts'
import type { Poster } from './poster.ts'
import { figureFor, mustBeZero, type Figure } from './scenario.ts'

/** Counts violations. Every figure must be 0. */
export async function audit (
  client: Pick<QueryClient, 'query'>,
  { known, denied, foreign }: Pick<Observations, 'known' | 'denied' | 'foreign'>
): Promise<readonly Figure[]> {
  const [counts] = await client.query(`
    with written as (select batch, count(*) as transfers from entries group by batch),
      closed as (select batch, sum(transfers) as transfers from closings group by batch),
      moved as (
        select id, coalesce(sum(amount), 0) as amount from accounts left join (
          select credit as id, amount from entries union all select debit, -amount from entries
        ) as halves using (id) group by id
      )
    select
      (select sum(balance) - ${ACCOUNTS * BALANCE} from accounts)::float8 as gained,
      (select count(*) from accounts join moved using (id) where balance <> ${BALANCE}
        + amount)::int as unexplained,
      (select count(*) from written full join closed using (batch) where written.transfers
        is distinct from closed.transfers)::int as partial,
      (select count(*) from (select batch from closings group by batch having count(*) > 1)
        as twice)::int as twice,
      (select coalesce(json_agg(distinct batch), '[]')::text from closings) as batches`)
  const applied = new Set(JSON.parse(counts?.['batches'] as string) as number[])
  const count = (...outcomes: readonly string[]): number[] =>
    [...known.keys()].filter(id => outcomes.includes(known[id] as string))
  return [
    mustBeZero(1)('partially applied batches', counts?.['partial'] as number),
    mustBeZero(1, 4)('batches applied twice', counts?.['twice'] as number),
    mustBeZero(1)('money gained or lost', counts?.['gained'] as number),
    mustBeZero(1, 5)('accounts that differ from the ledger', counts?.['unexplained'] as number),
    mustBeZero(2)(
      'batches answered 200 but not in the database',
      count('committed').filter(id => !applied.has(id)).length
    ),
    mustBeZero(3)(
      'batches reported as not committed but in the database',
      count('not committed', 'refused').filter(id => applied.has(id)).length + denied
    ),
    mustBeZero(4)('batches with a key and no final response', count('unanswered').length),
    mustBeZero(4)('batches with a key that were rejected', count('refused').length),
    mustBeZero(5)('responses with rows of another batch', foreign)
  ]
}

/**
 * Sends committed batches again. The response must be 200 with `Idempotent-Replayed: true` and the
 * same bytes.
 */
export async function replay (
  poster: Pick<Poster, 'post'>,
  { kept }: Pick<Observations, 'kept'>
): Promise<readonly Figure[]> {
  const remaining = [...kept]
  let different = 0
  const work = async (): Promise<void> => {
    for (let batch = remaining.pop(); batch !== undefined; batch = remaining.pop()) {
      const response = await poster.post(batch.body, batch.key)
      const isSame = response?.status === 200 && response.replayed && response.text === batch.text
      if (!isSame) different++
    }
  }
  await Promise.all(Array.from({ length: 8 }, work))
  return [
    figureFor(4)('committed batches that were sent again', kept.length),
    mustBeZero(4)('of these, not answered with the same bytes', different)
  ]
}
