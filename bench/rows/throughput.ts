/**
 * Measures batches per second and their processor time: the order without contention and the hot
 * row, each with several round trips.
 */
import { onStage } from '../../scripts/dev/stage.ts'
import { takeTurns, warmUp, type Measure } from '../compare.ts'
import {
  contenders,
  makeSide,
  pgbenchSide,
  useServer,
  type Contender,
  type Side
} from '../contenders.ts'
import { measureRoundTrip, resetTables, useRoute, type Database } from '../database.ts'
import type { Comparison } from '../record.ts'
import type { Work } from '../requests.ts'
import { useScript } from '../stage.ts'

/**
 * Round trips (ms): the same host, the same zone of a cloud, another zone, a farther one, another
 * region.
 */
const ORDER_ROUND_TRIPS = [0, 0.5, 1, 2.5, 10] as const
const HOT_ROW_ROUND_TRIPS = [0, 2, 10] as const
/** Those with which the order is measured as a named batch, too. */
const NAMED_ROUND_TRIPS: readonly number[] = [0, 2.5]
/** Those with which all other peers are measured. */
const PEER_ROUND_TRIPS: readonly number[] = [0, 10]

export interface Match {
  readonly work: Work
  readonly roundTripMs: number
  readonly against: readonly Contender[]
  /** Whether pgbench is included if it is installed. */
  readonly pgbench?: boolean
  /** Whether the tables have triggers, and the function is volatile. */
  readonly guarded?: boolean
}

const {
  oneflight,
  'oneflight with a key': withKey,
  'named batch': named,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'postgres.js': postgresJs,
  'order function': orderFunction,
  'bare order function': bareOrder,
  pg,
  'pg pipelined': pipelined,
  postgraphile
} = contenders

export const hotMatches: readonly Match[] = HOT_ROW_ROUND_TRIPS.map(roundTripMs => ({
  work: 'invoice',
  roundTripMs,
  against: [awaits, inBegin, bare]
}))
export const orderMatches: readonly Match[] = [
  ...ORDER_ROUND_TRIPS.map((roundTripMs): Match => ({
    work: 'order',
    roundTripMs,
    against: [
      ...NAMED_ROUND_TRIPS.includes(roundTripMs) ? [named] : [],
      postgresJs,
      orderFunction,
      ...roundTripMs === 0 ? [pg, withKey] : [],
      ...PEER_ROUND_TRIPS.includes(roundTripMs) ? [pipelined, bareOrder] : []
    ],
    // With a round trip, a slice would mostly measure how pgbench prepares: one client at a time.
    pgbench: roundTripMs === 0
  })),
  ...PEER_ROUND_TRIPS.map((roundTripMs): Match => ({
    work: 'order with ids',
    roundTripMs,
    against: [postgraphile]
  }))
]

export interface Selection {
  readonly roundTripsMs?: readonly number[] | undefined
  /** The keys of contenders, or `pgbench`. */
  readonly against?: readonly string[] | undefined
}

/** Returns the matches with these round trips against these contenders, by default all. */
export function selectMatches (
  matches: readonly Match[],
  { roundTripsMs, against }: Selection
): readonly Match[] {
  const chosen = Object.entries(contenders).flatMap(([key, contender]) =>
    against === undefined || against.includes(key) ? [contender as Contender] : []
  )
  return matches.filter(({ roundTripMs }) => roundTripsMs?.includes(roundTripMs) ?? true)
    .map(match => ({
      ...match,
      against: match.against.filter(contender => chosen.includes(contender)),
      pgbench: match.pgbench === true && (against?.includes('pgbench') ?? true)
    }))
    .filter(({ against, pgbench }) => against.length > 0 || pgbench)
}

/** Starts the contenders of a match, measures them and stops them. */
export function play (
  { work, roundTripMs, against, pgbench = false, guarded = false }: Match,
  database: Database,
  measure: Measure
): Promise<Comparison> {
  return onStage(async stage => {
    await database.sql`call switch_code(${guarded})`
    await resetTables(database.sql)
    const load = await useScript(stage, 'load.ts', { sendsHello: false })
    const { url, slow } = await useRoute(stage, database, roundTripMs)
    const workload = { work, sql: database.sql, pid: database.pid }
    const started = await Promise.all([oneflight, ...against].map(async contender => ({
      contender,
      server: await useServer(stage, contender, { databaseUrl: url })
    })))
    const sides: Side[] = []
    for (const { contender, server } of started) {
      sides.push(await makeSide(contender, { server, load, work }))
    }
    const withoutService = pgbench ? pgbenchSide(url) : undefined
    if (withoutService !== undefined) sides.push(withoutService)
    await warmUp(sides, workload, measure)
    await slow(true)
    return {
      work,
      roundTripMs,
      ...guarded && { guarded },
      measuredRoundTripMs: await measureRoundTrip(url),
      contenders: await takeTurns(sides, workload, measure)
    }
  })
}
