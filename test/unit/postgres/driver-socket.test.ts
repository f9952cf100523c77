/**
 * Tests the socket of postgres.js: it passes bytes through, answers BEGIN and COMMIT itself when
 * told to, gives messages to the receiver of a batch, and detects a FATAL error in chunks of any
 * size, but not inside the data of a row.
 */
import { once } from 'node:events'
import { duplexPair, type Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { DriverSocket, type Receiver } from '../../../src/postgres/driver-socket.ts'
import { complete, errorResponse, message, ready } from '../../support/network/messages.ts'

const error = (severity: string, code = '57P01'): Buffer =>
  message('E', `STÖDLICH\0V${severity}\0C${code}\0Mterminating\0\0`)
const row = (size: number): Buffer =>
  message('D', Buffer.concat([error('FATAL'), Buffer.alloc(size, 'x')]))

interface Scene {
  readonly socket: DriverSocket
  /** The side of the socket that the service has. */
  readonly inner: Duplex
  /** The side of the server. */
  readonly server: Duplex
  /** What postgres.js has received. */
  readonly received: Buffer[]
}

function createScene (): Scene {
  const [inner, server] = duplexPair()
  const socket = new DriverSocket(inner as unknown as Socket)
  const received: Buffer[] = []
  socket.on('data', (bytes: Buffer) => received.push(bytes))
  socket.on('error', () => {})
  return { socket, inner, server, received }
}

const receiver = (read: Receiver['read']): Receiver => ({ announce: () => {}, read })

const isFatal = (...chunks: readonly Buffer[]): boolean => {
  const { socket, inner } = createScene()
  for (const chunk of chunks) inner.emit('data', chunk)
  return socket.fatal
}

const split = (data: Buffer): readonly Buffer[] => Array.from(data, byte => Buffer.from([byte]))

t.test('FATAL errors are detected, other messages are not', async t => {
  const rows: ReadonlyArray<readonly [name: string, bytes: Buffer, fatal: boolean]> = [
    ['a FATAL error', error('FATAL'), true],
    ['after other messages', Buffer.concat([row(0), ready('T'), error('FATAL')]), true],
    ['after a large row', Buffer.concat([row(100_000), error('FATAL')]), true],
    ['after an ERROR', Buffer.concat([error('ERROR'), ready('T'), error('FATAL')]), true],
    ['an ERROR', error('ERROR'), false],
    ['an incomplete FATAL error', error('FATAL').subarray(0, -1), false],
    ['a notice', message('N', error('FATAL').subarray(5)), false],
    ['a row that contains one', row(10), false],
    ['an incomplete row that contains one', row(100_000).subarray(0, 300), false],
    ['an error without a severity', message('E', 'C57P01\0\0'), false],
    ['the idle-in-transaction timeout', error('FATAL', '25P03'), true],
    ['an error of a pooler that lost its server', error('FATAL', '08P01'), false],
    ['an error without a code', message('E', 'VFATAL\0\0'), false],
    ['an error that ends early', message('E', 'VFATAL'), false],
    ['an error of a megabyte', message('E', `VFATAL\0M${'x'.repeat(1_000_000)}\0\0`), false]
  ]
  for (const [name, data, fatal] of rows) {
    t.equal(isFatal(data), fatal, name)
    t.equal(
      isFatal(data.subarray(0, 3), data.subarray(3, 9), data.subarray(9)),
      fatal,
      `${name}, in three chunks`
    )
    if (data.length < 1000) t.equal(isFatal(...split(data)), fatal, `${name}, byte by byte`)
  }
})

t.test('a FATAL error during a batch is detected and not passed on', async t => {
  const { socket, inner, received } = createScene()
  const types: number[] = []
  socket.send(Buffer.from('batch'), receiver(({ type }) => types.push(type)))
  inner.emit('data', error('FATAL'))
  t.ok(socket.fatal)
  t.same(types, ['E'.charCodeAt(0)])
  t.same(received, [])
})

t.test('bytes are passed through in both directions', async t => {
  const { socket, server, received } = createScene()
  socket.write(Buffer.from('from postgres.js'))
  t.equal(String((await once(server, 'data'))[0]), 'from postgres.js')
  const answer = Buffer.concat([complete('SELECT 1'), ready('I')])
  const arrived = once(socket, 'data')
  server.write(answer)
  await arrived
  t.ok(Buffer.concat(received).equals(answer))
})

t.test('BEGIN and COMMIT are answered once, after write has returned', async t => {
  const { socket, server, received } = createScene()
  const sent: Buffer[] = []
  server.on('data', (bytes: Buffer) => sent.push(bytes))
  socket.answerBegin()
  socket.write(Buffer.from('begin'))
  t.same(received, [], 'not from inside of write')
  await turn()
  t.ok(received.splice(0)[0]?.equals(Buffer.concat([complete('BEGIN'), ready('T')])))
  socket.answerCommit()
  socket.write(Buffer.from('commit'))
  await turn()
  const [answer] = received.splice(0)
  t.ok(answer?.subarray(-complete('COMMIT').length - ready('I').length).equals(
    Buffer.concat([complete('COMMIT'), ready('I')])
  ))
  t.same(sent, [], 'the server got neither')
  const arrived = once(server, 'data')
  socket.write(Buffer.from('next'))
  await arrived
  t.equal(String(Buffer.concat(sent)), 'next', 'what follows is sent')
})

t.test('during a batch its receiver gets the messages, then postgres.js again', async t => {
  const { socket, inner, server, received } = createScene()
  const messages: string[] = []
  socket.send(Buffer.from('batch'), receiver(({ type, body }) => {
    messages.push(`${String.fromCharCode(type)}${body.toString('latin1')}`)
    if (body.toString() === 'I') socket.returnToDriver()
  }))
  t.equal(String((await once(server, 'data'))[0]), 'batch')
  const late = errorResponse('XX000')
  inner.emit('data', Buffer.concat([complete('SELECT 1'), ready('T'), ready('I'), late]))
  t.same(messages, ['CSELECT 1\0', 'ZT', 'ZI'])
  t.ok(Buffer.concat(received).equals(late), 'from the next message on, in the same chunk')
})

t.test('nothing is delivered after destroy, not even the rest of a chunk', async t => {
  const { socket, inner, received } = createScene()
  const types: number[] = []
  socket.send(Buffer.from('batch'), receiver(({ type }) => {
    types.push(type)
    socket.destroy()
  }))
  inner.emit('data', Buffer.concat([complete('SELECT 1'), complete('COMMIT'), error('FATAL')]))
  t.same(types, ['C'.charCodeAt(0)])
  t.same(received, [])
  t.notOk(socket.fatal)
})

t.test('bytes that are not of the protocol destroy the socket', async t => {
  const rows: ReadonlyArray<readonly [name: string, bytes: Buffer]> = [
    ['an HTTP response', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['a length of 0', Buffer.concat([message('D', '', 0), error('FATAL')])]
  ]
  for (const [name, bytes] of rows) {
    const { socket, inner, received } = createScene()
    const errors: Error[] = []
    socket.on('error', (reason: Error) => errors.push(reason))
    // `once` would reject because of the error.
    const closed = new Promise(resolve => socket.on('close', resolve))
    inner.emit('data', bytes)
    await closed
    t.match(errors, [{ message: 'the server does not speak the protocol of PostgreSQL' }], name)
    t.ok(inner.destroyed)
    t.notOk(socket.fatal)
    t.same(received, [])
  }
})

t.test('the time of the last message is known', async t => {
  const { socket, inner } = createScene()
  const { heardAt } = socket
  await turn()
  inner.emit('data', ready('I'))
  t.ok(socket.heardAt > heardAt)
  t.ok(socket.heardAt <= performance.now())
})

t.test('reports of settings that differ from the start are known', async t => {
  const { socket, inner } = createScene()
  const report = (name: string, value: string): Buffer => message('S', `${name}\0${value}\0`)
  inner.emit('data', Buffer.concat([report('TimeZone', 'UTC'), report('DateStyle', 'ISO, YMD')]))
  socket.keepSettings()
  t.notOk(socket.hasChangedSettings, 'at the start')
  const rows: ReadonlyArray<readonly [reports: readonly Buffer[], changed: boolean]> = [
    [[report('TimeZone', 'UTC')], false],
    [[report('TimeZone', 'Asia/Tokyo')], true],
    [[report('TimeZone', 'UTC'), report('DateStyle', 'ISO, DMY')], true],
    [[report('DateStyle', 'ISO, YMD')], false],
    [[report('TimeZone', 'Asia/Tokyo'), report('TimeZone', 'UTC')], false],
    [[report('search_path', '')], false]
  ]
  for (const [reports, changed] of rows) {
    for (const bytes of reports) inner.emit('data', bytes)
    t.equal(socket.hasChangedSettings, changed, String(Buffer.concat([...reports])))
  }
  socket.keepSettings()
  t.notOk(socket.hasChangedSettings, 'a new start')
  socket.send(Buffer.from('batch'), receiver(() => {}))
  inner.emit('data', report('TimeZone', 'Asia/Tokyo'))
  t.ok(socket.hasChangedSettings, 'during a batch')
})
