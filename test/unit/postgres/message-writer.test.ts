/**
 * Tests the messages to PostgreSQL, byte by byte. The expected bytes follow
 * https://www.postgresql.org/docs/18/protocol-message-formats.html
 */
import t from 'tap'
import { MessageWriter } from '../../../src/postgres/messages.ts'

const write = (compose: (writer: MessageWriter) => MessageWriter): Buffer =>
  compose(new MessageWriter()).finish()

t.test('each message has the bytes of the protocol', async t => {
  const rows: ReadonlyArray<
    readonly [name: string, compose: (writer: MessageWriter) => MessageWriter, bytes: string]
  > = [
    [
      'Parse of an unnamed statement',
      writer => writer.parse('', 'select'),
      'P\0\0\0\x0e' + '\0' + 'select\0' + '\0\0'
    ],
    [
      'Parse of a named statement',
      writer => writer.parse('s1', 'é'),
      'P\0\0\0\x0c' + 's1\0' + '\xc3\xa9\0' + '\0\0'
    ],
    [
      'Bind without parameters',
      writer => writer.bind('s1', []),
      'B\0\0\0\x10' + '\0' + 's1\0' + '\0\0' + '\0\0' + '\0\x01\0\x01'
    ],
    [
      'Bind with a text, an empty text, NULL and UTF-8',
      writer => writer.bind('', ['ab', '', null, 'é€😀']),
      'B\0\0\0\x29' + '\0' + '\0' + '\0\0' + '\0\x04' +
        '\0\0\0\x02ab' + '\0\0\0\0' + '\xff\xff\xff\xff' +
        '\0\0\0\x09\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80' + '\0\x01\0\x01'
    ],
    ['Execute', writer => writer.execute(), 'E\0\0\0\x09' + '\0' + '\0\0\0\0'],
    ['Flush', writer => writer.flush(), 'H\0\0\0\x04'],
    ['Sync', writer => writer.sync(), 'S\0\0\0\x04'],
    ['Query', writer => writer.query('commit'), 'Q\0\0\0\x0bcommit\0'],
    ['several messages', writer => writer.flush().sync(), 'H\0\0\0\x04S\0\0\0\x04'],
    ['no message', writer => writer, '']
  ]
  for (const [name, compose, bytes] of rows) {
    t.equal(write(compose).toString('latin1'), bytes, name)
  }
})

t.test('a batch may be larger than the memory that is kept', async t => {
  for (const size of [10, 65_536, 200_000, 3_000_000]) {
    const value = 'ü'.repeat(size)
    const bytes = write(writer => writer.bind('', [value, null]).sync())
    t.equal(bytes.length, 5 + 2 + 2 + 2 + 4 + 2 * size + 4 + 4 + 5, `${size} characters`)
    t.equal(bytes.readUInt32BE(1), bytes.length - 1 - 5)
    t.equal(bytes.readInt32BE(11), 2 * size)
    t.ok(bytes.subarray(15, 15 + 2 * size).equals(Buffer.from(value)))
    t.equal(bytes.readInt32BE(15 + 2 * size), -1)
    t.equal(bytes.subarray(-5).toString('latin1'), 'S\0\0\0\x04')
  }
})

t.test('what was written does not change when the next batch is written', async t => {
  const first = write(writer => writer.query('select 1'))
  const copy = Buffer.from(first)
  write(writer => writer.query('x'.repeat(100)))
  t.ok(first.equals(copy))
})

t.test('up to 65535 parameters can be bound', async t => {
  const bytes = write(writer => writer.bind('', Array<null>(65_535).fill(null)))
  t.equal(bytes.readUInt16BE(9), 65_535)
})
