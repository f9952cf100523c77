/** Tests when a service with several databases counts as healthy. */
import t from 'tap'
import { findProblem, type Database } from '../../../src/transaction/decorators.ts'

const database = (result: boolean | Promise<boolean>, stuck = false) => ({
  pool: { isStuck: () => stuck },
  probe: { reachable: async () => await result }
}) as unknown as Database
const never = new Promise<boolean>(() => {})

t.test('one database that answers is enough', async t => {
  t.equal(await findProblem([database(true)]), undefined)
  t.equal(await findProblem([database(false), database(true)]), undefined)
  const all = [database(never), database(false), database(true)]
  t.equal(await findProblem(all), undefined, 'the others are not awaited')
  t.equal(await findProblem([database(true, true), database(true)]), undefined)
})

t.test('without an answer of any database the service is not healthy', async t => {
  t.equal(await findProblem([database(false)]), 'database')
  t.equal(await findProblem([database(false), database(false)]), 'database')
  t.equal(await findProblem([database(true, true), database(false)]), 'database')
})

t.test('a pool that is stuck runs no batch, even if its database answers', async t => {
  t.equal(await findProblem([database(true, true)]), 'pool')
  t.equal(await findProblem([database(true, true), database(false, true)]), 'pool')
})
