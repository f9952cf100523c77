/**
 * The tables of docs/operations/growth.md, from the costs and the model.
 */
import { show } from '../../../bench/goals.ts'
import { renderTable } from '../../../bench/ratios.ts'
import { readRecord } from '../../../bench/record.ts'
import { costsOf, type Costs } from './costs.ts'
import { readMeasured, type Measured } from './measured.ts'
import {
  assumptions,
  BESIDE_POOL,
  DEFAULT_POOL,
  heldMs,
  nextTier,
  planFor,
  tiersOf,
  type Assumptions,
  type Plan,
  type Tier,
  type TierName
} from './model.ts'

/** The records and assumptions that the page shows. */
export interface Sources {
  readonly costs: Costs
  readonly measured: Measured
  readonly limits: Assumptions
}

export function readSources (): Sources {
  const measured = readMeasured()
  return { costs: costsOf(readRecord(), measured), measured, limits: assumptions }
}

/** The tables by the name of their place on the page. */
export const growthTables = {
  plans: renderPlans,
  tiers: renderTiers,
  costs: renderCosts,
  assumptions: renderAssumptions
} as const satisfies Record<string, (sources: Sources) => string>

/** Times today's figures. */
const SCALES = [1, 10, 100, 1000] as const
const scaling = (anchor: string, text: string): string => `[${text}](scaling.md#${anchor})`

/** What is computed has two digits: measured costs spread by a fifth. */
function about (value: number): string {
  return show(Number(value.toPrecision(2)))
}

/** What each scale needs, one column each. */
export function renderPlans ({ costs, limits }: Sources): string {
  const plans = SCALES.map(scale => planFor(costs.today * scale, costs, limits))
  const row = (name: string, cell: (plan: Plan) => string): readonly string[] =>
    [name, ...plans.map(cell)]
  const cores = (busy: number): string => `${about(busy)} of ${about(Math.ceil(busy / limits.use))}`
  const rows = [
    row('Batches/s', ({ rate }) => about(rate)),
    row('Load balancer, busy cores', ({ balancerCores }) => cores(balancerCores)),
    row('Service, busy cores', ({ serviceCores, processes }) =>
      `${about(serviceCores)} of ${about(processes)}`),
    row('Processes', ({ processes }) => about(processes)),
    row('Connections that run a batch', ({ busyConnections }) => about(busyConnections)),
    row('Databases, with a deployment each', ({ databases }) => about(databases)),
    row('`POOL_SIZE`', ({ poolSize }) => show(poolSize)),
    row('Connections of each database', ({ connections }) => about(connections)),
    row('Each database, busy cores', ({ databaseCores, databases }) =>
      cores(databaseCores / databases)),
    row('Log of each database', ({ logBytes }) => `${about(logBytes / 1e6)} MB/s`),
    row('Gives way next', plan => describeNext(plan, { costs, limits }))
  ]
  return renderTable(['', ...SCALES.map(scale => `${show(scale)} ×`)], rows)
}

function describeNext (plan: Plan, { costs, limits }: Pick<Sources, 'costs' | 'limits'>): string {
  const next = nextTier(plan, costs, limits)
  const largest = limits.use * limits.cores * 1000 / costs.databaseMs
  return next === undefined
    ? `a tenant that is too large for one database, at ${about(largest)}/s`
    : `${names(limits)[next.name]}, at ${about(next.limit * limits.use)}/s`
}

function names (limits: Assumptions): Readonly<Record<TierName, string>> {
  return {
    row: 'one row that every batch changes',
    process: 'one process',
    pool: `one process with ${DEFAULT_POOL} connections`,
    'default connections': '`max_connections` = 100',
    balancer: 'one core of the load balancer',
    database: `one database of ${limits.cores} cores`,
    connections: `${limits.connections} connections of one database`,
    standby: 'a primary with its reads on standbys',
    log: 'the log of one database'
  }
}

