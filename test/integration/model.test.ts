/**
 * Random batches against a model, which runs the same operations one by one in plain SQL. Both must
 * return the same rows and leave the same tables, or fail in the same way. `PROPERTY_RUNS=5000`
 * sets the number of batches, `SEED=n` repeats a run.
 */
import fc from 'fast-check'
import t from 'tap'
import { arbitraryTrial, type Trial } from '../support/model/arbitrary-batch.ts'
import { useDatabase } from '../support/database/database.ts'
import { runModel } from '../support/model/model.ts'
import { withOtherValues } from '../support/model/other-values.ts'
import type { Outcome } from '../support/model/outcome.ts'
import { modelReset, modelSchema } from '../support/model/tables.ts'
import { propertyRuns } from '../support/runs.ts'
import { useService, type Answer } from '../support/service.ts'

const runs = propertyRuns(60, 200)
const isOneByOne = process.env['TEST_MODE'] === 'one-by-one'
/** One by one, another of several errors can be reported: there the batches are always the same. */
const seed = Number(process.env['SEED'] ?? (isOneByOne ? 591_936_729 : Date.now() % 2 ** 31))

/**
 * Replaces the values of now(), which differ between the two transactions. All other timestamps, in
 * the tables and in the batches, are before 2025.
 */
const withoutNow = (text: string): string =>
  text.replaceAll(/20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)/g, 'now')

/** The members of `data` in a response: the text of a count, or the texts of the rows. */
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

/** Splits JSON text at the commas outside of brackets and strings. */
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

/** How a response differs from the expected outcome, or undefined if it does not. */
function difference (
  { status, text, body }: Answer,
  outcome: Exclude<Outcome, { kind: 'open' }>,
  { operations, prefer }: Trial
): object | undefined {
  if (outcome.kind === 'refused') {
    const { code, sqlstate = code, op, index: at } = body.error ?? {}
    const matches = outcome.refusals.some(({ code, index }) =>
      code === sqlstate && at === index && op === (index === null ? null : `o${index}`)
    )
    return matches ? undefined : { expected: outcome.refusals, got: `${status} ${text}` }
  }
  if (status !== 200) return { expected: 'success', got: `${status} ${text}` }
  const results = rowsOf(text)
  for (const [index, { texts, ordered, skipped = false }] of outcome.results.entries()) {
    const { id, returning, answer } = operations[index] as Trial['operations'][number]
    const got = results.get(id)
    const want = skipped
      ? 'null'
      : prefer['return'] === 'minimal' || answer === 'count'
        ? String(texts.length)
        : (returning as unknown[] | undefined)?.length === 0
            ? []
            : texts
    const [a, b] = [got, want].map(rows =>
      withoutNow(JSON.stringify(typeof rows === 'object' && !ordered ? rows.toSorted() : rows)))
    if (a !== b) return { id, ordered, expected: want, got }
  }
  return results.size === outcome.results.length
    ? undefined
    : { expected: outcome.results.length, got: [...results.keys()] }
}

/**
 * Whether an operation may be skipped that the transaction does not allow. One by one it is not
 * sent then, so it does not fail.
 */
function dependsOnSkipped ({ operations, prefer }: Trial): boolean {
  return 'access' in prefer && operations.some(operation => 'when' in operation)
}

const timeout = 60_000 + runs * 200
t.setTimeout(timeout)

t.test('property: a batch equals its operations run one by one in plain SQL', {
  timeout
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
  const count = (name: string): void => {
    seen[name] = (seen[name] ?? 0) + 1
  }
  await fc.assert(
    fc.asyncProperty(arbitraryTrial, async trial => {
      fc.pre(!isOneByOne || !dependsOnSkipped(trial))
      // The batch then finds the plan of its shape.
      await service.post(JSON.stringify(withOtherValues(trial.operations)), {
        headers: { prefer: 'tx=rollback' }
      })
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
        withoutNow(String(all?.['rows'])))
      if (a !== b) {
        throw new Error(
          `the tables differ: got ${a}, expected ${b}\nPrefer: ${prefer}\n${
            JSON.stringify(trial.operations)
          }`
        )
      }
      if (outcome.kind === 'done') {
        trial.operations.forEach(({ op }) => count(op))
        outcome.results.forEach(({ skipped = false }) => count(skipped ? 'skipped' : 'ran'))
      } else count(String(outcome.refusals[0]?.code))
    }),
    { numRuns: runs, seed }
  )
  t.comment(JSON.stringify(seen))
  t.ok((seen['done'] ?? 0) > runs / 4, `${seen['done']} of ${runs} batches succeeded`)
  t.ok((seen['skipped'] ?? 0) > runs / 100, `${seen['skipped']} operations were skipped`)
  t.ok((seen['refused'] ?? 0) > runs / 20, `${seen['refused']} were rejected`)
  t.ok((seen['open'] ?? 0) < runs / 4, `${seen['open'] ?? 0} had no defined outcome`)
})
