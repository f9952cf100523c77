/**
 * Deployments in which one tier gives way first, for the simulation. Each process and the database
 * have machines of their own.
 */
import type { Costs } from './costs.ts'
import type { Measured } from './measured.ts'
import { DEFAULT_POOL, heldMs, planFor, type Assumptions } from './model.ts'
import { splitWork } from './reality.ts'
import { simulate, type Setting, type Simulated, type Work } from './simulate.ts'

export interface Shape {
  readonly name: string
  /** Batches per second. */
  readonly limit: number
  readonly setting: Omit<Setting, 'rate'>
}

interface Inputs {
  readonly costs: Costs
  readonly measured: Measured
  readonly limits: Assumptions
}

const BATCHES = 10_000
/** Ample, where another tier is to give way. */
const AMPLE = { processes: 8, poolSize: DEFAULT_POOL, databaseCores: 16 }
const FEW_CORES = 4
const FEW_CONNECTIONS = 2

export function shapesOf ({ costs, measured, limits }: Inputs): readonly Shape[] {
  const work = workOf(costs, measured)
  const shape = (
    name: string,
    limit: number,
    changes: Partial<Setting>
  ): Shape => {
    const { poolSize = AMPLE.poolSize } = changes
    const setting = { ...base, ...AMPLE, work, queueSize: 4 * poolSize, ...changes }
    return { name, limit, setting }
  }
  const plan = planFor(costs.today * 10, costs, limits)
  return [
    shape('one process', 1000 / costs.serviceMs, { processes: 1 }),
    shape(
      `one process with ${FEW_CONNECTIONS} connections`,
      FEW_CONNECTIONS * 1000 / heldMs(costs),
      { processes: 1, poolSize: FEW_CONNECTIONS }
    ),
    shape(
      `a database of ${FEW_CORES} cores`,
      FEW_CORES * 1000 / costs.databaseMs,
      { databaseCores: FEW_CORES }
    ),
    shape('one row that every batch changes', costs.hotRow, {
      hot: 1,
      work: { ...work, databaseMs: Math.max(0, 1000 / costs.hotRow - costs.flushMs) }
    }),
    shape('the plan for 10 ×', plan.rate / limits.use, {
      processes: plan.processes,
      poolSize: plan.poolSize,
      databaseCores: Math.ceil(plan.databaseCores / limits.use)
    })
  ]
}

/** Simulates a shape at a part of its limit. */
export function simulateAt ({ limit, setting }: Shape, load: number): Simulated {
  return simulate({ ...setting, rate: limit * load })
}

const base = {
  seed: 1,
  batches: BATCHES,
  spread: 'exponential',
  shared: false,
  others: 0,
  hot: 0
} as const

function workOf (
  { serviceMs, databaseMs, roundTripMs, flushMs }: Costs,
  { refusalPerBatch }: Measured
): Work {
  const refusalMs = serviceMs * refusalPerBatch
  return splitWork({ serviceMs, databaseMs, refusalMs, idleMs: 0, roundTripMs, flushMs })
}
