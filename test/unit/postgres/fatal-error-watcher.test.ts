/**
 * Tests that a FATAL error message of the server is detected in chunks of any size and after other
 * messages, but not inside the data of a row.
 */
import { PassThrough } from 'node:stream'
import type { Socket } from 'node:net'
import t from 'tap'
import { watchFatalErrors } from '../../../src/postgres/fatal-error-watcher.ts'

const message = (type: string, body: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}
const error = (severity: string, code = '57P01'): Buffer =>
  message('E', Buffer.from(`STÖDLICH\0V${severity}\0C${code}\0Mterminating\0\0`))
const row = (size: number): Buffer =>
  message('D', Buffer.concat([error('FATAL'), Buffer.alloc(size, 'x')]))
const ready = message('Z', Buffer.from('T'))

const detects = (...chunks: readonly Buffer[]): boolean => {
  const socket = new PassThrough()
  const watcher = watchFatalErrors(socket as unknown as Socket)
  for (const chunk of chunks) socket.emit('data', chunk)
  return watcher.fatal
}

const split = (data: Buffer): readonly Buffer[] => Array.from(data, byte => Buffer.from([byte]))

t.test('FATAL errors are detected, other messages are not', async t => {
  const rows: ReadonlyArray<readonly [name: string, bytes: Buffer, fatal: boolean]> = [
    ['a FATAL error', error('FATAL'), true],
    ['after other messages', Buffer.concat([row(0), ready, error('FATAL')]), true],
    ['after a large row', Buffer.concat([row(100_000), error('FATAL')]), true],
    ['after an ERROR', Buffer.concat([error('ERROR'), ready, error('FATAL')]), true],
    ['an ERROR', error('ERROR'), false],
    ['an incomplete FATAL error', error('FATAL').subarray(0, -1), false],
    ['a notice', message('N', error('FATAL').subarray(5)), false],
    ['a row that contains one', row(10), false],
    ['an incomplete row that contains one', row(100_000).subarray(0, 300), false],
    ['an error without a severity', message('E', Buffer.from('C57P01\0\0')), false],
    ['the idle-in-transaction timeout', error('FATAL', '25P03'), true],
    ['an error of a pooler that lost its server', error('FATAL', '08P01'), false],
    ['an error without a code', message('E', Buffer.from('VFATAL')), false],
    [
      'an error of a megabyte',
      message(
        'E',
        Buffer.concat([Buffer.from('VFATAL\0M'), Buffer.alloc(1_000_000, 'x'), Buffer.from('\0\0')])
      ),
      false
    ],
    ['an invalid length', Buffer.concat([Buffer.from([69, 0, 0, 0, 0]), error('FATAL')]), true]
  ]
  for (const [name, data, fatal] of rows) {
    t.equal(detects(data), fatal, name)
    t.equal(
      detects(data.subarray(0, 3), data.subarray(3, 9), data.subarray(9)),
      fatal,
      `${name}, in three chunks`
    )
    if (data.length < 1000) t.equal(detects(...split(data)), fatal, `${name}, byte by byte`)
  }
})
