/**
 * Tests the SQL for Citus on PostgreSQL, where it must have the same results.
 * test/e2e/citus.test.ts runs it on Citus.
 */
import t from 'tap'
import { compareShops, useShop } from '../support/distributed-shop.ts'

t.test('the SQL for Citus has the same results on PostgreSQL', async t => {
  const actual = await useShop(t, 'postgresql', { DATABASE_ENGINE: 'citus' })
  await compareShops(t, actual, await useShop(t, 'postgresql'))
})
