/**
 * The last word of a server, as it may come: in pieces, behind rows of any size, and not where only
 * a row says so.
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

const hear = (...chunks: readonly Buffer[]): boolean => {
  const socket = new PassThrough()
  const farewell = watchFatalErrors(socket as unknown as Socket)
  for (const chunk of chunks) socket.emit('data', chunk)
  return farewell.fatal
}

const bytes = (whole: Buffer): readonly Buffer[] => Array.from(whole, byte => Buffer.from([byte]))

t.test('what is FATAL', async t => {
  const rows: ReadonlyArray<readonly [name: string, bytes: Buffer, fatal: boolean]> = [
    ['a FATAL', error('FATAL'), true],
    ['behind others', Buffer.concat([row(0), ready, error('FATAL')]), true],
    ['behind a large row', Buffer.concat([row(100_000), error('FATAL')]), true],
    ['behind an error', Buffer.concat([error('ERROR'), ready, error('FATAL')]), true],
    ['an ERROR', error('ERROR'), false],
    ['a FATAL that is not whole', error('FATAL').subarray(0, -1), false],
    ['a notice', message('N', error('FATAL').subarray(5)), false],
    ['a row that holds one', row(10), false],
    ['a row that holds one, cut', row(100_000).subarray(0, 300), false],
    ['an error without a severity', message('E', Buffer.from('C57P01\0\0')), false],
    ['for a transaction that was idle', error('FATAL', '25P03'), true],
    ['of a pooler that lost its server', error('FATAL', '08P01'), false],
    ['an error without a code', message('E', Buffer.from('VFATAL')), false],
    [
      'an error of a megabyte',
      message(
        'E',
        Buffer.concat([Buffer.from('VFATAL\0M'), Buffer.alloc(1_000_000, 'x'), Buffer.from('\0\0')])
      ),
      false
    ],
    ['a length that is none', Buffer.concat([Buffer.from([69, 0, 0, 0, 0]), error('FATAL')]), true]
  ]
  for (const [name, whole, fatal] of rows) {
    t.equal(hear(whole), fatal, name)
    t.equal(
      hear(whole.subarray(0, 3), whole.subarray(3, 9), whole.subarray(9)),
      fatal,
      `${name}, in three pieces`
    )
    if (whole.length < 1000) t.equal(hear(...bytes(whole)), fatal, `${name}, byte by byte`)
  }
})
