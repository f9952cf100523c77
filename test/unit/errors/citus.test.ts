/**
 * Tests what is said instead of messages of Citus.
 */
import t from 'tap'
import { fromCitus } from '../../../src/errors/citus.ts'

t.test('a message is recognized with the detail that it has', async t => {
  const message = 'cannot push down this subquery'
  for (const [detail, expected] of [
    ['Subqueries without a FROM clause can only contain immutable functions', /^Citus does not comp/],
    ['Limit clause is currently unsupported', /^Citus reads rows of several tables only/],
    [undefined, /^Citus reads rows of several tables only/]
  ] as const) {
    const error = { code: '0A000', message, ...detail !== undefined && { detail } }
    t.match(fromCitus(error), { code: '0A000', message: expected })
  }
})
