/**
 * The database: opens the connection pools and the health check with the app, and closes them with
 * it.
 */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import type { DatabaseTarget } from '../schemas/database.ts'
import type { DatabaseError } from '../src/errors/database-error.ts'
import { withoutValues } from '../src/errors/postgres.ts'
import type { Connection } from '../src/postgres/connection.ts'
import { HealthCheck } from '../src/postgres/health-check.ts'
import { ConnectionPool } from '../src/postgres/pool.ts'
import { Compiler } from '../src/sql/compiler.ts'
import { startupSettings } from '../src/sql/frame/session.ts'
import type { Database, Observer, Server } from '../src/transaction/decorators.ts'
import { startKeyPruner, type KeyPruner } from '../src/transaction/prune-keys.ts'
import { batchSettings } from '../src/transaction/run-batch.ts'

export interface DatabaseOptions {
  readonly config: Config
  readonly database: DatabaseTarget
  /** The server of read-only batches; undefined: the primary. */
  readonly replica: DatabaseTarget | undefined
}

/** How often, in milliseconds, expired idempotency keys are deleted. */
const PRUNE_MS = 60_000

async function database (
  app: FastifyInstance,
  { config, database: target, replica: replicaTarget }: DatabaseOptions
): Promise<void> {
  const { log } = app
  const warn = createWarning(log)
  const pool = openPool(log, { config, target, warn })
  const replica = replicaTarget === undefined
    ? undefined
    : openPool(log, { config, target: replicaTarget, warn, logFields: { server: 'replica' } })
  const pools = new Map<Server, ConnectionPool>([
    ['primary', pool],
    ...replica === undefined ? [] : [['replica', replica] as const]
  ])
  const probe = new HealthCheck(target, change => {
    if ('failed' in change) {
      const reason = withoutValues(change.failed as DatabaseError)
      log.warn({ reason }, 'health check of the database failed')
    } else log.info('health check of the database succeeded again')
  })
  let pruner: KeyPruner | undefined
  app.getDecorator<Observer>('observer').pools(pools)
  app.decorate<Database>('database', {
    pool,
    replica,
    probe,
    compiler: new Compiler(batchSettings(config))
  })
  // Not awaited: the service starts without a database.
  app.addHook('onReady', done => {
    for (const opened of pools.values()) opened.warm()
    pruner = startKeyPruner({
      target,
      everyMs: PRUNE_MS,
      onRefused: ({ code }) =>
        log.warn({ sqlstate: code }, 'could not delete expired idempotency keys')
    })
    done()
  })
  // onClose runs after the server has answered its last request.
  app.addHook('onClose', async () => {
    await Promise.all([
      ...[...pools.values()].map(opened => opened.close()),
      probe.close(),
      pruner?.close()
    ])
  })
}

type Warn = (fields: object, message: string) => void

/** Logs each warning once, although every connection has it. */
function createWarning (log: FastifyBaseLogger): Warn {
  const logged = new Set<string>()
  return (fields, message) => {
    const key = JSON.stringify([fields, message])
    if (!logged.has(key)) log.warn(fields, message)
    logged.add(key)
  }
}

interface OpenPoolOptions {
  readonly config: Config
  readonly target: DatabaseTarget
  readonly warn: Warn
  readonly logFields?: { readonly server?: 'replica' }
}

/** Opens a pool that logs when connecting fails and when it succeeds again. */
function openPool (log: FastifyBaseLogger, options: OpenPoolOptions): ConnectionPool {
  const { config, target, logFields = {} } = options
  const settings = batchSettings(config)
  let product: string | undefined
  /** Reasons of failed connections that were logged since the last success. */
  const logged = new Set<string>()
  return new ConnectionPool({
    target,
    size: config.POOL_SIZE,
    queueSize: config.QUEUE_SIZE,
    queueTimeoutMs: config.QUEUE_TIMEOUT_MS,
    batchTimeoutMs: config.REQUEST_TIMEOUT_MS,
    prepares: config.PREPARED_STATEMENTS === 'on',
    extraSchemas: config.DB_EXTRA_SEARCH_PATH.filter(schema => !config.DB_SCHEMAS.includes(schema)),
    startup: connection => startupSettings(settings, connection),
    onOpened: connection => {
      if (product !== connection.product) {
        ;({ product } = connection)
        log.info({ ...logFields, product }, 'connected to the database')
      } else if (logged.size > 0) log.info(logFields, 'reconnected to the database')
      logged.clear()
      warnAbout(connection, options)
    },
    // Every request tries to connect: each reason is logged once. Only the message is logged,
    // without values, because error objects of postgres.js carry the options of DATABASE_URL.
    onOpenFailed: error => {
      const reason = withoutValues(error as DatabaseError)
      if (logged.has(reason)) return
      log.warn({ ...logFields, reason }, 'could not connect to the database')
      logged.add(reason)
    }
  })
}

function warnAbout (
  { privileged, isStandby, overridden, losesCommits, rolesWithoutLogin, unsafeSchemas }: Connection,
  { target: { user, engine, targetSessionAttrs }, warn, logFields = {} }: OpenPoolOptions
): void {
  const isPrimary = logFields.server === undefined
  const warnIf = (applies: boolean, fields: object, message: string): void => {
    if (applies) warn({ ...logFields, ...fields }, message)
  }
  warnIf(privileged, { role: user }, 'login role is superuser or has BYPASSRLS: privileges and ' +
    'row-level security do not restrict the service')
  warnIf(isStandby && isPrimary && targetSessionAttrs === 'any', {}, 'the server is a standby: ' +
    'batches that write are refused. Connect to the primary, or set target_session_attrs=standby ' +
    'to serve reads only')
  warnIf(overridden !== undefined, { engine, reason: overridden },
    'DATABASE_ENGINE overrides the refusal of this database: policies may fail open')
  // Batches on the replica commit nothing.
  warnIf(losesCommits && isPrimary, {},
    'replication is asynchronous: a failover can lose batches that were answered 200')
  warnIf(rolesWithoutLogin.length > 0, { roles: rolesWithoutLogin }, 'Citus logs in to its ' +
    'workers as the role of a batch: batches of these roles fail, because they have no LOGIN')
  for (const unsafe of unsafeSchemas) {
    warn(unsafe, 'ignoring a schema of DB_EXTRA_SEARCH_PATH: token roles can create objects in it')
  }
}

export default fp(database, { name: 'database', dependencies: ['metrics'] })
