/**
 * Measures the service under loads that do not wait for it (an open loop): throughput, refusals,
 * response times, taken connections, and the processor time of all that takes part.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { cpuOf, cpuOfServer } from '../../../bench/cpu.ts'
import { SECRET, tokens, useRoute, type Database } from '../../../bench/database.ts'
import { useScript, type Environment, type ScriptProcess } from '../../../bench/stage.ts'
import { useRestartableService } from '../../support/process/restartable-service.ts'
import { readMetrics } from '../own-server.ts'
import type { LoadOrder, LoadResult } from './load.ts'

export interface SceneOptions {
  readonly poolSize: number
  readonly queueSize: number
  readonly roundTripMs?: number
  readonly env?: Environment
}

/** A service with its database and the process that sends the load. */
export interface Scene {
  readonly database: Database
  readonly load: ScriptProcess
  readonly url: string
  readonly adminUrl: string
  readonly pid: number
}

/** One slice. Times are in milliseconds; batches are those of one second. */
export interface Slice {
  /** Until the last response. */
  readonly seconds: number
  readonly arrived: number
  readonly served: number
  /** The part of the batches that were refused. */
  readonly refused: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The mean number of taken connections. */
  readonly connections: number
  /** From the sending of a batch to the response to its COMMIT. */
  readonly transactionMs: number
  /** Processor time in one second. */
  readonly serviceCpuMs: number
  readonly databaseCpuMs: number
  /** The mean number of processes that run or are ready to, other than the service's. */
  readonly others: number
  /** Bytes of the log for each batch. */
  readonly walBytes: number
  readonly flushMs: number
  readonly batchesPerFlush: number
}

/** Starts a service. PostgreSQL must be version 18 or later and run on this machine. */
export async function useScene (
  stage: Stage,
  database: Database,
  { poolSize, queueSize, roundTripMs = 0, env = {} }: SceneOptions
): Promise<Scene> {
  const load = await useScript(stage, '../test/experiments/growth/load.ts', { sendsHello: false })
  const route = await useRoute(stage, database, roundTripMs)
  await route.slow(true)
  const { url, adminUrl, pid } = await useRestartableService(stage, {
    DATABASE_URL: route.url,
    JWT_SECRET: SECRET,
    POOL_SIZE: String(poolSize),
    QUEUE_SIZE: String(queueSize),
    LOG_LEVEL: 'fatal',
    NODE_ENV: 'production',
    ...env
  })
  return { database, load, url, adminUrl, pid: pid() }
}

/** Between two samples of the taken connections (ms). */
const SAMPLE_MS = 100

/** Sends orders for some time. Throws if a response is neither 200 nor a refusal. */
export async function takeSlice (
  scene: Scene,
  { rate, seconds }: { readonly rate: number, readonly seconds: number }
): Promise<Slice> {
  const order: LoadOrder = { url: scene.url, work: 'order', tokens, rate, seconds }
  const before = await readCounters(scene)
  const start = performance.now()
  const running = new AbortController()
  const sampling = takeSamples(scene, running.signal)
  const result: LoadResult = await scene.load.request(order)
  const passed = (performance.now() - start) / 1000
  running.abort()
  const samples = await sampling
  const after = await readCounters(scene)
  if (result.wrong !== undefined) throw new Error(`wrong response: ${result.wrong}`)
  const spent = (name: keyof Counters): number => after[name] - before[name]
  const latencies = result.latenciesMs.toSorted((a, b) => a - b)
  const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? NaN
  return {
    seconds: passed,
    arrived: result.sent / result.seconds,
    served: result.served / result.seconds,
    refused: result.refused / result.sent,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    connections: mean(samples.map(({ connections }) => connections)),
    transactionMs: spent('transactionMs') / spent('transactions'),
    serviceCpuMs: spent('serviceMs') / passed,
    databaseCpuMs: spent('databaseMs') / passed,
    others: mean(samples.map(({ others }) => others)),
    walBytes: spent('walBytes') / result.served,
    // A backend reports its flushes about once in a second.
    flushMs: spent('flushes') === 0 ? 0 : spent('flushMs') / spent('flushes'),
    batchesPerFlush: result.served / spent('flushes')
  }
}

interface Counters {
  readonly serviceMs: number
  readonly databaseMs: number
  readonly transactions: number
  readonly transactionMs: number
  readonly walBytes: number
  readonly flushes: number
  readonly flushMs: number
}

async function readCounters (scene: Scene): Promise<Counters> {
  const { pid, database } = scene
  const sum = await readMetrics(scene)
  const [log] = await database.sql`select sum(fsyncs) as flushes, sum(fsync_time) as ms,
    pg_current_wal_insert_lsn() - '0/0' as bytes
    from pg_stat_io where object = 'wal' and context = 'normal'`
  return {
    serviceMs: cpuOf(pid) ?? NaN,
    databaseMs: cpuOfServer(database.pid) ?? NaN,
    transactions: sum('service_txn_duration_milliseconds_count'),
    transactionMs: sum('service_txn_duration_milliseconds_sum'),
    walBytes: Number(log?.['bytes']),
    flushes: Number(log?.['flushes']),
    flushMs: Number(log?.['ms'])
  }
}

/** The processor time (ms) of all processes of this machine, from /proc/stat. */
export function cpuOfMachine (): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1)
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(/ +/)
    .slice(1).map(Number)
  return (user + nice + system + irq + softirq + steal) * 10
}

interface Sample {
  readonly connections: number
  readonly others: number
}

async function takeSamples (scene: Scene, signal: AbortSignal): Promise<readonly Sample[]> {
  const samples: Sample[] = []
  while (!signal.aborted) {
    const sum = await readMetrics(scene)
    samples.push({ connections: sum('service_pool_connections_busy'), others: countOthers(scene) })
    await sleep(SAMPLE_MS)
  }
  return samples
}

/** The processes that run or are ready to, without this one, the service and PostgreSQL. */
function countOthers ({ pid, database }: Scene): number {
  const [, running] = /^procs_running (\d+)/m.exec(readFileSync('/proc/stat', 'utf8')) ?? []
  const server = database.pid ?? NaN
  const backends = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').split(' ')
  const own = [pid, server, ...backends.filter(id => id !== '')].filter(id => isRunning(id))
  return Math.max(0, Number(running) - 1 - own.length)
}

function isRunning (pid: number | string): boolean {
  try {
    return / R /.test(readFileSync(`/proc/${pid}/stat`, 'utf8').split(')').at(-1) ?? '')
  } catch {
    // The process has ended.
    return false
  }
}

function mean (values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
