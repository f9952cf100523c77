/**
 * Counts round trips with a proxy between each contender and PostgreSQL: those of a whole batch,
 * and those under a lock. Statements are prepared before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { contenders, post, useServer, type Contender } from '../contenders.ts'
import { resetTables, withUrlParts, type Database } from '../database.ts'
import type { Wire } from '../record.ts'
import { makeBody, type Work } from '../requests.ts'
import { onStage } from '../../src/dev/stage.ts'
import { useScript } from '../stage.ts'
import { countRoundTrips, readBursts, type Burst } from '../wire.ts'

/** A round trip (ms) that is longer than any contender takes to write one burst. */
const ROUND_TRIP_MS = 20

interface Sample {
  readonly work: string
  readonly body: string
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

const {
  oneflight,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'postgres.js': postgresJs,
  'order function': orderFunction,
  pg,
  postgraphile
} = contenders

/** The batches of each contender that are counted, in one run of its server. */
const samples: readonly Samples[] = [
  [oneflight, [
    ...[1, 10, 100].map(chain),
    sample(oneflight, 'invoice'),
    sample(oneflight, 'order')
  ]],
  ...[awaits, inBegin, bare].map(contender => single(contender, 'invoice')),
  ...[postgresJs, orderFunction, pg].map(contender => single(contender, 'order')),
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
    /** Returns the number of bursts once no more data is sent, also after the response. */
    const countWhenIdle = async (known = -1): Promise<number> => {
      const { length } = await bursts()
      await sleep(3 * ROUND_TRIP_MS)
      return length === known ? length : countWhenIdle(length)
    }
    const counted: Wire[] = []
    for (const { work, body } of own) {
      // The first run prepares the statements.
      await post(url, withNewIds(body))
      await post(url, withNewIds(body))
      const before = await countWhenIdle()
      await post(url, withNewIds(body))
      await countWhenIdle()
      counted.push({
        name: contender.name,
        work,
        ...countRoundTrips((await bursts()).slice(before), locks)
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
