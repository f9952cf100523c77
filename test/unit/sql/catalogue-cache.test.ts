/**
 * Tests the age of what the service knows of the catalogue: it is read again in time, and stays the
 * same object until it changes.
 */
import t from 'tap'
import { CatalogueCache } from '../../../src/sql/values/catalogue-cache.ts'

const name = { schema: 'public', name: 't' }

t.test('what is known is read again after 30 s, and before it is used after 60 s', async t => {
  let seconds = 1000
  t.intercept(performance, 'now', { value: () => seconds * 1000 })
  const cache = new CatalogueCache<object>(() => 100)
  const states = (): readonly boolean[] => [cache.isUnknown(name), cache.startsToAge(name)]
  t.same(states(), [true, false], 'nothing is known')
  const keep = (source: string): object => cache.keep(name, { source, create: () => ({ source }) })
  keep('a')
  const first = cache.lookup(name)
  t.same(first, { source: 'a' })
  const rows = [
    [29.9, [false, false]], [30, [false, true]], [31, [false, false]], [59.9, [false, false]],
    [60, [true, false]]
  ] as const
  for (const [age, expected] of rows) {
    seconds = 1000 + age
    t.same(states(), expected, `after ${age} s`)
  }
  t.equal(cache.lookup(name), first, 'batches that have begun still use it')
  keep('a')
  t.same(states(), [false, false], 'it was read again')
  t.equal(cache.lookup(name), first, 'the same object')
  seconds += 30
  t.same(states(), [false, true], 'it ages again')
  keep('b')
  t.same(cache.lookup(name), { source: 'b' })
  seconds += 60
  t.same(states(), [true, true], 'it was not used for a minute')
  cache.delete(name)
  t.equal(cache.lookup(name), undefined)
  t.same(states(), [true, false])
})

t.test('the memory is bounded', async t => {
  const cache = new CatalogueCache<object>(() => 1024 ** 2)
  const names = Array.from({ length: 9 }, (_, i) => ({ schema: 'public', name: `t${i}` }))
  for (const name of names) cache.keep(name, { source: '', create: () => ({}) })
  t.same(names.filter(name => cache.isUnknown(name)), names.slice(0, 1))
})
