/**
 * Tests that kept statements are limited by their bytes, over all plans and variants.
 */
import t from 'tap'
import { StatementCache } from '../../../src/sql/statement-cache.ts'

const MAX_BYTES = 8 * 1024 * 1024
const newPlan = (): object => ({})

function useCache () {
  const cache = new StatementCache()
  return {
    cache,
    /** Returns how many times the statements were compiled. */
    find (
      owner: object,
      bytes: number,
      { variant = '', types = [] }: { variant?: string, types?: readonly unknown[] } = {}
    ): number {
      let created = 0
      cache.find({ owner, variant, types }, () => {
        created++
        const parameters = ['x'.repeat(bytes / 4)]
        const statement = { text: 'x'.repeat(bytes / 4), parameters, prepare: true }
        return { statements: [statement] }
      })
      return created
    }
  }
}

t.test('statements are found until others need their memory', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  const HALF = 512 * 1024
  t.equal(find(plan, HALF), 1)
  t.equal(find(plan, HALF), 0)
  t.equal(find(plan, HALF, { variant: 'other' }), 1, 'another variant')
  for (let i = 0; i < 10; i++) find(newPlan(), HALF)
  t.equal(find(plan, HALF), 0, 'still there, and used last')
  for (let i = 0; i < 8; i++) find(newPlan(), HALF)
  t.equal(find(plan, HALF), 0)
  t.equal(find(plan, HALF, { variant: 'other' }), 1, 'not used for longer')
  t.ok(cache.bytes > 0.9 * MAX_BYTES && cache.bytes <= MAX_BYTES, `${cache.bytes} bytes`)
})

t.test('statements of former types give their memory back', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  find(plan, 1000, { types: [{}] })
  const { bytes } = cache
  const types = [{}]
  t.equal(find(plan, 1000, { types }), 1)
  t.equal(find(plan, 1000, { types }), 0)
  t.equal(cache.bytes, bytes)
})

t.test('statements that are too large are not kept', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  t.equal(find(plan, 2 * MAX_BYTES), 1)
  t.equal(find(plan, 2 * MAX_BYTES), 1)
  t.equal(cache.bytes, 0)
})
