/** Tests that large bodies leave time to other requests, and small ones do not wait. */
import t from 'tap'
import { timed, Turns } from '../../../src/plan/turns.ts'

const LARGE = 1_000_000

t.test('a large body waits twice as long as the one before it took', async t => {
  const turns = new Turns()
  await turns.wait(LARGE)
  const started = performance.now()
  turns.spend(60, LARGE)
  await turns.wait(100)
  const small = performance.now() - started
  await turns.wait(LARGE)
  const large = performance.now() - started
  t.ok(large >= 119, `${large} ms`)
  t.ok(small < large, 'a small body did not wait')
})

t.test('large bodies are read one by one, in their order', async t => {
  const turns = new Turns()
  const order: number[] = []
  const started = performance.now()
  await Promise.all([1, 2, 3].map(async n => {
    await turns.wait(LARGE)
    order.push(n)
    turns.spend(20, LARGE)
  }))
  t.same(order, [1, 2, 3])
  t.ok(performance.now() - started >= 79)
})

t.test('too many large bodies are refused, small ones are not', async t => {
  const turns = new Turns()
  turns.spend(30, LARGE)
  turns.spend(1e9, 100)
  const waits = Array.from({ length: 32 }, () => turns.wait(LARGE))
  await t.rejects(turns.wait(LARGE), { code: 'overloaded', status: 503 })
  await turns.wait(100)
  await Promise.all(waits)
  await turns.wait(LARGE)
})

t.test('work is timed also when it throws', async t => {
  const reported: number[] = []
  t.equal(timed(() => 1, ms => reported.push(ms)), 1)
  t.throws(() => timed(() => { throw new Error('x') }, ms => reported.push(ms)), { message: 'x' })
  t.equal(reported.length, 2)
  t.equal(timed(() => 2, undefined), 2)
})
