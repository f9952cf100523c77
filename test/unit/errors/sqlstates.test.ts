/**
 * Tests that the named SQLSTATEs agree with the table of PostgreSQL.
 */
import t from 'tap'
import { conditions } from '../../../src/errors/conditions.ts'
import { isUndefinedTable, isValueError, SqlState } from '../../../src/errors/sqlstates.ts'

t.test('every SQLSTATE has the name of PostgreSQL', async t => {
  for (const [name, code] of Object.entries(SqlState)) t.equal(conditions.get(code), name)
})

t.test('a missing schema counts as a missing table', async t => {
  t.same(['42P01', '3F000', '42703', '42501'].map(isUndefinedTable), [true, true, false, false])
})

t.test('class 22 and the syntax error of a text query are value errors', async t => {
  t.same(['22P02', '42601', '42P01', '23505'].map(isValueError), [true, true, false, false])
})
