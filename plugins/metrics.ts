/**
 * Prometheus metrics. Names, labels and units are a public contract. Label values are bounded in
 * number: values that only a client names become `other`. The admin server serves the metrics.
 */
import type { FastifyInstance } from 'fastify'
import metricsModule, { type IFastifyMetrics } from 'fastify-metrics'
import fp from 'fastify-plugin'
import { catalogue } from '../src/errors/catalogue.ts'
import { conditions } from '../src/errors/conditions.ts'
import type { ConnectionCount } from '../src/postgres/pool.ts'
import type { Observer } from '../src/transaction/observer.ts'
import type { BatchReport, OperationReport } from '../src/transaction/report.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The label `kind` of the requests of a route. */
    kind?: 'batch'
  }
}

type Client = IFastifyMetrics['client']
type Registry = InstanceType<Client['Registry']>

// A CommonJS module: Node nests its default export.
const { default: fastifyMetrics } = metricsModule

const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000]

async function metrics (app: FastifyInstance): Promise<void> {
  const client = await loadClient(app)
  // The library's global registry refuses a second app in the same process.
  const register: Registry = new client.Registry()
  await app.register(fastifyMetrics, {
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
  app.decorate('observer', createObserver(client, register, batchLabel))
  const errors = new client.Counter({
    name: 'service_error_count',
    help: 'Error responses, by code, without malformed HTTP and disconnected clients',
    labelNames: ['code'],
    registers: [register]
  })
  const namedErrors = new client.Counter({
    name: 'service_batch_error_count',
    help: 'Error responses to requests for named batches, by name and code',
    labelNames: ['batch', 'code'],
    registers: [register]
  })
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

/**
 * Returns the client library (prom-client) of fastify-metrics, which provides it only to apps that
 * registered the plugin.
 */
export async function loadClient (app: FastifyInstance): Promise<Client> {
  let client: Client | undefined
  await app.register(async child => {
    await child.register(fastifyMetrics, {
      endpoint: null,
      defaultMetrics: { enabled: false },
      routeMetrics: { enabled: false }
    })
    client = child.getDecorator<IFastifyMetrics>('metrics').client
  })
  return client as Client
}

function createObserver (
  client: Client,
  register: Registry,
  batchLabel: BoundedLabel
): Observer {
  const retries = new client.Counter({
    name: 'service_txn_retry_count',
    help: 'Transaction retries, by reason',
    labelNames: ['reason'],
    registers: [register]
  })
  const behind = new client.Counter({
    name: 'service_replica_behind_count',
    help: 'Batches whose position the replica did not reach in time',
    registers: [register]
  })
  const countTransaction = createTransactionMetrics(client, register)
  const countNamed = createLabelMetrics(client, register, NAMED)
  const countNamedOperation = new client.Counter({
    name: 'service_batch_op_count',
    help: 'Operations of named batches, by name and outcome',
    labelNames: ['batch', 'outcome'],
    registers: [register]
  })
  const countRouted = createLabelMetrics(client, register, ROUTED)
  const countOperation = createOperationMetrics(client, register)
  return {
    retry (reason) {
      retries.inc({ reason })
    },
    replicaBehind: () => behind.inc(),
    batch (batch, { batch: name, route }) {
      countTransaction(batch)
      if (name !== undefined) {
        const label = batchLabel(name)
        countNamed(label, batch)
        for (const { outcome } of batch.operations) {
          countNamedOperation.inc({ batch: label, outcome })
        }
      }
      if (route !== undefined) countRouted(route, batch)
      for (const operation of batch.operations) countOperation(operation)
    },
    pools: pools => createPoolMetrics(client, register, pools),
    routes: probes => createRouteMetrics(client, register, probes),
    async scrape () {
      return { text: await register.metrics(), type: register.contentType }
    },
    snapshot: () => register.getMetricsAsJSON()
  }
}

function createTransactionMetrics (
  client: Client,
  register: Registry
): (batch: BatchReport) => void {
  const common = { labelNames: ['role', 'outcome'], registers: [register] }
  const count = new client.Counter({
    name: 'service_txn_count',
    help: 'Transactions started, by role and outcome',
    ...common
  })
  const duration = new client.Histogram({
    name: 'service_txn_duration_milliseconds',
    help: 'Transaction duration from BEGIN to the result of COMMIT or the failure, in milliseconds',
    buckets: BUCKETS_MS,
    ...common
  })
  return ({ role = 'other', outcome, ms }) => {
    count.inc({ role, outcome })
    duration.observe({ role, outcome }, ms)
  }
}

interface LabelMetrics {
  readonly label: string
  readonly count: { readonly name: string, readonly help: string }
  readonly duration: { readonly name: string, readonly help: string }
}

const NAMED: LabelMetrics = {
  label: 'batch',
  count: {
    name: 'service_batch_count',
    help: 'Named batches started, by name and outcome'
  },
  duration: {
    name: 'service_batch_duration_milliseconds',
    help: 'Transaction duration of named batches, in milliseconds'
  }
}

/** By database and not by the claim, whose values can be many. */
const ROUTED: LabelMetrics = {
  label: 'route',
  count: {
    name: 'service_route_count',
    help: 'Transactions started, by database of DATABASE_ROUTES and outcome'
  },
  duration: {
    name: 'service_route_duration_milliseconds',
    help: 'Transaction duration by database of DATABASE_ROUTES, in milliseconds'
  }
}

/** Creates separate metrics, because a further label would multiply the series of all batches. */
function createLabelMetrics (
  client: Client,
  register: Registry,
  { label, ...metrics }: LabelMetrics
): (value: string, batch: BatchReport) => void {
  const common = { labelNames: [label, 'outcome'], registers: [register] }
  const count = new client.Counter({ ...metrics.count, ...common })
  const duration = new client.Histogram({ ...metrics.duration, buckets: BUCKETS_MS, ...common })
  return (value, { outcome, ms }) => {
    count.inc({ [label]: value, outcome })
    duration.observe({ [label]: value, outcome }, ms)
  }
}

function createOperationMetrics (
  client: Client,
  register: Registry
): (operation: OperationReport) => void {
  const common = { labelNames: ['op', 'outcome'], registers: [register] }
  const count = new client.Counter({
    name: 'service_op_count',
    help: 'Operations completed or failed, by outcome',
    ...common
  })
  const duration = new client.Histogram({
    name: 'service_op_duration_milliseconds',
    help: 'Time from the result of the previous statement to that of the operation, ' +
      'in milliseconds',
    buckets: BUCKETS_MS,
    ...common
  })
  const exceptions = new client.Counter({
    name: 'service_op_exceptions',
    help: 'Operations failed, by table',
    labelNames: ['op', 'table'],
    registers: [register]
  })
  const skipped = new client.Counter({
    name: 'service_op_skipped_count',
    help: 'Operations skipped because of "when"',
    labelNames: ['op'],
    registers: [register]
  })
  const tableLabel = createBoundedLabel(MAX_TABLES)
  return ({ op, table, outcome, ms }) => {
    if (outcome === 'skipped') return skipped.inc({ op })
    count.inc({ op, outcome })
    duration.observe({ op, outcome }, ms)
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
  client: Client,
  register: Registry,
  pools: Parameters<Observer['pools']>[0]
): void {
  for (const [name, help, read] of POOL_METRICS) {
    const gauge = new client.Gauge({
      name,
      help,
      labelNames: ['server', 'route'],
      registers: [register],
      collect () {
        for (const [labels, pool] of pools) gauge.set({ ...labels }, read(pool.count()))
      }
    })
  }
}

function createRouteMetrics (
  client: Client,
  register: Registry,
  probes: Parameters<Observer['routes']>[0]
): void {
  const gauge = new client.Gauge({
    name: 'service_route_up',
    help: 'Whether a database of DATABASE_ROUTES answers (1) or not (0)',
    labelNames: ['route'],
    registers: [register],
    // With several workers, 0 if one of them does not reach the database.
    aggregator: 'min',
    async collect () {
      await Promise.all(Array.from(probes, async ([route, probe]) => {
        gauge.set({ route }, await probe.reachable() ? 1 : 0)
      }))
    }
  })
}

export default fp(metrics, { name: 'metrics', dependencies: ['request-log'] })
