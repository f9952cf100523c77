/**
 * Connecting to PostgreSQL: hosts, deadlines and what is left on the socket, against servers that
 * behave and servers that do not.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import t from 'tap'
import { waitForEvent } from '../../../src/postgres/wait-for-event.ts'
import { nameHosts, open, ping } from '../../support/network/sockets.ts'
import { startServer } from '../../support/network/tls-server.ts'

nameHosts({ 'twice.test': ['::1', '127.0.0.1'] })

t.test('a Unix socket is never encrypted', async t => {
  const directory = await mkdtemp(`${tmpdir()}/oneflight-`)
  t.teardown(() => rm(directory, { recursive: true }))
  const server = await startServer('no-tls', `${directory}/.s.PGSQL.5432`)
  t.teardown(server.stop)
  const { socket, address } = await open('', `host=${directory}&sslmode=verify-full`)
  t.equal(address, `${directory}/.s.PGSQL.5432`)
  t.equal(socket.writableHighWaterMark, 1024 * 1024 * 1024)
  t.equal(await ping(socket), 'pong')
})

t.test('hosts take turns', async t => {
  const [one, two] = [await startServer('no-tls'), await startServer('no-tls')]
  t.teardown(one.stop)
  t.teardown(two.stop)
  const [a, b] = [`127.0.0.1:${one.port}`, `127.0.0.1:${two.port}`]
  for (
    const [hosts, start, address, nextHost] of [
      [`${a},${b}`, 0, a, 1],
      [`${a},${b}`, 1, b, 2],
      [`127.0.0.1:1,${b}`, 0, b, 2],
      [`127.0.0.1:1,${a},${b}`, 1, a, 2]
    ] as const
  ) {
    const opened = await open(hosts, '', start)
    opened.socket.destroy()
    t.match(opened, { address, nextHost }, `${hosts} from ${start}`)
  }
  await t.rejects(open(`${a},127.0.0.1:1`, '', 1), {
    message: /^no connection to the database: 127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1$/
  }, 'what was tried is not tried again')
})

t.test('every failure of every address is named', async t => {
  const error = await t.rejects(
    open('[::1]:1,127.0.0.1:1,twice.test:1', 'sslmode=require')
  ) as unknown as AggregateError
  t.match(
    error.message,
    /^no connection to the database: \[::1\]:1: connect .*; 127\.0\.0\.1:1: connect ECONNREFUSED .*; twice\.test:1: connect \w+ ::1:1.*, connect ECONNREFUSED 127\.0\.0\.1:1$/
  )
  t.equal(error.errors.length, 3)
})

t.test('the deadline holds, shared among the hosts', async t => {
  const [silent, good] = [await startServer('silent'), await startServer('tls')]
  t.teardown(silent.stop)
  t.teardown(good.stop)
  const mute = `127.0.0.1:${silent.port}`
  await t.rejects(open(`${mute},${mute}`, 'sslmode=require', 0, 300), {
    message: /no answer within \d+ ms; .*no answer within \d+ ms$/
  })
  // What did not answer is closed.
  await silent.unused()
  const { socket } = await open(`${mute},127.0.0.1:${good.port}`, 'sslmode=require', 0, 4000)
  t.equal(await ping(socket), 'pong', 'one that never answers leaves time for the next')
})

t.test('a handshake that never ends is cut off', async t => {
  const silent = await startServer('silent')
  t.teardown(silent.stop)
  await t.rejects(
    open(`127.0.0.1:${silent.port}`, 'sslmode=require&sslnegotiation=direct', 0, 100),
    { message: /no answer within \d+ ms$/ }
  )
  await silent.unused()
})

t.test('a socket that dies right behind its event is not handed over', async t => {
  const socket = new Socket()
  const waiting = waitForEvent(socket, 'connect')
  socket.emit('connect')
  socket.destroy()
  await t.rejects(waiting, { message: 'the server closed the connection' })
  t.strictSame(['connect', 'error', 'close'].map(event => socket.listenerCount(event)), [0, 0, 0])
})
