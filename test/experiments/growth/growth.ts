/**
 * The growth experiment: measures what the model of growth needs and the benchmark does not
 * measure, and the service under loads that the simulation is compared with. Writes
 * test/experiments/growth/measured.json; `npm run docs` writes the page.
 *
 * It needs Linux and haproxy. It waits, for some time, until other processes leave the machine to
 * it, and takes the quietest of several turns. If they do not leave it, it writes nothing.
 */
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { onStage, type Stage } from '../../../scripts/dev/stage.ts'
import { resetTables, useDatabase, type Database } from '../../../bench/database.ts'
import { useRestartableServer } from '../../support/database/restartable-server.ts'
import {
  figureFor,
  renderRecord,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from '../scenario.ts'
import { cpuOfMachine, takeSlice, type Scene, type Slice } from './measure.ts'
import { measuredFile, type Comparison, type Measured } from './measured.ts'
import { measureOtherCosts, useWarmScene, type Effort } from './other-costs.ts'
import { renderReality } from './reality.ts'

/**
 * Services and the loads that they get, from below their capacity to beyond it. With a long round
 * trip the connections give way first, without one the processors of the machine.
 */
const SCENES = [
  { poolSize: 2, roundTripMs: 40, rates: [10, 25, 35, 60] },
  { poolSize: 6, roundTripMs: 40, rates: [20, 70, 105, 180] },
  { poolSize: 1, roundTripMs: 0, rates: [50, 150, 250, 400] },
  { poolSize: 4, roundTripMs: 0, rates: [100, 300, 500, 700] }
] as const

const efforts: Readonly<Record<'long' | 'short', Effort>> = {
  long: { turns: 3, seconds: 4, rate: 300, idleConnections: 400, patienceMs: 60_000 },
  short: { turns: 1, seconds: 0.5, rate: 100, idleConnections: 20, patienceMs: 0 }
}

export const growth: Scenario = {
  name: 'growth',
  isSpecial: true,
  hasOwnRecord: true,
  run: runGrowth
}

async function runGrowth (
  stage: Stage,
  { long, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const effort = efforts[long ? 'long' : 'short']
  const database = await startDatabase(stage)
  const patience = { ms: effort.patienceMs }
  const comparisons = await compareAll(database, effort, patience)
  const measured: Measured = {
    date: new Date().toISOString(),
    machine: { cpu: cpus()[0]?.model ?? 'unknown', cores: availableParallelism() },
    ...await measureOtherCosts(database, effort),
    comparisons
  }
  log(`the simulation beside the service:\n${renderReality(measured)}`)
  if (long && patience.ms > 0) {
    writeFileSync(measuredFile, `${renderRecord(measured, 'comparisons')}\n`)
    log('written: test/experiments/growth/measured.json')
  } else if (long) log('not written: other processes used more than a fifth of the machine')
  return describe(measured, long, patience.ms)
}

function describe (
  { balancerPerService, refusalPerBatch, unpreparedPerPrepared, ...costs }: Measured,
  long: boolean,
  patienceMs: number
): readonly Figure[] {
  const figure = figureFor()
  const { idleConnections: { count, ratio }, connectionBytes, walBytes } = costs
  return [
    figure('processor time of the load balancer, of that of the service', balancerPerService, {
      unit: '%'
    }),
    figure('processor time of a refusal, of that of a batch', refusalPerBatch, { unit: '%' }),
    figure('processor time of PostgreSQL without prepared statements', unpreparedPerPrepared, {
      unit: '%'
    }),
    figure(`processor time of PostgreSQL beside ${count} idle connections`, ratio, { unit: '%' }),
    figure('memory of a connection that has run batches', connectionBytes / 2 ** 20, {
      unit: 'MiB'
    }),
    figure('bytes of the log of a batch', walBytes),
    ...long
      ? [figure('time left to wait for a quiet machine', patienceMs, { unit: 'ms', atLeast: 1 })]
      : []
  ]
}

/** Starts a PostgreSQL that allows many connections and times the flushes of its log. */
async function startDatabase (stage: Stage): Promise<Database> {
  const server = await useRestartableServer(stage, {
    max_connections: 600,
    track_wal_io_timing: 'on'
  })
  const database = await useDatabase(stage, server.current().url)
  await resetTables(database.sql)
  return database
}

interface Load {
  readonly place: Pick<Comparison, 'poolSize' | 'queueSize' | 'roundTripMs'>
  readonly scene: Scene
  readonly rate: number
  readonly slices: Slice[]
}

/** Runs all services at once, so that the turns of each are spread over the whole time. */
function compareAll (
  database: Database,
  effort: Effort,
  patience: Patience
): Promise<readonly Comparison[]> {
  return onStage(async stage => {
    const loads: Load[] = []
    for (const { poolSize, roundTripMs, rates } of SCENES) {
      const place = { poolSize, queueSize: 4 * poolSize, roundTripMs }
      const scene = await useWarmScene(stage, database, place, effort)
      loads.push(...rates.map(rate => ({ place, scene, rate, slices: [] })))
    }
    for (let turn = 0; turn < effort.turns; turn++) {
      for (const { scene, rate, slices } of loads) {
        await waitForQuiet(patience)
        // Opens the connections again that were idle for a minute.
        await takeSlice(scene, { rate: 100, seconds: 0.3 })
        slices.push(await takeSlice(scene, { rate, seconds: effort.seconds }))
      }
    }
    return loads.map(({ place, scene, rate, slices }) => {
      const calmest = loads.find(load => load.scene === scene)?.slices ?? []
      return { ...place, rate, slice: quietest(slices), calibration: quietest(calmest) }
    })
  })
}

/** What is left of the time to wait for a quiet machine. */
interface Patience {
  ms: number
}

/** Waits until other processes use less than a fifth of the machine, while patience is left. */
async function waitForQuiet (patience: Patience): Promise<void> {
  const limit = availableParallelism() * 1000 / 5
  for (let isQuiet = false; !isQuiet && patience.ms > 0;) {
    const [start, before] = [performance.now(), cpuOfMachine()]
    await sleep(500)
    const passed = performance.now() - start
    patience.ms -= passed
    isQuiet = (cpuOfMachine() - before) / passed * 1000 < limit
  }
}

/** The slice in which other processes wanted the least of the machine. */
function quietest (slices: readonly Slice[]): Slice {
  return slices.toSorted((a, b) => a.others - b.others)[0] as Slice
}
