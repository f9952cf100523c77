/**
 * Tests the login and lifetime of a connection, attempts and queries that lose it, and that servers
 * which are not PostgreSQL, or untested versions of Citus, are refused.
 */
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import {
  query,
  destroyConnection,
  closeConnection,
  type Connection
} from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import { Attempt } from '../../src/transaction/attempt.ts'
import { useDatabase } from '../support/database/database.ts'
import { plainBatch } from '../support/database/engine.ts'
import { untilSessions } from '../support/database/hold.ts'
import { useListener } from '../support/network/listen.ts'
import * as op from '../support/operations.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { answering, ask, useService } from '../support/service.ts'

const { loginUrl } = await useDatabase(t)

interface Login {
  readonly startup: string
  readonly password: string
}

/** Requests the password in clear text. Returns it and the startup message. */
async function captureLogin (t: Test, login: string): Promise<Login> {
  const { promise, resolve } = Promise.withResolvers<Login>()
  const server = createServer(socket => {
    socket.once('data', startup => {
      socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]))
      socket.once('data', message => {
        resolve({
          startup: startup.subarray(8).toString(),
          password: message.subarray(5, -1).toString()
        })
        socket.end()
      })
    })
  })
  const port = await useListener(t, server)
  await t.rejects(openConnection(parseDatabaseUrl(`postgres://${login}@127.0.0.1:${port}/shop`)))
  return promise
}

t.test('a login uses user, database and password of the URL and ignores PGPASSWORD', async t => {
  process.env['PGPASSWORD'] = 'of the environment'
  t.teardown(() => {
    delete process.env['PGPASSWORD']
  })
  const { startup, password } = await captureLogin(t, 'app:s%40cret')
  t.match(startup, 'user\0app\0database\0shop\0')
  t.match(startup, 'application_name\0oneflight\0')
  t.equal(password, 's@cret')
  t.equal((await captureLogin(t, 'app')).password, '')
})

t.test('a connection to a fallback server is recycled sooner', async t => {
  const [fallback, preferred] = await Promise.all([
    openConnection(parseDatabaseUrl(`${loginUrl}?target_session_attrs=prefer-standby`)),
    openConnection(parseDatabaseUrl(loginUrl))
  ])
  t.ok(fallback.expiresAt <= performance.now() + 60_000)
  t.ok(preferred.expiresAt > performance.now() + 60_000)
  await Promise.all([fallback, preferred].map(closeConnection))
})

t.test('an attempt ends with its connection, even if begin never settles', async t => {
  const connection = await openConnection(parseDatabaseUrl(loginUrl))
  const neverBegins = {
    ...connection,
    client: { begin: () => new Promise(() => {}) } as unknown as Connection['client']
  }
  const { outcome, released } = new Attempt(neverBegins, plainBatch([]))
  connection.socket.destroy()
  t.match(await outcome, { kind: 'lost', sent: false })
  await released
  t.ok(connection.state.dead)
  t.equal(connection.state.onLost, undefined)
})

t.test('a query fails when its connection is lost', async t => {
  const connection = await openConnection(parseDatabaseUrl(loginUrl))
  t.same(await query(connection, "select 'x' as y"), [{ y: 'x' }])
  const pending = query(connection, 'select pg_sleep(60)')
  destroyConnection(connection)
  const lost = { message: 'the connection was lost' }
  await t.rejects(pending, lost)
  await t.rejects(query(connection, 'select 1'), lost, 'at once')
})

const citus = `
  create table t (n int);
  insert into pg_catalog.pg_extension
    (oid, extname, extowner, extnamespace, extrelocatable, extversion)
  select 1, 'citus', extowner, extnamespace, false, '12.1-1'
  from pg_catalog.pg_extension where extname = 'plpgsql'`
const removeCitus = "delete from pg_catalog.pg_extension where extname = 'citus'"

const batch = [op.select('s', 't')]
const reason = /^Citus 12\.1-1 is not supported.*row level security fails open/

t.test('an untested version of Citus is refused, and the log states the reason', async t => {
  const { post, database, adminUrl, url, log } = await useService(t, {
    schema: citus, replicaUrl: url => url, env: { POOL_SIZE: '1' }
  })
  const target = parseDatabaseUrl(database.loginUrl)
  for (const prefer of ['', 'access=read-only']) {
    t.match(await post(batch, { headers: { prefer } }), {
      status: 503, body: { error: { code: 'database_unavailable', committed: false } }
    })
  }
  t.equal((await ask(`${adminUrl}/ready`)).status, 503)
  t.equal((await ask(`${url}/health`)).status, 503)
  const reasons = log.filter(({ msg }) => msg === 'could not connect to the database')
  t.match(reasons, [{ reason }, { reason }])
  t.same(reasons.map(({ server }) => server).sort(), ['replica', undefined], 'once for each server')

  await t.rejects(makeKeyTable(database), { message: reason }, 'the migration is refused, too')
  for (const roleSettings of [true, false]) {
    await t.rejects(openConnection(target, { roleSettings }), { message: reason })
  }
  await untilSessions(database, 0)

  await database.sql.unsafe(removeCitus)
  t.equal((await post(batch)).status, 200)
  await answering(`${adminUrl}/ready`)
  await closeConnection(await openConnection(target))
})

t.test('DATABASE_ENGINE overrides the refusal, and the log states its reason once', async t => {
  const { post, log } = await useService(t, {
    schema: citus, env: { DATABASE_ENGINE: 'postgresql' }
  })
  for (let i = 0; i < 2; i++) t.equal((await post(batch)).status, 200)
  t.match(log.filter(({ reason }) => reason !== undefined), [{
    level: 40,
    engine: 'postgresql',
    reason: /extension citus: row level security fails open/,
    msg: /^DATABASE_ENGINE overrides the refusal /
  }])
})

t.test('a product that is not PostgreSQL is refused by its version', async t => {
  const { sql, name, loginUrl } = await useDatabase(t, {
    schema: `
      create schema product;
      create function product.version() returns text language sql
        return 'CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)';
      grant usage on schema product to public;`
  })
  // The service does not name the schema of version(), because other products may lack it.
  await sql.unsafe(`alter database "${name}" set search_path = product, pg_catalog`)
  await t.rejects(openConnection(parseDatabaseUrl(loginUrl)), {
    message: /^CockroachDB is not supported: advisory locks/
  })
})
