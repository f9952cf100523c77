/**
 * Counts round trips with a proxy between each contender and PostgreSQL: those of a whole batch,
 * after a pause and right after another batch, and those under a lock. Statements are prepared
 * before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { onStage } from '../../scripts/dev/stage.ts'
import { contenders, post, useServer, type Contender } from '../contenders.ts'
import { resetTables, withUrlParts, type Database } from '../database.ts'
import type { Wire } from '../record.ts'
import { makeBody, type Work } from '../requests.ts'
import { useScript } from '../stage.ts'
import { countRoundTrips, readBursts, type Burst } from '../wire.ts'

/** A round trip (ms) that is longer than any contender takes to write one burst. */
const ROUND_TRIP_MS = 20
/** A pause (ms) after which a connection counts as idle, also with the time of a response. */
const PAUSE_MS = 150

interface Sample {
  readonly work: string
  readonly body: string
  readonly keyed?: boolean
}
type Samples = readonly [contender: Contender, samples: readonly Sample[]]

const sample = ({ dialect }: Contender, work: Work): Sample => ({
  work,
  body: makeBody(dialect, work)
})

const single = (contender: Contender, work: Work): Samples =>
  [contender, [sample(contender, work)]]

/** A batch in which each operation refers to the one before it. */
function chain (length: number): Sample {
  const operations = Array.from({ length }, (_, i) =>
    i === 0
      ? { id: 'o0', op: 'insert', table: 'customers', values: [{ name: 'Corner Shop' }] }
      : {
          id: `o${i}`,
          op: 'update',
          table: 'customers',
          set: { name: `$o${i - 1}.0.name` },
          where: { id: { eq: `$o${i - 1}.0.id` } }
        })
  return {
    work: `${length} ${length === 1 ? 'operation' : 'operations, each with references'}`,
    body: JSON.stringify(operations)
  }
}

const withKey = (sample: Sample): Sample => ({
  ...sample,
  work: `${sample.work}, with a key`,
  keyed: true
})

const {
  oneflight,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'postgres.js': postgresJs,
  'order function': orderFunction,
  pg,
  'pg pipelined': pipelined,
  postgraphile
} = contenders

/** The batches of each contender that are counted, in one run of its server. */
const samples: readonly Samples[] = [
  [oneflight, [
    ...[1, 10, 100].map(chain).flatMap(sample => [sample, withKey(sample)]),
    sample(oneflight, 'invoice'),
    sample(oneflight, 'order')
  ]],
  ...[awaits, inBegin, bare].map(contender => single(contender, 'invoice')),
  ...[postgresJs, orderFunction, pg, pipelined].map(contender => single(contender, 'order')),
  single(postgraphile, 'order with ids')
]

/** Matches statements that lock rows, and the functions that contain such statements. */
const locks = /^\s*(with\b.*\b)?(insert|update|delete)\b|number_invoice|place_order/is

/** Counts the batches of these contenders, by default of all. */
export async function countAll (
  database: Database,
  chosen: readonly Contender[] = samples.map(([contender]) => contender)
): Promise<readonly Wire[]> {
  await resetTables(database.sql)
  const counted: Wire[] = []
  for (const [contender, own] of samples.filter(([contender]) => chosen.includes(contender))) {
    counted.push(...await count(contender, own, database))
  }
  return counted
}

/** Starts a server with one connection, recorded from its first byte. */
function count (
  contender: Contender,
  own: readonly Sample[],
  database: Database
): Promise<readonly Wire[]> {
  return onStage(async stage => {
    const proxy = await useScript(stage, 'delay-proxy.ts', {
      args: [database.address, String(ROUND_TRIP_MS), 'record']
    })
    const databaseUrl = withUrlParts(database.url, { host: proxy.hello.url })
    const { url } = await useServer(stage, contender, { databaseUrl, connections: 1 })
    const bursts = async (): Promise<readonly Burst[]> => {
      const recorded: readonly string[] = (await proxy.request({})).bursts
      return readBursts(recorded.map(text => Buffer.from(text, 'base64')))
    }
    /** Returns the number of bursts after a pause in which no data was sent. */
    const countAfterPause = async (): Promise<number> => {
      const { length: before } = await bursts()
      await sleep(PAUSE_MS)
      const { length } = await bursts()
      return length === before ? length : countAfterPause()
    }
    const counted: Wire[] = []
    for (const { work, body, keyed } of own) {
      const send = (): Promise<unknown> => post(url, withNewIds(body), keyed)
      // The first three runs prepare the statements.
      for (let run = 1; run <= 3; run++) await send()
      const before = await countAfterPause()
      await send()
      const between = await countAfterPause()
      await send()
      await send()
      await countAfterPause()
      const all = await bursts()
      const first = countRoundTrips(all.slice(before, between), locks)
      // The first batch of the pair runs after the same pause.
      const second = countRoundTrips(all.slice(between + first.roundTrips), locks)
      counted.push({
        name: contender.name,
        work,
        roundTrips: first.roundTrips,
        afterBatch: second.roundTrips,
        underLock: Math.max(first.underLock, second.underLock)
      })
    }
    return counted
  })
}

/** Returns the body with new ids, so that it can be sent again. */
function withNewIds (body: string): string {
  const ids = new Map<string, string>()
  return body.replace(
    /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g,
    id => ids.get(id) ?? (ids.set(id, crypto.randomUUID()).get(id) as string)
  )
}
