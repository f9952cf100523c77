/**
 * Tests connecting to PostgreSQL: order of hosts, timeouts and clean-up of sockets, with responsive
 * and silent servers.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import t from 'tap'
import { waitForEvent } from '../../../src/postgres/tls.ts'
import { nameHosts, open, ping } from '../../support/network/sockets.ts'
import { startServer } from '../../support/network/tls-server.ts'

nameHosts({ 'twice.test': ['::1', '127.0.0.1'] })

t.test('a connection over a Unix socket is never encrypted', async t => {
  const directory = await mkdtemp(`${tmpdir()}/oneflight-`)
  t.teardown(() => rm(directory, { recursive: true }))
  const server = await startServer('no-tls', `${directory}/.s.PGSQL.5432`)
  t.teardown(server.stop)
  const { socket, address } = await open('', `host=${directory}&sslmode=verify-full`)
  t.equal(address, `${directory}/.s.PGSQL.5432`)
  t.equal(await ping(socket), 'pong')
})

t.test('hosts are tried in order from the given start', async t => {
  const [one, two] = [await startServer('no-tls'), await startServer('no-tls')]
  t.teardown(one.stop)
  t.teardown(two.stop)
  const [a, b] = [`127.0.0.1:${one.port}`, `127.0.0.1:${two.port}`]
  const rows = [
    [`${a},${b}`, 0, a, 1],
    [`${a},${b}`, 1, b, 2],
    [`127.0.0.1:1,${b}`, 0, b, 2],
    [`127.0.0.1:1,${a},${b}`, 1, a, 2]
  ] as const
  for (const [hosts, start, address, nextHost] of rows) {
    const opened = await open(hosts, '', start)
    opened.socket.destroy()
    t.match(opened, { address, nextHost }, `${hosts} from ${start}`)
  }
  await t.rejects(open(`${a},127.0.0.1:1`, '', 1), {
    message: /^no connection to the database: 127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1$/
  }, 'hosts before the start are not tried')
})

t.test('the error lists the failure of every address', async t => {
  await t.rejects(open('[::1]:1,127.0.0.1:1,twice.test:1', 'sslmode=require'), {
    message: new RegExp(`^${
      [
        String.raw`no connection to the database: \[::1\]:1: connect .*`,
        String.raw`127\.0\.0\.1:1: connect ECONNREFUSED .*`,
        String.raw`twice\.test:1: connect \w+ ::1:1.*, connect ECONNREFUSED 127\.0\.0\.1:1`
      ].join('; ')
    }$`)
  })
})

t.test('the connect timeout is shared among the hosts', async t => {
  const [silent, good] = [await startServer('silent'), await startServer('tls')]
  t.teardown(silent.stop)
  t.teardown(good.stop)
  const mute = `127.0.0.1:${silent.port}`
  await t.rejects(open(`${mute},${mute}`, 'sslmode=require', 0, 300), {
    message: /no answer within \d+ ms; .*no answer within \d+ ms$/
  })
  // Connections to silent servers are closed.
  await silent.unused()
  const { socket } = await open(`${mute},127.0.0.1:${good.port}`, 'sslmode=require', 0, 4000)
  t.equal(await ping(socket), 'pong', 'a silent host leaves time for the next one')
})

t.test('a TLS handshake that never ends times out', async t => {
  const silent = await startServer('silent')
  t.teardown(silent.stop)
  await t.rejects(
    open(`127.0.0.1:${silent.port}`, 'sslmode=require&sslnegotiation=direct', 0, 100),
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
