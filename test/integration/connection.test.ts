/**
 * What a connection says to the server before there is a session: user, database, the URL's
 * password and nothing of the environment.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { defaultPreferences } from '../../schemas/prefer.ts'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { startAttempt } from '../../src/transaction/attempt.ts'
import {
  query,
  destroyConnection,
  closeConnection,
  type Connection
} from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import { useDatabase } from '../support/database/database.ts'

/**
 * A server that asks for the password in clear text and then hangs up; resolves to the startup
 * message and the password.
 */
async function askForPassword (
  t: Test,
  login: string
): Promise<{ startup: string, password: string }> {
  const { promise, resolve } = Promise.withResolvers<{ startup: string, password: string }>()
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
  await t.rejects(
    openConnection(
      parseDatabaseUrl(
        `postgres://${login}@127.0.0.1:${(server.address() as AddressInfo).port}/shop`
      )
    )
  )
  return promise
}

t.test('the login', async t => {
  process.env['PGPASSWORD'] = 'of somebody else'
  t.teardown(() => {
    delete process.env['PGPASSWORD']
  })
  const { startup, password } = await askForPassword(t, 'app:s%40cret')
  t.match(startup, 'user\0app\0database\0shop\0')
  t.match(startup, 'application_name\0oneflight\0')
  t.equal(password, 's@cret')
  t.equal((await askForPassword(t, 'app')).password, '')
})

t.test('a connection to a server that is not the preferred one does not grow old', async t => {
  const { loginUrl } = await useDatabase(t)
  const [second, first] = await Promise.all([
    openConnection(parseDatabaseUrl(`${loginUrl}?target_session_attrs=prefer-standby`)),
    openConnection(parseDatabaseUrl(loginUrl))
  ])
  t.ok(second.expiresAt <= performance.now() + 60_000)
  t.ok(first.expiresAt > performance.now() + 60_000)
  await Promise.all([second, first].map(closeConnection))
})

t.test('a flight ends with its connection, also when begin does not hear of it', async t => {
  const database = await useDatabase(t)
  const connection = await openConnection(parseDatabaseUrl(database.loginUrl))
  const deaf = {
    ...connection,
    client: { begin: () => new Promise(() => {}) } as unknown as Connection['client']
  }
  const { outcome, released } = startAttempt(deaf, {
    role: 'x',
    session: () => ({ text: 'select 1', parameters: [], prepare: false }),
    operations: [],
    mode: defaultPreferences
  })
  connection.socket.destroy()
  t.match(await outcome, { kind: 'lost', sent: false })
  await released
  t.ok(connection.state.dead)
  t.equal(connection.state.onLost, undefined)
})

t.test('a question ends with its connection', async t => {
  const connection = await openConnection(parseDatabaseUrl((await useDatabase(t)).loginUrl))
  t.same(await query(connection, "select 'x' as y"), [{ y: 'x' }])
  const asked = query(connection, 'select pg_sleep(60)')
  destroyConnection(connection)
  await t.rejects(asked, { message: 'the connection was lost' })
  await t.rejects(
    query(connection, 'select 1'),
    { message: 'the connection was lost' },
    'and where there is none it is not asked'
  )
})
