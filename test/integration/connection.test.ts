/** Tests the login and lifetime of a connection, and attempts and queries that lose it. */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import {
  query,
  destroyConnection,
  closeConnection,
  type Connection
} from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import { startAttempt } from '../../src/transaction/attempt.ts'
import { useDatabase } from '../support/database/database.ts'
import { plainBatch } from '../support/database/engine.ts'

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
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
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
  const { outcome, released } = startAttempt(neverBegins, plainBatch([]))
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
