/**
 * Tests the app without options that the service always gives.
 */
import t from 'tap'
import { namedBatchesOf } from '../../../src/server/app.ts'

t.test('an app without named batches has none', async t => {
  t.equal(namedBatchesOf({})().size, 0)
})
