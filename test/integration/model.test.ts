/**
 * Random batches against a model: the service must answer the same rows, leave the same tables, or
 * fail the same way as its operations do in plain SQL, one after the other. `PROPERTY_RUNS=5000`
 * runs more of them, `SEED=n` the same ones again.
 */
import fc from 'fast-check'
import t from 'tap'
import {
  arbitraryTrial,
  modelReset,
  modelSchema,
  type Trial
} from '../support/model/arbitrary-batch.ts'
import { useDatabase } from '../support/database/database.ts'
import { runModel, type Outcome } from '../support/model/model.ts'
import { propertyRuns } from '../support/runs.ts'
import { useService, type Answer } from '../support/service.ts'

const runs = propertyRuns(100, 400)
const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

/**
 * Both transactions have their own now(); everything that the tables begin with and batches name is
 * older.
 */
const withoutNow = (text: string): string =>
  text.replaceAll(/20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)/g, 'now')

/** The members of an answer's `data` as texts, each with the texts of its rows. */
function rowsOf (text: string): ReadonlyMap<string, readonly string[] | string> {
  const data = text.slice('{"error":null,"data":{'.length, -2)
  return new Map(
    split(data).map(member => {
      const colon = member.indexOf(':')
      const value = member.slice(colon + 1)
      return [
        JSON.parse(member.slice(0, colon)) as string,
        value.startsWith('[') ? split(value.slice(1, -1)).map(row => row.trim()) : value
      ]
    })
  )
}

/** JSON texts between commas that stand in no brackets and no string. */
function split (text: string): readonly string[] {
  const parts: string[] = []
  let depth = 0
  let start = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    if (token === '[' || token === '{') depth++
    else if (token === ']' || token === '}') depth--
    else if (token === ',' && depth === 0) {
      parts.push(text.slice(start, index))
      start = index + 1
    }
  }
  return text.trim() === '' ? [] : [...parts, text.slice(start)]
}

/** How an answer differs from what was to come; undefined when it does not. */
function difference (
  { status, text, body }: Answer,
  outcome: Exclude<Outcome, { kind: 'open' }>,
  { operations, prefer }: Trial
): object | undefined {
  if (outcome.kind === 'refused') {
    const { code, sqlstate = code, op, index: at } = body.error ?? {}
    const right = outcome.refusals.some(({ code, index }) =>
      code === sqlstate && at === index && op === (index === null ? null : `o${index}`)
    )
    return right ? undefined : { expected: outcome.refusals, got: `${status} ${text}` }
  }
  if (status !== 200) return { expected: 'success', got: `${status} ${text}` }
  const answered = rowsOf(text)
  for (const [index, { texts, ordered }] of outcome.results.entries()) {
    const { id, returning } = operations[index] as Trial['operations'][number]
    const got = answered.get(id)
    const want = prefer['return'] === 'minimal'
      ? String(texts.length)
      : (returning as unknown[] | undefined)?.length === 0
          ? []
          : texts
    const [a, b] = [got, want].map(rows =>
      withoutNow(JSON.stringify(typeof rows === 'object' && !ordered ? rows.toSorted() : rows))
    )
    if (a !== b) return { id, ordered, expected: want, got }
  }
  return answered.size === outcome.results.length
    ? undefined
    : { expected: outcome.results.length, got: [...answered.keys()] }
}

t.setTimeout(30_000 + runs * 100)

t.test('property: a batch does what its operations do one after the other in plain SQL', {
  timeout: 30_000 + runs * 100
}, async t => {
  const service = await useService(t, { schema: modelSchema })
  const { sql: plain } = await useDatabase(t, { schema: modelSchema })
  const sides = [service.database.sql, plain] as const
  const dump =
    `select string_agg(row, E'\\n' order by row) as rows from (select 'shelves ' || to_json(s)
      as row from shelves as s
    union all select 'boxes ' || to_json(b) from boxes as b union all select 'links ' || to_json(l)
      from links as l) as all_rows`
  const seen: Record<string, number> = {}
  const count = (what: string): void => {
    seen[what] = (seen[what] ?? 0) + 1
  }
  await fc.assert(
    fc.asyncProperty(arbitraryTrial, async trial => {
      await Promise.all(sides.map(sql => sql.unsafe(modelReset)))
      const outcome = await runModel(plain, trial)
      count(outcome.kind)
      if (outcome.kind === 'open') return
      const prefer = Object.entries(trial.prefer).map(([name, value]) => `${name}=${value}`).join(
        ', '
      )
      const answer = await service.post(JSON.stringify(trial.operations), {
        headers: prefer === '' ? {} : { prefer }
      })
      const found = difference(answer, outcome, trial)
      if (found !== undefined) {
        throw new Error(
          `${JSON.stringify(found)}\nPrefer: ${prefer}\n${JSON.stringify(trial.operations)}`
        )
      }
      const [a, b] = (await Promise.all(sides.map(sql => sql.unsafe(dump)))).map(([all]) =>
        withoutNow(String(all?.['rows']))
      )
      if (a !== b) {
        throw new Error(
          `the tables differ: ${a} and not ${b}\nPrefer: ${prefer}\n${
            JSON.stringify(trial.operations)
          }`
        )
      }
      if (outcome.kind === 'done') trial.operations.forEach(({ op }) => count(op))
      else count(String(outcome.refusals[0]?.code))
    }),
    { numRuns: runs, seed }
  )
  t.comment(JSON.stringify(seen))
  t.ok((seen['done'] ?? 0) > runs / 4, `${seen['done']} of ${runs} batches succeeded`)
  t.ok((seen['refused'] ?? 0) > runs / 20, `${seen['refused']} were refused`)
  t.ok((seen['open'] ?? 0) < runs / 4, `${seen['open'] ?? 0} had no answer of their own`)
})
