/**
 * Prometheus metrics: the names, labels and units of the contract. Labels are bounded: what only a
 * client claims is `other`. The text is served by the admin server; nothing is served here.
 */
import type { FastifyInstance } from 'fastify'
import metricsModule, { type IFastifyMetrics } from 'fastify-metrics'
import fp from 'fastify-plugin'
import { catalogue } from '../src/errors/catalogue.ts'
import { conditions } from '../src/errors/conditions.ts'
import type { Observer } from '../src/transaction/observer.ts'
import type { ConnectionCount } from '../src/postgres/pool.ts'

type Client = IFastifyMetrics['client']
type Registry = InstanceType<Client['Registry']>

// A CommonJS module whose default export Node hands over inside of it.
const { default: fastifyMetrics } = metricsModule

const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000]

async function metrics (app: FastifyInstance): Promise<void> {
  const client = await borrowClient(app)
  // A registry of its own: the global one refuses a second app in the same process.
  const register: Registry = new client.Registry()
  await app.register(fastifyMetrics, {
    endpoint: null,
    name: 'prometheus',
    defaultMetrics: { enabled: true, register },
    routeMetrics: {
      enabled: { histogram: true, summary: false },
      overrides: {
        histogram: { registers: [register] },
        summary: { registers: [new client.Registry()] }
      }
    }
  })
  app.decorate('observer', createObserver(client, register))
  const errors = new client.Counter({
    name: 'service_error_count',
    help: 'Answers other than 2xx, by code; those to bytes that are no HTTP and to clients ' +
      'that went away are not among them',
    labelNames: ['code'],
    registers: [register]
  })
  app.addHook('onResponse', async ({ access: { failure } }) => {
    if (failure !== undefined) {
      errors.inc({ code: codes.has(failure.code) ? failure.code : 'other' })
    }
  })
}

/** A function of the database can raise any SQLSTATE; one without a name is its own code. */
const codes: ReadonlySet<string> = new Set([...Object.keys(catalogue), ...conditions.values()])

/**
 * The client library, by way of any app. It is a dependency of fastify-metrics, which hands it out
 * only after it was registered.
 */
export async function borrowClient (app: FastifyInstance): Promise<Client> {
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

/** Tables that a role may not look at may not exist: names are bounded in number as well. */
const MAX_TABLES = 1000

function createObserver (client: Client, register: Registry): Observer {
  const tables = new Set<string>()
  const known = (table: string | undefined): string => {
    if (table === undefined || (tables.size >= MAX_TABLES && !tables.has(table))) return 'other'
    tables.add(table)
    return table
  }
  const registers = [register]
  const transactions = new client.Counter({
    name: 'service_txn_count',
    help: 'Transactions that reached BEGIN',
    labelNames: ['role', 'outcome'],
    registers
  })
  const transactionTimes = new client.Histogram({
    name: 'service_txn_duration_milliseconds',
    help: 'From BEGIN to the answer of COMMIT or the failure, in milliseconds',
    labelNames: ['role', 'outcome'],
    buckets: BUCKETS_MS,
    registers
  })
  const operations = new client.Counter({
    name: 'service_op_count',
    help: 'Operations that were answered or failed',
    labelNames: ['op', 'outcome'],
    registers
  })
  const operationTimes = new client.Histogram({
    name: 'service_op_duration_milliseconds',
    help: 'From the answer before to the answer of the operation, in milliseconds',
    labelNames: ['op', 'outcome'],
    buckets: BUCKETS_MS,
    registers
  })
  const exceptions = new client.Counter({
    name: 'service_op_exceptions',
    help: 'Operations that failed',
    labelNames: ['op', 'table'],
    registers
  })
  const retries = new client.Counter({
    name: 'service_txn_retry_count',
    help: 'Further flights of transactions, by what had become of the one before',
    labelNames: ['reason'],
    registers
  })
  return {
    retry (reason) {
      retries.inc({ reason })
    },
    batch (batch) {
      const labels = { role: batch.role ?? 'other', outcome: batch.outcome }
      transactions.inc(labels)
      transactionTimes.observe(labels, batch.ms)
      for (const { op, table, outcome, ms } of batch.operations) {
        operations.inc({ op, outcome })
        operationTimes.observe({ op, outcome }, ms)
        if (outcome === 'error') exceptions.inc({ op, table: known(table) })
      }
    },
    pools (pools) {
      const gauge = (name: string, help: string, read: (count: ConnectionCount) => number) =>
        new client.Gauge({
          name,
          help,
          labelNames: ['server'],
          registers,
          collect () {
            for (const [server, pool] of pools) this.set({ server }, read(pool.count()))
          }
        })
      gauge(
        'service_pool_lanes_busy',
        'Database connections that carry a transaction',
        ({ busy }) => busy
      )
      gauge('service_pool_lanes_idle', 'Database connections that are idle', ({ idle }) => idle)
      gauge(
        'service_pool_waiting',
        'Batches that wait for a database connection',
        ({ waiting }) => waiting
      )
    },
    async scrape () {
      return { text: await register.metrics(), type: register.contentType }
    },
    snapshot: () => register.getMetricsAsJSON()
  }
}

export default fp(metrics, { name: 'metrics', fastify: '5.x', dependencies: ['request-log'] })
