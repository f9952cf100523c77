/**
 * The database: the pools of connections and the probe, opened with the app and closed with it.
 * Nothing of a batch is known here.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import type { DatabaseTarget } from '../schemas/database.ts'
import { withoutValues, type DatabaseError } from '../src/errors/postgres.ts'
import type { Database } from '../src/transaction/database.ts'
import type { Connection } from '../src/postgres/connection.ts'
import { createPool, type ConnectionPool } from '../src/postgres/pool.ts'
import { createHealthCheck } from '../src/postgres/health-check.ts'
import { startKeyPruner, type KeyPruner } from '../src/transaction/prune-keys.ts'
import type { Observer, Server } from '../src/transaction/observer.ts'

export interface DbOptions {
  readonly config: Config
  readonly database: DatabaseTarget
  /** Where read-only batches go, when that is another server. */
  readonly replica: DatabaseTarget | undefined
}

/** How often expired idempotency keys are deleted. */
const PRUNE_MS = 60_000

async function db (
  app: FastifyInstance,
  { config, database, replica: replicaTarget }: DbOptions
): Promise<void> {
  const warnOfSchemas = makeSchemaWarning(app)
  const pool = openPool(app, { config, target: database, warnOfSchemas })
  const replica = replicaTarget === undefined
    ? undefined
    : openPool(app, { config, target: replicaTarget, warnOfSchemas, which: { server: 'replica' } })
  const pools = new Map<Server, ConnectionPool>([
    ['primary', pool],
    ...replica === undefined ? [] : [['replica', replica] as const]
  ])
  const probe = createHealthCheck(database)
  let pruner: KeyPruner | undefined
  app.getDecorator<Observer>('observer').pools(pools)
  app.decorate('database', { pool, replica, probe } satisfies Database)
  // Not awaited: the service starts without a database.
  app.addHook('onReady', done => {
    for (const one of pools.values()) one.warm()
    pruner = startKeyPruner({
      target: database,
      everyMs: PRUNE_MS,
      onRefused: ({ code }) =>
        app.log.warn({ sqlstate: code }, 'expired idempotency keys cannot be deleted')
    })
    done()
  })
  // onClose runs when the server has answered its last request.
  app.addHook('onClose', async () => {
    await Promise.all([
      ...[...pools.values()].map(one => one.close()),
      probe.close(),
      pruner?.close()
    ])
  })
}

/** Logs each schema that is left off once, however many connections of both servers find it. */
function makeSchemaWarning (
  { log }: FastifyInstance
): (unsafe: Connection['unsafeSchemas']) => void {
  const told = new Set<string>()
  return unsafe => {
    for (const { schema, remedy } of unsafe.filter(({ remedy }) => !told.has(remedy))) {
      log.warn({ schema, remedy }, LEFT_OFF)
      told.add(remedy)
    }
  }
}

const LEFT_OFF = 'a schema of DB_EXTRA_SEARCH_PATH is left off, because roles of tokens ' +
  'can create objects in it'

interface OpenPoolOptions {
  readonly config: Config
  readonly target: DatabaseTarget
  readonly warnOfSchemas: (unsafe: Connection['unsafeSchemas']) => void
  /** Stands in each line of the log. */
  readonly which?: Readonly<Record<string, string>>
}

/** A pool that tells the log of its troubles. */
function openPool (
  { log }: FastifyInstance,
  { config, target, warnOfSchemas, which = {} }: OpenPoolOptions
): ConnectionPool {
  let warned = false
  /** Why there is no connection, as far as it was told. */
  const told = new Set<string>()
  return createPool({
    target,
    size: config.POOL_SIZE,
    queueSize: config.QUEUE_SIZE,
    queueTimeoutMs: config.QUEUE_TIMEOUT_MS,
    prepares: config.PREPARED_STATEMENTS === 'on',
    extraSchemas: config.DB_EXTRA_SEARCH_PATH.filter(schema => !config.DB_SCHEMAS.includes(schema)),
    onOpened: ({ privileged, unsafeSchemas }) => {
      if (told.size > 0) log.info(which, 'the database is reachable again')
      told.clear()
      if (privileged && !warned) {
        log.warn(
          { ...which, role: target.user },
          'the login role is superuser or BYPASSRLS: a fault in the service would not be ' +
            'held back by any right or policy'
        )
      }
      warned ||= privileged
      warnOfSchemas(unsafeSchemas)
    },
    // Every request asks for a connection: each reason is told once until there is one. The message
    // alone, without the values that options of DATABASE_URL may hold: the error objects of
    // postgres.js carry even more.
    onOpenFailed: error => {
      const reason = withoutValues(error as DatabaseError)
      if (!told.has(reason)) log.warn({ ...which, reason }, 'no connection to the database')
      told.add(reason)
    }
  })
}

export default fp(db, { name: 'database', fastify: '5.x', dependencies: ['metrics'] })
