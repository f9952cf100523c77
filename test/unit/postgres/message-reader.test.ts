/**
 * Tests the message reader: it delivers every byte in order for any division into chunks, and each
 * large message as one chunk.
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
 * Passes the chunks to a reader and returns what it delivers. Each chunk is overwritten afterwards,
 * as the next read from a socket would do.
 */
const deliver = (chunks: readonly Buffer[]): readonly Buffer[] => {
  const delivered: Buffer[] = []
  const push = createMessageReader(bytes => {
    delivered.push(bytes)
  })
  for (const chunk of chunks) {
    const read = Buffer.from(chunk)
    push(read)
    read.fill(0)
  }
  return delivered
}

const cut = (bytes: Buffer, ...offsets: readonly number[]): readonly Buffer[] =>
  [0, ...offsets].map((offset, i) => bytes.subarray(offset, offsets[i] ?? bytes.length))

const [READ, LARGE] = [65_536, 200_000]

t.test('small messages are delivered as received, large ones as one chunk', async t => {
  const [small, large] = [message(40, 'C'), message(LARGE)]
  const both = Buffer.concat([small, large, small])
  const rows: ReadonlyArray<
    readonly [name: string, chunks: readonly Buffer[], sizes: readonly number[]]
  > = [
    [
      'small messages as received',
      cut(Buffer.concat([small, small, small]), 10, 70),
      [10, 60, 50]
    ],
    ['a divided header', cut(Buffer.concat([small, small]), 41, 43), [41, 2, 37]],
    ['a large message as one chunk', cut(both, 1000, 66_000, 131_000), [40, LARGE, 40]],
    ['a large message, divided after its header', cut(both, 45, 66_000), [40, LARGE, 40]],
    ['a large message that ends with a chunk', cut(both, 1000, 40 + LARGE), [40, LARGE, 40]],
    ['a large message, divided in its header', cut(both, 42, 66_000), [42, 65_958, 134_080]],
    ['a large message that arrives in one chunk', [both], [2 * 40 + LARGE]],
    ['a message of the size of a read', cut(message(READ), 100), [100, READ - 100]],
    ['two large messages', cut(Buffer.concat([large, large]), 100_000, 250_000), [LARGE, LARGE]],
    [
      'a length above the maximum',
      [Buffer.from('HTTP/1.1 400'), Buffer.from(' Bad Request')],
      [12, 12]
    ],
    [
      'an invalid length',
      [Buffer.from([69, 0, 0, 0, 0]), large.subarray(0, 10), large.subarray(10)],
      [5, LARGE]
    ]
  ]
  for (const [name, chunks, sizes] of rows) {
    const delivered = deliver(chunks)
    t.strictSame(delivered.map(({ length }) => length), sizes, name)
    t.ok(Buffer.concat(delivered).equals(Buffer.concat(chunks)), `${name}: every byte`)
  }
})

t.test('messages may be divided at any offset', async t => {
  const stream = Buffer.concat([
    message(5),
    message(6, 'Z'),
    message(70_000),
    message(5, '1'),
    message(65_537),
    message(8, 'Z')
  ])
  for (let shift = 1; shift < 40; shift++) {
    const chunks = cut(
      stream,
      ...[shift, 70_000 - shift, 70_011 + shift, 135_560 + shift].toSorted((a, b) => a - b)
    )
    const delivered = deliver(chunks)
    t.ok(
      Buffer.concat(delivered).equals(stream),
      `${shift} bytes from a message boundary`
    )
    t.ok(
      delivered.some(({ length }) => length === 65_537 || length === 70_000),
      `${shift}: at least one large message is one chunk`
    )
  }
})

t.test('a socket emits a large message as one chunk', async t => {
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
  t.ok(received.some(({ length }) => length === 3 * LARGE), 'one chunk')
})
