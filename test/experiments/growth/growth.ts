/**
 * The growth experiment: sends orders through haproxy to the service, and measures what the model
 * of growth needs and the benchmark does not measure. Writes
 * test/experiments/growth/measured.json; `npm run docs` writes the page. It needs Linux and
 * haproxy, and a machine that has nothing else to do.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { cpuOf } from '../../../bench/cpu.ts'
import { resetTables, SECRET, tokens, useDatabase, type Database } from '../../../bench/database.ts'
import type { LoadOrder, LoadResult } from '../../../bench/requests.ts'
import { useScript } from '../../../bench/stage.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { useRestartableServer } from '../../support/database/restartable-server.ts'
import { startBalancer } from '../../support/network/haproxy.ts'
import { useRestartableService } from '../../support/process/restartable-service.ts'
import { until } from '../../support/until.ts'
import { figureFor, type Figure, type Scenario, type ScenarioOptions } from '../scenario.ts'
import { measuredFile, type Measured } from './measured.ts'

const CONNECTIONS = 10

export const growth: Scenario = {
  name: 'growth',
  isSpecial: true,
  hasOwnRecord: true,
  run: runGrowth
}

async function runGrowth (
  stage: Stage,
  { long }: Pick<ScenarioOptions, 'long'>
): Promise<readonly Figure[]> {
  const measured: Measured = {
    date: new Date().toISOString(),
    machine: { cpu: cpus()[0]?.model ?? 'unknown', cores: availableParallelism() },
    ...await measure(stage, long ? 50_000 : 300)
  }
  if (long) writeFileSync(measuredFile, `${JSON.stringify(measured, null, 2)}\n`)
  const figure = figureFor()
  const { balancerPerService, connectionBytes, flushMs, walBytes } = measured
  return [
    figure('processor time of the load balancer, of that of the service', balancerPerService, {
      unit: '%'
    }),
    figure('memory of a connection that has run batches', connectionBytes / 2 ** 20, {
      unit: 'MiB'
    }),
    figure('one flush of the log', flushMs, { unit: 'ms' }),
    figure('bytes of the log of a batch', walBytes)
  ]
}

/** Measures this number of orders, after as many that are not measured: V8 compiles used code. */
async function measure (
  stage: Stage,
  requests: number
): Promise<Omit<Measured, 'date' | 'machine'>> {
  const server = await useRestartableServer(stage, { track_wal_io_timing: 'on' })
  const database = await useDatabase(stage, server.current().url)
  await resetTables(database.sql)
  const service = await useRestartableService(stage, {
    DATABASE_URL: database.url,
    JWT_SECRET: SECRET,
    POOL_SIZE: String(CONNECTIONS),
    LOG_LEVEL: 'fatal',
    NODE_ENV: 'production'
  })
  const balancer = await startBalancer(stage, [service], config =>
    config.replaceAll(/^ +server oneflight-[23].*\n/gm, ''))
  const load = await useScript(stage, 'load.ts', { sendsHello: false })
  const order: LoadOrder = {
    url: balancer.url,
    dialect: 'oneflight',
    work: 'order',
    connections: CONNECTIONS,
    requests,
    tokens,
    keyed: false
  }
  const send = async (): Promise<void> => {
    const { failed, firstError }: LoadResult = await load.request(order)
    if (failed > 0) throw new Error(`${failed} orders failed: ${firstError}`)
  }
  const readCpu = (): readonly number[] =>
    [balancer.child.pid as number, service.pid()].map(pid => cpuOf(pid) ?? NaN)
  await send()
  const [cpu, log] = [readCpu(), await readLog(database)]
  await send()
  const [ofBalancer, ofService] = readCpu().map((ms, i) => ms - (cpu[i] as number))
  const connectionBytes = await measureConnection(database)
  // A backend reports its last flushes when it ends.
  await service.end('SIGTERM')
  await until(async () => (await backendsOf(database)).length === 0)
  const after = await readLog(database)
  return {
    balancerPerService: ofBalancer as number / (ofService as number),
    connectionBytes,
    flushMs: (after.flushMs - log.flushMs) / (after.flushes - log.flushes),
    walBytes: (after.bytes - log.bytes) / requests
  }
}

interface Log {
  readonly flushes: number
  readonly flushMs: number
  readonly bytes: number
}

/** Needs PostgreSQL 18 or later. */
async function readLog ({ sql }: Database): Promise<Log> {
  const [log] = await sql`select sum(fsyncs)::float as flushes, sum(fsync_time) as "flushMs",
    (pg_current_wal_insert_lsn() - '0/0')::float as bytes
    from pg_stat_io where object = 'wal' and context = 'normal'`
  return log as unknown as Log
}

async function backendsOf ({ sql }: Database): Promise<readonly number[]> {
  const rows = await sql`select pid from pg_stat_activity where usename = 'oneflight_bench_login'`
  return rows.map(({ pid }) => pid as number)
}

/** The median memory of the connections, without what they share with others. */
async function measureConnection (database: Database): Promise<number> {
  const sizes = (await backendsOf(database)).map(pid => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    const [, size] = /^Private_Dirty: +(\d+) kB/m.exec(text) ?? []
    return Number(size) * 1024
  }).sort((a, b) => a - b)
  return sizes[Math.floor(sizes.length / 2)] as number
}
