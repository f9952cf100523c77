import t from 'tap'
import { fromDatabase, withLaterCondition } from '../../../src/errors/postgres.ts'

t.test('a bad hstore is a syntax error, as from PostgreSQL 16 on', async t => {
  const error = { code: 'XX000', message: 'Unexpected end of string', severity: 'ERROR' } as const
  for (const [routine, code] of [
    ['get_val', '42601'], ['parse_hstore', '42601'], ['relation_open', 'XX000']
  ] as const) {
    t.equal(withLaterCondition({ ...error, routine }).code, code, routine)
  }
})

t.test('the log names what the server has run out of, and the response does not', async t => {
  const disk = {
    code: '53100',
    message: 'could not extend file "base/1/2": No space left on device',
    hint: 'Check free disk space.',
    severity: 'ERROR'
  } as const
  const { hint, ...memory } = { ...disk, code: '53200', message: 'out of memory' }
  for (const [error, reason] of [
    [disk, `${disk.message}. ${hint}`], [memory, 'out of memory']
  ] as const) {
    const failed = fromDatabase(error, { op: null, index: null })
    t.match(failed, { code: 'database_unavailable', reason, details: { sqlstate: error.code } })
    t.notMatch(failed.message, /space|memory/)
  }
})
