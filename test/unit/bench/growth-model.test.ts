/**
 * Tests the model of growth with costs that make its results easy to compute by hand.
 */
import t from 'tap'
import type { Costs } from '../../experiments/growth/costs.ts'
import {
  heldMs,
  nextTier,
  planFor,
  tiersOf,
  type Assumptions
} from '../../experiments/growth/model.ts'

/** A process runs 1000 batches per second, a core of PostgreSQL 500. */
const costs: Costs = {
  today: 100,
  serviceMs: 1,
  databaseMs: 2,
  readDatabaseMs: 1,
  balancerMs: 0.1,
  roundTripMs: 0.5,
  flushMs: 1,
  hotRow: 400,
  walBytes: 1000
}
const limits: Assumptions = { use: 0.5, cores: 40, connections: 400, logBytes: 1e8, reads: 0.5 }

t.test('a small load needs two processes and one database', async t => {
  t.equal(heldMs(costs), 4)
  t.match(planFor(100, costs, limits), {
    balancerCores: 0.01,
    serviceCores: 0.1,
    databaseCores: 0.2,
    processes: 2,
    databases: 1,
    busyConnections: 0.4,
    poolSize: 10,
    connections: 2 * (10 + 4),
    logBytes: 100_000
  })
})

t.test('a load has the cores that it needs at the planned use', async t => {
  t.match(planFor(10_000, costs, limits), { processes: 20, databases: 1, connections: 280 })
  t.match(planFor(10_001, costs, limits), { processes: 22, databases: 2 })
  const small = { ...limits, logBytes: 2e6 }
  t.match(
    planFor(10_000, costs, small),
    { databases: 10, processes: 20, logBytes: 1e6 },
    'by its log'
  )
})

t.test('each database has processes of its own', async t => {
  t.match(planFor(40_000, costs, limits), {
    databases: 4,
    processes: 80,
    poolSize: 10,
    connections: 20 * (10 + 4)
  })
  const large = { ...limits, cores: 160 }
  t.match(
    planFor(40_000, costs, large),
    { databases: 1, processes: 80, poolSize: 4, connections: 80 * (4 + 4) },
    'a process that is used as planned has two busy connections of four'
  )
})

t.test('the tiers are sorted by their limits', async t => {
  t.strictSame(tiersOf(costs, limits).map(({ name, limit }) => [name, limit]), [
    ['row', 400],
    ['process', 1000],
    ['pool', 2500],
    ['default connections', 6000],
    ['balancer', 10_000],
    ['database', 20_000],
    ['standby', 40_000],
    ['connections', 50_000],
    ['log', 100_000]
  ])
})

t.test('the next tier is the lowest that the load of one database has not passed', async t => {
  const nextOf = (rate: number): string | undefined =>
    nextTier(planFor(rate, costs, limits), costs, limits)?.name
  t.equal(nextOf(100), 'process')
  t.equal(nextOf(600), 'default connections')
  t.equal(nextOf(3000), 'balancer')
  t.equal(nextOf(8000), 'database')
  t.equal(nextOf(20_000), undefined, 'each database has its own processes')
})