/** Where each tier gives way, the lowest limit first. */
export function renderTiers ({ costs, limits }: Sources): string {
  const several = scaling('tenants-on-several-databases', 'a deployment for each database')
  const remedies: Readonly<Record<TierName, string>> = {
    row: `${scaling('limits-and-remedies', 'lock it last, or split it')}; no machine lifts ` +
      'this limit',
    process: scaling('more-processes', 'workers or replicas'),
    pool: 'raise `POOL_SIZE`. A process is busy before that, unless statements or the round ' +
      'trip take longer',
    'default connections': `${scaling('connections-and-limits', 'raise it')}, and lower ` +
      '`POOL_SIZE`',
    balancer: 'more cores: haproxy uses all of its machine',
    database: `${scaling('reads-on-a-standby', 'reads on a standby')}, which serves ${
      about(limits.use * limits.cores * 1000 / costs.readDatabaseMs)
    } batches of one select per second as planned; then ${several}`,
    connections: `${several}, or ${scaling('a-pooler', 'a pooler')}`,
    standby: several,
    log: `a faster disk, or ${several}`
  }
  const rows = tiersOf(costs, limits).map(({ name, limit }: Tier) =>
    [names(limits)[name], about(limit * limits.use), about(limit), remedies[name]]
  )
  return renderTable(['Tier', 'Planned, batches/s', 'Limit, batches/s', 'Remedy'], rows)
}

export function renderCosts ({ costs, measured }: Sources): string {
  const bench = '[benchmarks](../internals/benchmarks.md#order-of-5-operations), 0.5 ms'
  const growth = '`npm run growth`'
  const ms = (value: number): string => `${show(value)} ms`
  return renderTable(['Cost', 'Value', 'Measured by'], [
    ['Batches per second today: one process, 10 connections', show(costs.today), bench],
    ['Service, processor time of a batch', ms(costs.serviceMs), bench],
    ['PostgreSQL, processor time of a batch', ms(costs.databaseMs), bench],
    ['PostgreSQL, processor time of a batch of one select', ms(costs.readDatabaseMs),
      '[record](../../bench/results.json)'],
    ['Round trip', ms(costs.roundTripMs), bench],
    ['Batches per second on one row',
      show(costs.hotRow),
      '[benchmarks](../internals/benchmarks.md#one-hot-row), the best'],
    ['One flush of the log', ms(costs.flushMs), growth],
    ['Connection taken: round trip, PostgreSQL, one and a half flushes',
      ms(heldMs(costs)), 'the sum'],
    ['Log of a batch', `${show(costs.walBytes)} bytes`, growth],
    ['Load balancer, processor time by that of the service',
      `${show(measured.balancerPerService)}×`,
      `${growth}, [haproxy.cfg](../../deploy/haproxy/haproxy.cfg)`],
    ['Memory of a connection that has run batches',
      `${show(measured.connectionBytes / 1e6)} MB`, growth]
  ])
}

export function renderAssumptions ({ limits }: Sources): string {
  const gp3 = 'https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html'
  return renderTable(['Assumption', 'Value', 'Source'], [
    ['Planned use of each tier', `${limits.use * 100} %`,
      'a choice. If a quarter of a tier fails, the rest is used at 80 %'],
    ['Cores of the largest database', show(limits.cores),
      'a choice. That PostgreSQL uses them all as well as two was not measured'],
    ['Connections of one database', show(limits.connections), 'a choice'],
    ['Log of one database', `${show(limits.logBytes / 1e6)} MB/s`,
      `[the throughput of a gp3 volume](${gp3}) that was not paid for separately`],
    ['Batches that may run on a standby', `${limits.reads * 100} %`, 'an example'],
    ['Connections of a process beside its pool', show(BESIDE_POOL),
      scaling('connections-and-limits', 'scaling')],
    ['Processes', 'at least 2', 'one is restarted while the other one serves'],
    ['Rows', 'fit in memory', 'as in the benchmarks; a larger database also waits for its disk'],
    ['Load', 'random, steady', 'arrivals are independent; peaks are what the planned use leaves']
  ])
}
