/**
 * Tests the message reader: it delivers every message completely and in order for any division into
 * chunks, and refuses what PostgreSQL cannot have sent.
 */
import { deepEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t from 'tap'
import { connectWithReadBuffer, createMessageReader } from '../../../src/postgres/messages.ts'
import { useListener } from '../../support/network/listen.ts'

const message = (size: number, type = 'D'): Buffer => {
  const bytes = Buffer.alloc(size, type.toLowerCase())
  bytes.write(type)
  bytes.writeUInt32BE(size - 1, 1)
  return bytes
}

/** Passes the chunks to a reader and returns the messages that it delivers. */
const deliver = (chunks: readonly Buffer[]): readonly Buffer[] => {
  const delivered: Buffer[] = []
  const announced: Array<readonly [type: number, size: number]> = []
  const push = createMessageReader(
    bytes => delivered.push(bytes),
    (type, size) => announced.push([type, size])
  )
  for (const chunk of chunks) push(chunk)
  const described = delivered.map(bytes => [bytes[0], bytes.length])
  deepEqual(announced.slice(0, delivered.length), described, 'each is announced once')
  return delivered
}

const cut = (bytes: Buffer, ...offsets: readonly number[]): readonly Buffer[] =>
  [0, ...offsets].map((offset, i) => bytes.subarray(offset, offsets[i] ?? bytes.length))

const [READ, LARGE] = [65_536, 200_000]

t.test('every message is delivered completely', async t => {
  const [small, large] = [message(40, 'C'), message(LARGE)]
  const [three, both] = [[small, small, small], [small, large, small]]
  const rows = [
    ['several in one chunk', three, []],
    ['a divided body', three, [10, 70]],
    ['a header byte by byte', three, [41, 42, 43, 44, 45]],
    ['a chunk that ends with a message', three, [40, 80]],
    ['a large message in chunks', both, [1000, 66_000, 131_000]],
    ['a large message that ends with a chunk', both, [1000, 40 + LARGE]],
    ['a large message, divided in its header', both, [42, 66_000]],
    ['a large message that arrives in one chunk', both, []],
    ['a message of the size of a read', [message(READ)], [100]],
    ['an empty chunk', three, [20, 20, 42, 42]],
    ['messages without a body', [message(5, '1'), message(5, '2'), message(5, 'n')], [3, 7]]
  ] as const
  for (const [name, messages, offsets] of rows) {
    const delivered = deliver(cut(Buffer.concat(messages), ...offsets))
    t.strictSame(delivered.map(({ length }) => length), messages.map(({ length }) => length), name)
    t.ok(Buffer.concat(delivered).equals(Buffer.concat(messages)), `${name}: every byte`)
  }
})

t.test('an incomplete message is not delivered', async t => {
  for (const size of [5, 40, LARGE]) {
    for (const missing of [1, size - 5, size - 4, size - 1].filter(bytes => bytes > 0)) {
      const bytes = Buffer.concat([message(10, 'Z'), message(size).subarray(0, -missing)])
      t.equal(deliver([bytes]).length, 1, `${missing} of ${size} bytes are missing`)
      t.equal(deliver(cut(bytes, 8, 12)).length, 1)
    }
  }
})

t.test('messages may be divided at any offset', async t => {
  const messages = [
    message(5),
    message(6, 'Z'),
    message(70_000),
    message(5, '1'),
    message(65_537),
    message(8, 'Z')
  ]
  const stream = Buffer.concat(messages)
  for (let shift = 1; shift < 40; shift++) {
    const chunks = cut(
      stream,
      ...[shift, 70_000 - shift, 70_011 + shift, 135_560 + shift].toSorted((a, b) => a - b)
    )
    const delivered = deliver(chunks)
    t.strictSame(
      delivered.map(({ length }) => length),
      messages.map(({ length }) => length),
      `${shift} bytes from a message boundary`
    )
    t.ok(Buffer.concat(delivered).equals(stream))
  }
  const small = Buffer.concat([message(5), message(6, 'Z'), message(30), message(7)])
  for (let size = 1; size <= small.length; size++) {
    const offsets = Array.from({ length: Math.ceil(small.length / size) - 1 }, (_, i) =>
      (i + 1) * size)
    t.equal(deliver(cut(small, ...offsets)).length, 4, `chunks of ${size} bytes`)
  }
})

t.test('bytes that PostgreSQL cannot have sent are refused', async t => {
  const before = message(10, 'Z')
  const rows: ReadonlyArray<readonly [name: string, bytes: Buffer]> = [
    ['a length above the maximum', Buffer.from('HTTP/1.1 400 Bad Request')],
    ['a length that does not count itself', Buffer.from([69, 0, 0, 0, 3])],
    ['a length of 0', Buffer.from([69, 0, 0, 0, 0])]
  ]
  for (const [name, bytes] of rows) {
    const stream = Buffer.concat([before, bytes])
    for (const chunks of [[stream], cut(stream, 12), cut(stream, 10)]) {
      t.throws(() => deliver(chunks), { message: /protocol of PostgreSQL/ }, name)
    }
  }
})

t.test('a socket emits what it receives, and chunks keep their bytes', async t => {
  const bytes = Buffer.concat([message(10, 'Z'), message(3 * LARGE), message(10, 'Z')])
  const server = createServer(socket => {
    socket.end(bytes)
  })
  const socket: Socket = connectWithReadBuffer({
    host: '127.0.0.1',
    port: await useListener(t, server)
  })
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
  })
  await once(socket, 'close')
  t.ok(Buffer.concat(chunks).equals(bytes))
  t.strictSame(deliver(chunks).map(({ length }) => length), [10, 3 * LARGE, 10])
})
