/**
 * Tests the simulation of growth against exact results of queueing theory. The seed is fixed, so a
 * result never changes; the tolerance is for the finite number of batches.
 */
import t, { type Test } from 'tap'
import { simulate, type Setting } from '../../experiments/growth/simulate.ts'

const work = {
  requestMs: 0,
  responseMs: 0,
  releaseMs: 0,
  refusalMs: 0,
  databaseMs: 0,
  resetMs: 0,
  idleMs: 0,
  roundTripMs: 0,
  flushMs: 0
}

/** No station makes a batch wait. */
const free: Setting = {
  seed: 7,
  rate: 1000,
  batches: 80_000,
  work,
  spread: 'exponential',
  processes: 1,
  poolSize: 100_000,
  queueSize: 100_000,
  databaseCores: 100_000,
  shared: false,
  others: 0,
  hot: 0
}

/** The part by which a mean may differ from theory. */
const TOLERANCE = 0.05

function near (t: Test, found: number, wanted: number, message: string): void {
  t.ok(
    Math.abs(found / wanted - 1) < TOLERANCE,
    `${message}: ${found.toPrecision(4)}, theory ${wanted.toPrecision(4)}`
  )
}

/** The part of the arrivals that find all of `c` servers taken: Erlang's formula B. */
function erlangB (c: number, load: number): number {
  let blocked = 1
  for (let servers = 1; servers <= c; servers++) {
    blocked = load * blocked / (servers + load * blocked)
  }
  return blocked
}

/** The mean response time of M/M/c (ms) by Erlang's formula C. */
function responseMs (c: number, load: number, serviceMs: number): number {
  const blocked = erlangB(c, load)
  const waits = blocked / (1 - load / c * (1 - blocked))
  return serviceMs + waits * serviceMs / (c - load)
}

t.test('one connection is M/M/1, and M/D/1 with constant times', async t => {
  for (const load of [0.5, 0.7]) {
    const setting = { ...free, poolSize: 1, work: { ...work, databaseMs: load } }
    near(t, simulate(setting).meanMs, load / (1 - load), `M/M/1 at ${load}`)
    near(
      t,
      simulate({ ...setting, spread: 'constant' }).meanMs,
      load + load * load / (2 * (1 - load)),
      `M/D/1 at ${load}, by Pollaczek and Khinchine`
    )
  }
})

t.test('a pool is M/M/c, and refuses by Erlang B without a queue', async t => {
  for (const [c, load] of [[2, 1.4], [4, 2.8], [10, 7]] as const) {
    const setting = { ...free, poolSize: c, work: { ...work, databaseMs: load } }
    near(t, simulate(setting).meanMs, responseMs(c, load, load), `M/M/${c}`)
    for (const spread of ['constant', 'exponential'] as const) {
      const { refused, served, arrived } = simulate({ ...setting, queueSize: 0, spread })
      near(t, refused, erlangB(c, load), `refusals of M/G/${c}/${c}, ${spread} times`)
      near(t, served, arrived * (1 - refused), 'every batch is served or refused')
    }
  }
})

t.test('the cores of the database are shared', async t => {
  const one = { ...free, databaseCores: 1, work: { ...work, databaseMs: 0.7 } }
  for (const spread of ['constant', 'exponential'] as const) {
    near(t, simulate({ ...one, spread }).meanMs, 0.7 / 0.3, `M/G/1 processor sharing, ${spread}`)
  }
  const four = { ...one, databaseCores: 4, work: { ...work, databaseMs: 2.8 } }
  near(t, simulate(four).meanMs, responseMs(4, 2.8, 2.8), 'M/M/4 processor sharing')
  const rare = { ...one, rate: 1, batches: 5000, work: { ...work, databaseMs: 1 } }
  near(t, simulate({ ...rare, others: 3 }).meanMs, 4, 'one of four jobs on a core')
})

