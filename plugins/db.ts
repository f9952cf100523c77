/**
 * The database: the pool of lanes and the probe, opened with the app and closed with it. Nothing of a batch is known here.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import type { DatabaseTarget } from '../schemas/database.ts'
import { withoutValues, type DatabaseError } from '../src/errors/postgres.ts'
import type { Database } from '../src/run/database.ts'
import { createPool } from '../src/run/pool.ts'
import { createProbe } from '../src/run/probe.ts'
import type { Observer } from '../src/run/observer.ts'

export interface DbOptions { readonly config: Config, readonly database: DatabaseTarget }

async function db (app: FastifyInstance, { config, database }: DbOptions): Promise<void> {
  let warned = false
  const pool = createPool({
    target: database,
    size: config.POOL_SIZE,
    queueSize: config.QUEUE_SIZE,
    queueTimeoutMs: config.QUEUE_TIMEOUT_MS,
    onOpened: ({ privileged }) => {
      if (privileged && !warned) app.log.warn({ role: database.user }, 'the login role is superuser or BYPASSRLS: a fault in the service would not be held back by any right or policy')
      warned ||= privileged
    },
    // The message alone, without the values that options of DATABASE_URL may hold: the error objects of postgres.js carry even more.
    onOpenFailed: reason => app.log.warn({ reason: withoutValues(reason as DatabaseError) }, 'no connection to the database')
  })
  const probe = createProbe(database)
  app.getDecorator<Observer>('observer').pool(pool.count)
  app.decorate('database', { pool, probe } satisfies Database)
  // Not awaited: the service starts without a database.
  app.addHook('onReady', done => {
    pool.warm()
    done()
  })
  // onClose runs when the server has answered its last request.
  app.addHook('onClose', async () => {
    await Promise.all([pool.close(), probe.close()])
  })
}

export default fp(db, { name: 'db', fastify: '5.x', dependencies: ['metrics'] })
