/**
 * Prometheus metrics. Names, labels and units are a public contract. Label values are bounded in
 * number: values that only a client names become `other`. The admin server serves the metrics.
 */
import client, { type Counter, type Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import metricsModule from 'fastify-metrics'
import fp from 'fastify-plugin'
import { catalogue } from '../src/errors/catalogue.ts'
import { conditions } from '../src/errors/conditions.ts'
import type { ConnectionCount } from '../src/postgres/pool.ts'
import type { Observer } from '../src/transaction/decorators.ts'
import type { OperationReport } from '../src/transaction/report.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    kind?: 'batch'
  }
}

// A CommonJS module: Node nests its default export.
const { default: fastifyMetrics } = metricsModule

const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000]

async function metrics (app: FastifyInstance): Promise<void> {
  // The library's global registry refuses a second app in the same process.
  const register = new client.Registry()
  await app.register(fastifyMetrics, {
    promClient: client,
    endpoint: null,
    name: 'prometheus',
    defaultMetrics: { enabled: true, register },
    routeMetrics: {
      enabled: { histogram: true, summary: false },
      customLabels: { kind: ({ routeOptions }) => routeOptions.config.kind ?? 'other' },
      overrides: {
        histogram: { registers: [register] },
        summary: { registers: [new client.Registry()] }
      }
    }
  })
  const batchLabel = createBoundedLabel(MAX_BATCHES)
  const metrics = createMetrics(register)
  app.decorate('observer', createObserver(metrics, batchLabel))
  const errors = metrics.counter(
    ['code'],
    'service_error_count',
    'Failed requests, by code, without malformed HTTP and disconnected clients'
  )
  const namedErrors = metrics.counter(
    ['batch', 'code'],
    'service_batch_error_count',
    'Failed requests for named batches, by name and code'
  )
  app.addHook('onResponse', ({ access: { failure, batch } }, _reply, done) => {
    if (failure !== undefined) {
      const code = codes.has(failure.code) ? failure.code : 'other'
      errors.inc({ code })
      if (batch !== undefined) namedErrors.inc({ batch: batchLabel(batch), code })
    }
    done()
  })
}

/** Known error codes. Functions of a database can raise any SQLSTATE, which is then the code. */
const codes: ReadonlySet<string> = new Set([...Object.keys(catalogue), ...conditions.values()])

type Described = readonly [name: string, help: string]
type Metrics = ReturnType<typeof createMetrics>

function createMetrics (register: Registry) {
  const registers = [register]
  const counter = (labelNames: readonly string[], ...[name, help]: Described): Counter<string> =>
    new client.Counter({ name, help, labelNames, registers })
  return {
    register,
    counter,
    /** Creates a counter and a histogram of milliseconds. Returns what adds to both. */
    timer (labelNames: readonly string[], counted: Described, [name, help]: Described) {
      const count = counter(labelNames, ...counted)
      const duration = new client.Histogram({
        name,
        help,
        labelNames,
        registers,
        buckets: BUCKETS_MS
      })
      return (labels: Readonly<Record<string, string>>, ms: number): void => {
        count.inc(labels)
        duration.observe(labels, ms)
      }
    }
  }
}

function createObserver (metrics: Metrics, batchLabel: BoundedLabel): Observer {
  const { register } = metrics
  const retries = metrics.counter(
    ['reason'],
    'service_txn_retry_count',
    'Transaction retries, by reason'
  )
  const behind = metrics.counter(
    [],
    'service_replica_behind_count',
    'Batches whose position the replica did not reach in time'
  )
  const addTransaction = metrics.timer(
    ['role', 'outcome'],
    ['service_txn_count', 'Transactions started, by role and outcome'],
    [
      'service_txn_duration_milliseconds',
      'Transaction duration from BEGIN to the result of COMMIT or the failure, in milliseconds'
    ]
  )
  // Separate metrics, because a further label would multiply the series of all batches.
  const addNamed = metrics.timer(
    ['batch', 'outcome'],
    ['service_batch_count', 'Named batches started, by name and outcome'],
    [
      'service_batch_duration_milliseconds',
      'Transaction duration of named batches, in milliseconds'
    ]
  )
  const namedOperations = metrics.counter(
    ['batch', 'outcome'],
    'service_batch_op_count',
    'Operations of named batches, by name and outcome'
  )
  const addOperation = createOperationMetrics(metrics)
  return {
    retry (reason) {
      retries.inc({ reason })
    },
    replicaBehind: () => behind.inc(),
    batch ({ role = 'other', outcome, ms, operations }, name) {
      addTransaction({ role, outcome }, ms)
      if (name !== undefined) {
        const batch = batchLabel(name)
        addNamed({ batch, outcome }, ms)
        for (const { outcome } of operations) namedOperations.inc({ batch, outcome })
      }
      for (const operation of operations) addOperation(operation)
    },
    pools: pools => createPoolMetrics(metrics, pools),
    async scrape () {
      return { text: await register.metrics(), type: register.contentType }
    },
    snapshot: () => register.getMetricsAsJSON()
  }
}

function createOperationMetrics (metrics: Metrics): (operation: OperationReport) => void {
  const add = metrics.timer(
    ['op', 'outcome'],
    ['service_op_count', 'Operations completed or failed, by outcome'],
    [
      'service_op_duration_milliseconds',
      'Time from the result of the previous statement to that of the operation, in milliseconds'
    ]
  )
  const exceptions = metrics.counter(
    ['op', 'table'],
    'service_op_exceptions',
    'Operations failed, by table'
  )
  const skipped = metrics.counter(
    ['op'],
    'service_op_skipped_count',
    'Operations skipped because of "when"'
  )
  const tableLabel = createBoundedLabel(MAX_TABLES)
  return ({ op, table, outcome, ms }) => {
    if (outcome === 'skipped') return skipped.inc({ op })
    add({ op, outcome }, ms)
    if (outcome === 'error') exceptions.inc({ op, table: tableLabel(table) })
  }
}

/**
 * Maximum distinct table names in labels: clients can name any number of tables that do not exist.
 */
const MAX_TABLES = 1000

/** Maximum names of batches in labels. Files can get other names while the process runs. */
const MAX_BATCHES = 200

/** Returns a name, or `other` when there are too many, or none. */
type BoundedLabel = (name: string | undefined) => string

function createBoundedLabel (max: number): BoundedLabel {
  const names = new Set<string>()
  return name => {
    if (name === undefined || (names.size >= max && !names.has(name))) return 'other'
    names.add(name)
    return name
  }
}

const POOL_METRICS: ReadonlyArray<
  readonly [name: string, help: string, read: (count: ConnectionCount) => number]
> = [
  ['service_pool_connections_busy', 'Database connections in a transaction', ({ busy }) => busy],
  ['service_pool_connections_idle', 'Idle database connections', ({ idle }) => idle],
  ['service_pool_waiting', 'Batches waiting for a database connection', ({ waiting }) => waiting]
]

function createPoolMetrics (
  { register }: Metrics,
  pools: Parameters<Observer['pools']>[0]
): void {
  for (const [name, help, read] of POOL_METRICS) {
    const gauge = new client.Gauge({
      name,
      help,
      labelNames: ['server'],
      registers: [register],
      collect () {
        for (const [server, pool] of pools) gauge.set({ server }, read(pool.count()))
      }
    })
  }
}

export default fp(metrics, { name: 'metrics', dependencies: ['request-log'] })
