/**
 * Growth on paper: what a number of batches per second needs at each tier, and where each tier
 * gives way. Pure: the costs are measured, everything else is an assumption.
 */
import { configItems } from '../../../schemas/config.ts'
import type { Costs } from './costs.ts'

export interface Assumptions {
  /** The planned use of each tier, from 0 to 1. The rest is for peaks and failures. */
  readonly use: number
  /** The cores of the largest database server. */
  readonly cores: number
  /** The connections of one database server. */
  readonly connections: number
  /** The log that the disk of one database server writes, in bytes per second. */
  readonly logBytes: number
  /** The part of the batches that may run on a standby, from 0 to 1. */
  readonly reads: number
}

export const assumptions: Assumptions = {
  use: 0.6,
  cores: 64,
  connections: 500,
  logBytes: 125e6,
  reads: 0.5
}

/** Connections of a process beside its pool. */
export const BESIDE_POOL = 4
export const DEFAULT_POOL = new Map(configItems).get('POOL_SIZE')?.default as number
/** One can be replaced while the other one serves. */
const LEAST_PROCESSES = 2
/** A batch rarely waits for another one that is alone with it. */
const LEAST_POOL = 2
/** PostgreSQL's defaults: max_connections without superuser_reserved_connections. */
const DEFAULT_CONNECTIONS = 100 - 3

/** What a load needs. `…Cores` are those that are busy. */
export interface Plan {
  readonly rate: number
  readonly balancerCores: number
  readonly serviceCores: number
  readonly databaseCores: number
  readonly processes: number
  /** Each has a deployment of the service. */
  readonly databases: number
  /** The mean number of connections that run a batch. */
  readonly busyConnections: number
  /** POOL_SIZE of each process. */
  readonly poolSize: number
  /** Connections of each database. */
  readonly connections: number
  /** Bytes per second of the log of each database. */
  readonly logBytes: number
}

/** A COMMIT waits for a half of the flush that is running, and for the next one. */
const FLUSHES = 1.5

/** The time for which a batch holds its connection (ms), without a wait for a processor. */
export function heldMs ({ roundTripMs, databaseMs, flushMs }: Costs): number {
  return roundTripMs + databaseMs + FLUSHES * flushMs
}

/** Plans for a number of batches per second. */
export function planFor (rate: number, costs: Costs, limits: Assumptions): Plan {
  const { use, cores, logBytes } = limits
  const coresFor = (ms: number): number => rate * ms / 1000
  const databases = Math.ceil(Math.max(
    coresFor(costs.databaseMs) / use / cores,
    rate * costs.walBytes / use / logBytes
  ))
  const processes = Math.max(
    LEAST_PROCESSES,
    Math.ceil(coresFor(costs.serviceMs) / use / databases)
  )
  return {
    rate,
    balancerCores: coresFor(costs.balancerMs),
    serviceCores: coresFor(costs.serviceMs),
    databaseCores: coresFor(costs.databaseMs),
    processes: processes * databases,
    databases,
    busyConnections: coresFor(heldMs(costs)),
    ...connect(processes, costs, limits),
    logBytes: rate * costs.walBytes / databases
  }
}

/**
 * The pools of the processes of one database: of the default size while the database has room for
 * them, and large enough for a process that is used as planned.
 */
function connect (
  processes: number,
  costs: Costs,
  limits: Assumptions
): Pick<Plan, 'poolSize' | 'connections'> {
  const room = Math.floor(limits.connections / processes) - BESIDE_POOL
  const poolSize = Math.max(leastPool(costs), Math.min(DEFAULT_POOL, room))
  return { poolSize, connections: processes * (poolSize + BESIDE_POOL) }
}

/** The pool of a process whose connections are used as much as the process. */
function leastPool (costs: Costs): number {
  return Math.max(LEAST_POOL, Math.ceil(heldMs(costs) / costs.serviceMs))
}

export type TierName = 'row' | 'process' | 'pool' | 'default connections' | 'balancer' |
  'database' | 'connections' | 'standby' | 'log'

/** A tier in one shape, until the next shape. */
export interface Tier {
  readonly name: TierName
  /** Batches per second at which it gives way; as planned, only a part of it is used. */
  readonly limit: number
}

/** Returns the limits of all tiers, the lowest first. */
export function tiersOf (costs: Costs, limits: Assumptions): readonly Tier[] {
  const { cores, connections, logBytes, reads } = limits
  const perProcess = 1000 / costs.serviceMs
  const perDatabase = cores * 1000 / costs.databaseMs
  const tiers: Readonly<Record<TierName, number>> = {
    row: costs.hotRow,
    process: perProcess,
    pool: DEFAULT_POOL * 1000 / heldMs(costs),
    'default connections': Math.floor(DEFAULT_CONNECTIONS / (DEFAULT_POOL + BESIDE_POOL)) *
      perProcess,
    balancer: 1000 / costs.balancerMs,
    database: perDatabase,
    connections: Math.floor(connections / (leastPool(costs) + BESIDE_POOL)) * perProcess,
    standby: perDatabase / (1 - reads),
    log: logBytes / costs.walBytes
  }
  return Object.entries(tiers).map(([name, limit]): Tier => ({ name: name as TierName, limit }))
    .sort((a, b) => a.limit - b.limit)
}

/** The tiers that give way as the load of one database grows. */
const GROWING: readonly TierName[] = [
  'process', 'default connections', 'balancer', 'database', 'connections', 'log'
]

/**
 * Returns the tier whose planned use a growing load passes next, and undefined if none is left.
 * Deployments with a database each share nothing.
 */
export function nextTier (
  { rate, databases }: Plan,
  costs: Costs,
  limits: Assumptions
): Tier | undefined {
  if (databases > 1) return undefined
  return tiersOf(costs, limits).find(({ name, limit }) =>
    GROWING.includes(name) && limit * limits.use > rate
  )
}
