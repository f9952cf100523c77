/** Tests when a service with several databases counts as healthy. */
import t from 'tap'
import { anyReachable } from '../../../src/transaction/database.ts'

const probe = (result: boolean | Promise<boolean>) => ({
  probe: { reachable: async () => await result }
})
const never = new Promise<boolean>(() => {})

t.test('one database that answers is enough', async t => {
  t.equal(await anyReachable([probe(true)]), true)
  t.equal(await anyReachable([probe(false), probe(true)]), true)
  t.equal(await anyReachable([probe(never), probe(false), probe(true)]), true, 'none is awaited')
})

t.test('without an answer of any database the service is not healthy', async t => {
  t.equal(await anyReachable([probe(false)]), false)
  t.equal(await anyReachable([probe(false), probe(false)]), false)
})