t.test('the service shares the cores of the database on one machine', async t => {
  const both = { ...work, requestMs: 0.3, databaseMs: 0.3 }
  const apart = { ...free, batches: 20_000, work: both }
  const { threads } = simulate(apart)
  near(t, threads, 0.3, 'a process has a core of its own')
  const shared = simulate({ ...apart, shared: true, databaseCores: 1 })
  t.ok(shared.threads > 0.4, 'a process waits for the shared core')
  t.ok(shared.meanMs > simulate(apart).meanMs * 1.5)
})

t.test('Little and the utilization law hold', async t => {
  const busy = {
    ...free,
    batches: 40_000,
    processes: 2,
    poolSize: 8,
    databaseCores: 4,
    work: {
      ...work,
      requestMs: 0.4,
      responseMs: 0.2,
      releaseMs: 0.1,
      databaseMs: 2,
      idleMs: 0.2,
      roundTripMs: 1,
      flushMs: 0.5
    }
  }
  const { served, threads, connections, transactionMs, meanMs } = simulate(busy)
  near(t, threads, served * 0.7 / 1000, 'threads = throughput × processor time')
  // A batch holds its connection for its transaction, the other half of the round trip with the
  // reset, and its turn in the process.
  const heldMs = connections / served * 1000
  t.ok(heldMs > transactionMs && heldMs < transactionMs + 1.5, `${heldMs}, ${transactionMs}`)
  t.ok(meanMs > transactionMs)
  const all = simulate({ ...free, work: { ...work, databaseMs: 5 } })
  near(t, all.connections, all.served * all.meanMs / 1000, 'connections = throughput × time')
  near(t, all.transactionMs, 5, 'time of a transaction without a wait')
})

t.test('one flush commits all that wait for it', async t => {
  const rare = simulate({ ...free, rate: 10, batches: 5000, work: { ...work, flushMs: 2 } })
  near(t, rare.meanMs, 2, 'a batch that is alone waits for its own flush')
  near(t, rare.batchesPerFlush, 1, 'batches per flush')
  const often = simulate({ ...free, batches: 20_000, rate: 8000, work: { ...work, flushMs: 2 } })
  near(t, often.meanMs, 3, 'half of the flush before, and its own')
  near(t, often.batchesPerFlush, 16, 'batches per flush')
  near(t, often.served, 8000, 'the log does not limit the throughput')
})

t.test('a hot row runs one batch at a time, from its lock to the end of COMMIT', async t => {
  const row = { ...free, rate: 400, hot: 1, work: { ...work, databaseMs: 2 } }
  near(t, simulate(row).meanMs, 2 / 0.2, 'M/M/1')
  const held = { ...work, databaseMs: 1, flushMs: 1 }
  const over = { ...row, batches: 20_000, rate: 2000, work: held, poolSize: 10, queueSize: 40 }
  near(t, simulate({ ...over, spread: 'constant' }).served, 500, 'no commits share a flush')
  near(t, simulate({ ...over, poolSize: 20, spread: 'constant' }).served, 500, 'nor do more help')
  t.ok(simulate({ ...over, hot: 0.1 }).served > 1900, 'rows that differ do not wait')
})

t.test('a full queue refuses at its own cost', async t => {
  const full = simulate({
    ...free,
    batches: 20_000,
    poolSize: 1,
    queueSize: 4,
    work: { ...work, databaseMs: 2, refusalMs: 0.1 }
  })
  near(t, full.served, 500, 'the connection is always taken')
  near(t, full.threads, full.arrived * full.refused * 0.1 / 1000, 'time to refuse')
  t.ok(full.p99Ms < 30)
})

t.test('a seed has one result', async t => {
  const setting = { ...free, batches: 2000, poolSize: 2, work: { ...work, databaseMs: 1 } }
  t.strictSame(simulate(setting), simulate(setting))
  t.not(simulate(setting).meanMs, simulate({ ...setting, seed: 8 }).meanMs)
})
