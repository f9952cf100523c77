/**
 * Compares the simulation with the service: simulates each measured load on the machine that ran
 * it, where the service, PostgreSQL and all other processes share the cores. What a batch costs is
 * measured in the same slice, so the comparison is one of queues and response times.
 */
import { show, showFigure } from '../../../bench/goals.ts'
import { renderTable } from '../../../bench/ratios.ts'
import { spreadOf } from '../../../bench/record.ts'
import type { Slice } from './measure.ts'
import type { Comparison, Measured } from './measured.ts'
import { simulate, type Setting, type Simulated, type Work } from './simulate.ts'

/** How the processor time of a batch is divided. Only the sums were measured. */
const SHARES = { request: 0.5, response: 0.4, release: 0.1, reset: 0.15 }

const BATCHES = 10_000

export interface Compared {
  readonly comparison: Comparison
  readonly simulated: Simulated
}

/** Simulates every load of a record. */
export function compareAll (measured: Measured): readonly Compared[] {
  return measured.comparisons.map(comparison => {
    const inputs = { comparison, cores: measured.machine.cores, refusal: measured.refusalPerBatch }
    // The waits that use no processor are fitted to the calmest load of the same service.
    const calm = simulate(settingOf(inputs, comparison.calibration, 0))
    const idleMs = Math.max(0, comparison.calibration.transactionMs - calm.transactionMs)
    return { comparison, simulated: simulate(settingOf(inputs, comparison.slice, idleMs)) }
  })
}

interface Inputs {
  readonly comparison: Comparison
  readonly cores: number
  readonly refusal: number
}

function settingOf ({ comparison, cores, refusal }: Inputs, slice: Slice, idleMs: number): Setting {
  const { poolSize, queueSize, roundTripMs } = comparison
  const { arrived, refused, served, flushMs } = slice
  const serviceMs = slice.serviceCpuMs / (served + arrived * refused * refusal)
  return {
    seed: 1,
    rate: arrived,
    batches: BATCHES,
    work: splitWork({
      serviceMs,
      databaseMs: slice.databaseCpuMs / served,
      refusalMs: serviceMs * refusal,
      idleMs,
      roundTripMs,
      flushMs
    }),
    spread: 'exponential',
    processes: 1,
    poolSize,
    queueSize,
    databaseCores: cores,
    shared: true,
    others: slice.others,
    hot: 0
  }
}

/** Processor times of a whole batch in the service and in the database, and its other costs. */
interface WholeWork extends Pick<Work, 'refusalMs' | 'idleMs' | 'roundTripMs' | 'flushMs'> {
  readonly serviceMs: number
  readonly databaseMs: number
}

/** Divides the processor times of a batch among its stations. */
export function splitWork ({ serviceMs, databaseMs, ...others }: WholeWork): Work {
  return {
    requestMs: serviceMs * SHARES.request,
    responseMs: serviceMs * SHARES.response,
    releaseMs: serviceMs * SHARES.release,
    databaseMs: databaseMs * (1 - SHARES.reset),
    resetMs: databaseMs * SHARES.reset,
    ...others
  }
}

/** The simulation beside the service, and its errors. */
export function renderReality (measured: Measured): string {
  const compared = compareAll(measured)
  const rows = compared.map(({ comparison, simulated }) => {
    const { poolSize, roundTripMs, slice } = comparison
    const pair = (ofSlice: number, ofSimulation: number): string =>
      `${show(ofSlice)} / ${show(ofSimulation)}`
    return [
      `${poolSize}, ${roundTripMs} ms`,
      show(slice.arrived),
      pair(slice.served, simulated.served),
      pair(slice.refused * 100, simulated.refused * 100),
      pair(slice.connections, simulated.connections),
      pair(slice.p50Ms, simulated.p50Ms),
      pair(slice.p99Ms, simulated.p99Ms),
      show(slice.others)
    ]
  })
  const errors = ERRORS.map(({ name, errorOf }) => [
    name,
    ...[true, false].map(isLong => {
      const group = compared.filter(({ comparison }) => (comparison.roundTripMs > 0) === isLong)
      const figure = spreadOf(group.map(one => errorOf(one) * 100))
      return showFigure({ figure, unit: ' %' })
    })
  ])
  const head = [
    '`POOL_SIZE`, round trip',
    'Arrived/s',
    'Served/s',
    'Refused, %',
    'Taken connections',
    'Median, ms',
    '99th percentile, ms',
    'Other jobs'
  ]
  const groups = ['Error of', 'the connections are the limit', 'the processors are the limit']
  return [renderTable(head, rows), renderTable(groups, errors), describeRun(measured)].join('\n\n')
}

function describeRun ({ date, machine: { cpu, cores } }: Measured): string {
  return `Measured by \`npm run growth\` on ${date.slice(0, 10)}: ${cpu}, ${cores} cores.`
}

interface ErrorOf {
  readonly name: string
  /** The part by which the simulation differs from what was measured. */
  readonly errorOf: (compared: Compared) => number
}

const relative = (name: 'served' | 'connections' | 'p50Ms' | 'p99Ms') =>
  ({ comparison, simulated }: Compared): number =>
    simulated[name] / comparison.slice[name] - 1

const ERRORS: readonly ErrorOf[] = [
  { name: 'Served/s', errorOf: relative('served') },
  { name: 'Taken connections', errorOf: relative('connections') },
  { name: 'Median', errorOf: relative('p50Ms') },
  { name: '99th percentile', errorOf: relative('p99Ms') }
]
