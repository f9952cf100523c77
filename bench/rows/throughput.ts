/**
 * Measures batches per second: the order without contention and the hot row, each with several
 * round trips.
 */
import { takeTurns, warmUp, type Measure } from '../compare.ts'
import { contenders, pgbenchSide, useSide, type Contender, type Side } from '../contenders.ts'
import { measureRoundTrip, resetTables, useRoute, type Database } from '../database.ts'
import { ROUND_TRIPS, type Comparison } from '../record.ts'
import type { Work } from '../requests.ts'
import { onStage } from '../../src/dev/stage.ts'
import { useScript } from '../stage.ts'

interface Match {
  readonly work: Work
  readonly roundTripMs: number
  readonly against: readonly Contender[]
  /** Whether pgbench is included if it is installed. */
  readonly pgbench?: boolean
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

export const hotMatches: readonly Match[] = ROUND_TRIPS.map(roundTripMs => ({
  work: 'invoice',
  roundTripMs,
  against: [awaits, inBegin, bare]
}))
export const orderMatches: readonly Match[] = [
  ...ROUND_TRIPS.map((roundTripMs): Match => ({
    work: 'order',
    roundTripMs,
    against: roundTripMs === 0 ? [postgresJs, orderFunction, pg] : [postgresJs, orderFunction],
    pgbench: roundTripMs === 0
  })),
  { work: 'order with ids', roundTripMs: 0, against: [postgraphile] }
]

/** Starts the contenders of a match, measures them and stops them. */
export function play (
  { work, roundTripMs, against, pgbench = false }: Match,
  database: Database,
  measure: Measure
): Promise<Comparison> {
  return onStage(async stage => {
    await resetTables(database.sql)
    const load = await useScript(stage, 'load.ts', { sendsHello: false })
    const { url, slow } = await useRoute(stage, database, roundTripMs)
    const workload = { work, sql: database.sql, pid: database.pid }
    const sides: Side[] = []
    for (const contender of [oneflight, ...against]) {
      sides.push(await useSide(stage, contender, { load, work, databaseUrl: url }))
    }
    const withoutService = pgbench ? pgbenchSide(url) : undefined
    if (withoutService !== undefined) sides.push(withoutService)
    await warmUp(sides, workload, measure)
    await slow(true)
    return {
      work,
      roundTripMs,
      measuredRoundTripMs: await measureRoundTrip(url),
      contenders: await takeTurns(sides, workload, measure)
    }
  })
}
