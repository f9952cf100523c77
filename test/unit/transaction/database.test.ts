/** Tests when the database counts as able to run batches. */
import t from 'tap'
import { findProblem, type Database } from '../../../src/transaction/decorators.ts'

const problemOf = (answers: boolean, stuck = false): ReturnType<typeof findProblem> =>
  findProblem({
    pool: { isStuck: () => stuck },
    probe: { reachable: async () => answers }
  } as unknown as Database)

t.test('a database that answers can run batches', async t => {
  t.equal(await problemOf(true), undefined)
  t.equal(await problemOf(false), 'database')
})

t.test('a pool that is stuck runs no batch, even if its database answers', async t => {
  t.equal(await problemOf(true, true), 'pool')
  t.equal(await problemOf(false, true), 'pool')
})
