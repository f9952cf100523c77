/**
 * What a connection receives: every byte in its order, however it was cut on the way, and a large
 * message in one piece.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { connectMessageReader, createMessageReader } from '../../../src/postgres/message-reader.ts'

const message = (size: number, type = 'D'): Buffer => {
  const bytes = Buffer.alloc(size, type.toLowerCase())
  bytes.write(type)
  bytes.writeUInt32BE(size - 1, 1)
  return bytes
}

/**
 * What is delivered of these chunks. Each is overwritten behind the reader's back, as the next read
 * would.
 */
const deliver = (chunks: readonly Buffer[]): readonly Buffer[] => {
  const delivered: Buffer[] = []
  const take = createMessageReader(bytes => {
    delivered.push(bytes)
  })
  for (const chunk of chunks) {
    const read = Buffer.from(chunk)
    take(read)
    read.fill(0)
  }
  return delivered
}

const cut = (bytes: Buffer, ...places: readonly number[]): readonly Buffer[] =>
  [0, ...places].map((place, i) => bytes.subarray(place, places[i] ?? bytes.length))

const [READ, LARGE] = [65_536, 200_000]

t.test('what is delivered', async t => {
  const [small, large] = [message(40, 'C'), message(LARGE)]
  const both = Buffer.concat([small, large, small])
  const rows: ReadonlyArray<
    readonly [name: string, chunks: readonly Buffer[], sizes: readonly number[]]
  > = [
    ['small messages as they come', cut(Buffer.concat([small, small, small]), 10, 70), [
      10,
      60,
      50
    ]],
    ['a header in pieces', cut(Buffer.concat([small, small]), 41, 43), [41, 2, 37]],
    ['a large message in one piece', cut(both, 1000, 66_000, 131_000), [40, LARGE, 40]],
    ['one whose header ends its chunk', cut(both, 45, 66_000), [40, LARGE, 40]],
    ['one that ends with a chunk', cut(both, 1000, 40 + LARGE), [40, LARGE, 40]],
    ['one whose header is cut, as it comes', cut(both, 42, 66_000), [42, 65_958, 134_080]],
    ['one that is in one chunk', [both], [2 * 40 + LARGE]],
    ['one as long as a read', cut(message(READ), 100), [100, READ - 100]],
    ['two large ones', cut(Buffer.concat([large, large]), 100_000, 250_000), [LARGE, LARGE]],
    [
      'what is longer than any message',
      [Buffer.from('HTTP/1.1 400'), Buffer.from(' Bad Request')],
      [12, 12]
    ],
    ['a length that is none', [
      Buffer.from([69, 0, 0, 0, 0]),
      large.subarray(0, 10),
      large.subarray(10)
    ], [5, LARGE]]
  ]
  for (const [name, chunks, sizes] of rows) {
    const delivered = deliver(chunks)
    t.strictSame(delivered.map(({ length }) => length), sizes, name)
    t.ok(Buffer.concat(delivered).equals(Buffer.concat(chunks)), `${name}: every byte`)
  }
})

t.test('cut anywhere', async t => {
  const whole = Buffer.concat([
    message(5),
    message(6, 'Z'),
    message(70_000),
    message(5, '1'),
    message(65_537),
    message(8, 'Z')
  ])
  for (let place = 1; place < 40; place++) {
    const chunks = cut(
      whole,
      ...[place, 70_000 - place, 70_011 + place, 135_560 + place].toSorted((a, b) => a - b)
    )
    const delivered = deliver(chunks)
    t.ok(
      Buffer.concat(delivered).equals(whole),
      `${place} bytes from where a message begins or ends`
    )
    t.ok(
      delivered.some(({ length }) => length === 65_537 || length === 70_000),
      `${place}: at least one large message came in one piece`
    )
  }
})

t.test('a socket', async t => {
  const bytes = Buffer.concat([message(10, 'Z'), message(3 * LARGE), message(10, 'Z')])
  const server = createServer(socket => {
    socket.end(bytes)
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const socket: Socket = connectMessageReader({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port
  })
  const received: Buffer[] = []
  socket.on('data', (chunk: Buffer) => {
    received.push(chunk)
  })
  await once(socket, 'close')
  t.ok(Buffer.concat(received).equals(bytes))
  t.ok(received.some(({ length }) => length === 3 * LARGE), 'the large message is one chunk')
})
