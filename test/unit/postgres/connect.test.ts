/**
 * Tests connecting to PostgreSQL: order of hosts, timeouts and clean-up of sockets, with responsive
 * and silent servers.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import t from 'tap'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'
import { openConnection } from '../../../src/postgres/open-connection.ts'
import { waitForEvent } from '../../../src/postgres/tls.ts'
import { nameHosts, open, ping } from '../../support/network/sockets.ts'
import { startServer } from '../../support/network/tls-server.ts'

nameHosts({ 'twice.test': ['::1', '127.0.0.1'] })

t.test('a connection over a Unix socket is never encrypted', async t => {
  const directory = await mkdtemp(`${tmpdir()}/oneflight-`)
  t.teardown(() => rm(directory, { recursive: true }))
  const server = await startServer('no-tls', `${directory}/.s.PGSQL.5432`)
  t.teardown(server.stop)
  const socket = await open('', `host=${directory}&sslmode=verify-full`)
  t.equal(await ping(socket), 'pong')
})

async function openAny (hosts: string, query: string): Promise<void> {
  await openConnection(parseDatabaseUrl(`postgres://app:hunter2@${hosts}/db?${query}`))
}

t.test('the error lists the failure of every address', async t => {
  await t.rejects(openAny('[::1]:1,127.0.0.1:1,twice.test:1', 'sslmode=require'), {
    message: new RegExp(`^${
      [
        String.raw`no connection to the database: \[::1\]:1: connect .*`,
        String.raw`127\.0\.0\.1:1: connect ECONNREFUSED .*`,
        String.raw`twice\.test:1: connect \w+ ::1:1.*, connect ECONNREFUSED 127\.0\.0\.1:1`
      ].join('; ')
    }$`)
  })
  await t.rejects(openAny('', 'host=/nowhere'), {
    message: /: \/nowhere\/\.s\.PGSQL\.5432: connect ENOENT /
  })
})

t.test('the connect timeout is shared among the hosts', async t => {
  const [silent, closed] = [await startServer('silent'), await startServer('close')]
  t.teardown(silent.stop)
  t.teardown(closed.stop)
  const mute = `127.0.0.1:${silent.port}`
  const hosts = `${mute},${mute},127.0.0.1:${closed.port}`
  await t.rejects(openAny(hosts, 'sslmode=require&connect_timeout=1'), {
    message: /: no answer within \d\d\d ms; .*: no answer within \d\d\d ms; .*: the server closed/
  })
  // Connections to silent servers are closed.
  await silent.unused()
})

t.test('a TLS handshake that never ends times out', async t => {
  const silent = await startServer('silent')
  t.teardown(silent.stop)
  await t.rejects(
    open(`127.0.0.1:${silent.port}`, 'sslmode=require&sslnegotiation=direct', 100),
    { message: /no answer within \d+ ms$/ }
  )
  await silent.unused()
})

t.test('a socket that closes right after its event is rejected', async t => {
  const socket = new Socket()
  const waiting = waitForEvent(socket, 'connect')
  socket.emit('connect')
  socket.destroy()
  await t.rejects(waiting, { message: 'the server closed the connection' })
  t.strictSame(['connect', 'error', 'close'].map(event => socket.listenerCount(event)), [0, 0, 0])
})
