/**
 * Measures costs that the benchmark does not: of the load balancer, of a refusal, of statements
 * that are not prepared, and of connections. All are ratios of slices that were taken in turns.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { onStage, type Stage } from '../../../scripts/dev/stage.ts'
import { post } from '../../../bench/contenders.ts'
import { cpuOf } from '../../../bench/cpu.ts'
import { role, type Database } from '../../../bench/database.ts'
import { spreadOf } from '../../../bench/record.ts'
import { makeBody } from '../../../bench/requests.ts'
import { startBalancer } from '../../support/network/haproxy.ts'
import { takeSlice, useScene, type Scene, type SceneOptions, type Slice } from './measure.ts'
import type { Measured } from './measured.ts'

/** How much is measured of each cost. */
export interface Effort {
  readonly turns: number
  readonly seconds: number
  readonly rate: number
  readonly idleConnections: number
  /** How long to wait for a quiet machine, in milliseconds. */
  readonly patienceMs: number
}

export type OtherCosts = Omit<Measured, 'date' | 'machine' | 'comparisons'>

/** Large enough for the rate, so that nothing is refused. */
const ample: SceneOptions = { poolSize: 10, queueSize: 1000 }

export async function measureOtherCosts (database: Database, effort: Effort): Promise<OtherCosts> {
  const { slices, ...costs } = await onStage(async stage => {
    const scene = await useWarmScene(stage, database, ample, effort)
    const slices = await takeTurns(effort.turns, () => takeSlice(scene, effort))
    return {
      slices,
      balancerPerService: await measureBalancer(stage, scene, effort),
      idleConnections: await measureIdleConnections(scene, effort),
      connectionBytes: await measureConnection(database)
    }
  })
  return {
    ...costs,
    refusalPerBatch: await measureRefusal(database, effort),
    unpreparedPerPrepared: await measureUnprepared(database, effort),
    walBytes: median(slices.map(({ walBytes }) => walBytes))
  }
}

/** Starts a service and sends it batches, because V8 compiles code as it is used. */
export async function useWarmScene (
  stage: Stage,
  database: Database,
  options: SceneOptions,
  { rate, seconds }: Pick<Effort, 'rate' | 'seconds'>
): Promise<Scene> {
  const scene = await useScene(stage, database, options)
  for (let i = 0; i < 3; i++) await takeSlice(scene, { rate, seconds })
  return scene
}

/** Runs the shipped configuration of haproxy with one instance. */
async function measureBalancer (stage: Stage, scene: Scene, effort: Effort): Promise<number> {
  const { child, url } = await startBalancer(stage, [scene], config =>
    config.replaceAll(/^ +server oneflight-[23].*\n/gm, ''))
  const balanced = { ...scene, url }
  const shares = await takeTurns(effort.turns, async () => {
    const before = cpuOf(child.pid as number) ?? NaN
    const { serviceCpuMs, seconds } = await takeSlice(balanced, effort)
    return ((cpuOf(child.pid as number) ?? NaN) - before) / seconds / serviceCpuMs
  })
  return median(shares)
}

/** Sends batches while the only connection waits for a lock, so that all of them are refused. */
function measureRefusal (database: Database, effort: Effort): Promise<number> {
  return onStage(async stage => {
    const options = { poolSize: 1, queueSize: 0 }
    const locker = postgres(database.url, { max: 1 })
    stage.teardown(() => locker.end())
    const scene = await useWarmScene(stage, database, options, { ...effort, rate: 100 })
    const perBatch = async (slice: Promise<Slice>, of: 'served' | 'arrived'): Promise<number> => {
      const taken = await slice
      return taken.serviceCpuMs / taken[of]
    }
    const ratios = await takeTurns(effort.turns, async () => {
      const served = await perBatch(takeSlice(scene, { ...effort, rate: 100 }), 'served')
      const refused = await locker.begin(async sql => {
        await sql`set local role ${sql(role)}`
        await sql`lock table customers in access exclusive mode`
        const blocked = post(scene.url, makeBody('oneflight', 'order'))
        const waiting = () => database.sql`select from pg_locks where not granted`
        while ((await waiting()).length === 0) await sleep(10)
        return { ms: await perBatch(takeSlice(scene, effort), 'arrived'), blocked }
      })
      await refused.blocked
      return refused.ms / served
    })
    return median(ratios)
  })
}

/** A service behind a pooler prepares no statements. */
function measureUnprepared (database: Database, effort: Effort): Promise<number> {
  return onStage(async stage => {
    const env = { PREPARED_STATEMENTS: 'off' }
    const prepared = await useWarmScene(stage, database, ample, effort)
    const unprepared = await useWarmScene(stage, database, { ...ample, env }, effort)
    const ratios = await takeTurns(effort.turns, async () => {
      const mine = await takeSlice(prepared, effort)
      return databasePerBatch(await takeSlice(unprepared, effort)) / databasePerBatch(mine)
    })
    return median(ratios)
  })
}

async function measureIdleConnections (
  scene: Scene,
  effort: Effort
): Promise<Measured['idleConnections']> {
  const count = effort.idleConnections
  const ratios = await takeTurns(effort.turns, async () => {
    const without = databasePerBatch(await takeSlice(scene, effort))
    const idle = postgres(scene.database.url, { max: count })
    await Promise.all(Array.from({ length: count }, () => idle`select pg_sleep(0.1)`))
    const beside = databasePerBatch(await takeSlice(scene, effort))
    await idle.end()
    return beside / without
  })
  return { count, ratio: median(ratios) }
}

/** The memory of connections that run batches, without what they share with others. */
async function measureConnection ({ sql }: Database): Promise<number> {
  const rows = await sql`select pid from pg_stat_activity where usename = 'oneflight_bench_login'
    and query = 'commit'`
  return median(rows.map(({ pid }) => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    const [, size] = /^Private_Dirty: +(\d+) kB/m.exec(text) ?? []
    return Number(size) * 1024
  }))
}

async function takeTurns<T> (turns: number, take: () => Promise<T>): Promise<readonly T[]> {
  const taken: T[] = []
  for (let turn = 0; turn < turns; turn++) taken.push(await take())
  return taken
}

function databasePerBatch ({ databaseCpuMs, served }: Slice): number {
  return databaseCpuMs / served
}

function median (values: readonly number[]): number {
  return spreadOf(values)?.median ?? NaN
}
