import t from 'tap'
import { withLaterCondition } from '../../../src/errors/postgres.ts'

t.test('a bad hstore is a syntax error, as from PostgreSQL 16 on', async t => {
  const error = { code: 'XX000', message: 'Unexpected end of string', severity: 'ERROR' } as const
  for (const [routine, code] of [
    ['get_val', '42601'], ['parse_hstore', '42601'], ['relation_open', 'XX000']
  ] as const) {
    t.equal(withLaterCondition({ ...error, routine }).code, code, routine)
  }
})
