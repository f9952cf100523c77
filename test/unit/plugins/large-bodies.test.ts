/** Tests that large bodies leave time to other requests, and small ones do not wait. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { LargeBodies, type BodyWork } from '../../../plugins/routes/large-bodies.ts'

const LARGE = 100_000
const SMALL = 100

/** Works for a body as long as this. */
function workFor (work: BodyWork, ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
  work[Symbol.dispose]()
}

async function measure (wait: Promise<unknown>): Promise<number> {
  const start = performance.now()
  await wait
  return performance.now() - start
}

t.test('beside small bodies, a large one waits twice as long as the one before took', async t => {
  const bodies = new LargeBodies()
  await bodies.start(SMALL)
  const first = await bodies.start(LARGE)
  const second = bodies.start(LARGE)
  workFor(first, 30)
  first[Symbol.dispose]()
  const small = bodies.start(SMALL)
  t.equal(await Promise.race([second, small]), await small, 'a small body did not wait')
  const ms = await measure(second)
  t.ok(ms > 30, `${ms} ms`)
})

t.test('without small bodies, large ones do not wait', async t => {
  const bodies = new LargeBodies()
  workFor(await bodies.start(LARGE), 200)
  t.ok(await Promise.race([bodies.start(LARGE), delay(200)]))
})

t.test('a large body waits until the work for the one before has ended', async t => {
  const bodies = new LargeBodies()
  const order: number[] = []
  await Promise.all([1, 2, 3].map(async n => {
    using work = await bodies.start(LARGE)
    order.push(n)
    await work.next()
    await delay(5)
    order.push(n)
  }))
  t.same(order, [1, 1, 2, 2, 3, 3])
})

t.test('others proceed between two parts of the work for a large body', async t => {
  const bodies = new LargeBodies()
  let count = 0
  setImmediate(() => count++)
  await (await bodies.start(SMALL)).next()
  t.equal(count, 0)
  await (await bodies.start(LARGE)).next()
  t.equal(count, 1)
})

t.test('too many large bodies are refused, small ones are not', async t => {
  const bodies = new LargeBodies()
  const all = Array.from({ length: 64 }, async () => {
    const work = await bodies.start(LARGE)
    work[Symbol.dispose]()
  })
  await t.rejects(bodies.start(LARGE), { code: 'overloaded', status: 503 })
  await bodies.start(SMALL)
  await Promise.all(all)
  await bodies.start(LARGE)
})
